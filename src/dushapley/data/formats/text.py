"""CSV, TSV and kin: encodings by charset-normalizer, separators by clevercsv, rows by Arrow."""

from __future__ import annotations

import codecs
import csv
import re
import unicodedata
from collections.abc import Sequence
from functools import partial
from io import BytesIO, StringIO
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow

from dushapley.data.formats.layout import is_total, layout_of
from dushapley.data.formats.raw import Account, Raw, shortened
from dushapley.data.formats.unpacking import refuse_too_many_rows
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOwners

MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Missing values as everybody writes them (those of pandas)."""
OWN_SEPARATOR = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SEPARATORS = (",", ";", "\t", "|", "^", "~", ":", " ")
ENCODINGS = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp850", "mac_roman",
    "cp932", "gb18030", "big5", "euc_kr", "utf_16", "utf_16_le", "utf_16_be", "utf_32",
)  # fmt: skip
"""What people's programs write, beside UTF-8; of those as likely, the first is taken."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order marks, the longer ones first where one begins another."""
CLOSE = 0.2
"""Coherence by which charset-normalizer's candidates may differ and still be as likely."""
Dialect = type[csv.Dialect]
SAMPLE, DETECTED_ON = 1 << 16, 1 << 13
"""Bytes looked at for the layout, and characters for the separator."""


def read_text(content: bytes, ending: str, reading: Reading, account: Account) -> Raw:
    """A table from separated text."""
    content = as_utf8(content, reading, account)
    sample = _sample(content)
    how = dialect(sample, ending, reading, account)
    lines, starts = _lines(sample, how)
    names, first = layout_of(lines, reading, account)
    start = starts[first]
    body = b"".join(content.split(b"\n", start)[start:])
    refuse_too_many_rows(account.name, body.count(b"\n"), reading)
    body, total = _without_total(body, how, reading)
    account.marks.update(mark for mark in reading.missing if _holds(body, how, mark))
    named = [name or f"\0{k}" for k, name in enumerate(names)]
    parsed = partial(_parsed, body, how, named, reading, account)
    return Raw(parsed(), parsed, total)


def as_utf8(content: bytes, reading: Reading, account: Account) -> bytes:
    """Text in UTF-8 with plain line ends, whatever it was."""
    marked = (name for mark, name in MARKS.items() if content.startswith(mark))
    encoding = reading.encoding or next(marked, None)
    if encoding is None and not _is_utf8(content):
        encoding = account.known.get("encoding") or _detected_encoding(content, account)
        _tell_encoding(encoding, content, account)
    if encoding is not None:
        content = _recoded(content, encoding, account)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content[:SAMPLE]  # UTF-16 without its mark decodes, full of zeros


def _detected_encoding(content: bytes, account: Account) -> str:
    """The likeliest encoding, by charset-normalizer and by where its special letters stand."""
    from charset_normalizer import from_bytes

    odd, near = _foreign(content)
    matches = list(from_bytes(near, cp_isolation=list(ENCODINGS)))
    if not matches:
        raise InvalidOwners(
            f"{account.name} is not text in any encoding that is common (UTF-8 fails at byte "
            f"{odd}). Name the encoding with --read encoding=NAME, or save the file as UTF-8."
        )
    sane = [m for m in matches if m.chaos == min(match.chaos for match in matches)]
    fluent = max(match.coherence for match in sane) - CLOSE
    able = {code for m in sane if m.coherence >= fluent for code in m.could_be_from_charset}
    known = [code for code in ENCODINGS if code in able]
    return max(known, key=lambda code: plausibility(near.decode(code, "replace")))


def _foreign(content: bytes) -> tuple[int, bytes]:
    """Where the first byte is that plain text does not have, and what stands around it."""
    odd = next((k for k, byte in enumerate(content) if byte > 127 or byte == 0), 0)
    return odd, content[max(0, odd - SAMPLE) & ~1 : odd + SAMPLE]


def _tell_encoding(encoding: str, content: bytes, account: Account) -> None:
    account.detected["encoding"] = encoding
    try:
        text = _foreign(content)[1].decode(encoding, "replace")
    except LookupError:  # no such encoding, which is refused when all is decoded
        return
    words = text.replace(";", " ").replace(",", " ").split()
    word = shortened(next((word for word in words if not word.isascii()), ""))
    account.tell(
        "encoding",
        "note",
        f"{account.name} is read as {encoding} (its first special letters: {word!r}); "
        "--read encoding=NAME takes another.",
    )


def plausibility(text: str) -> float:
    """The part of special characters that are letters, and not capitals inside a word.

    Examples
    --------
    >>> plausibility("Müller"), plausibility("M³ller"), plausibility("MŸller")
    (1.0, 0.0, 0.0)
    """
    found = re.findall(r"(.?)([^\x00-\x7f])(.?)", text)
    return sum(_fits(*one) for one in found) / max(len(found), 1)


def _fits(left: str, letter: str, right: str) -> bool:
    inside = left.isalpha() and letter.isupper() and right.islower()
    latin = (left + right).isascii() and (left + right).strip(" ,;\t").isalpha()
    foreign = latin and not unicodedata.name(letter, "").startswith("LATIN")
    return letter == "€" or (letter.isalpha() and not inside and not foreign)


def _recoded(content: bytes, encoding: str, account: Account) -> bytes:
    try:
        return content.decode(encoding).lstrip("\ufeff").encode("utf-8")
    except LookupError as error:
        raise InvalidOwners(
            f"{encoding!r} is not an encoding. Common ones: utf-8, cp1252, utf-16, cp850."
        ) from error
    except (UnicodeError, ValueError) as error:
        where = getattr(error, "start", 0)
        raise InvalidOwners(
            f"{account.name} is not text in {encoding}: it cannot be decoded at byte {where}. Name "
            "its encoding with --read encoding=NAME, or save it as UTF-8."
        ) from error


def _sample(content: bytes) -> bytes:
    """The first lines, whole ones."""
    end = SAMPLE
    for _ in range(4):  # wide tables have long lines
        if content.count(b"\n", 0, end) >= 4:
            break
        end *= 16
    if end >= len(content):
        return content
    cut = content.rfind(b"\n", 0, end)
    return content[: cut + 1] if cut >= 0 else content


def dialect(sample: bytes, ending: str, reading: Reading, account: Account) -> Dialect:
    """What separates columns: what the file's name says if every line agrees, else detected."""
    text = sample.decode("utf-8")
    own, known = OWN_SEPARATOR.get(ending), account.known.get("sep")
    told = known if reading.sep is None else reading.sep
    if told is not None and len(told) != 1:
        raise InvalidOwners(f"sep is {told!r}; it takes one character.")
    if reading.sep is not None:
        return _made(reading.sep)
    if known is not None:
        found = _made(known)
    else:
        likely = SEPARATORS[:4] if ending == ".csv" else SEPARATORS
        if own is not None and _agrees(text, own):
            return _made(own)
        if not any(mark in text for mark in likely):
            return _made(own or ",")  # a single column
        found = _detected_dialect(text, account)
    mark = found.delimiter
    if mark != own:
        account.detected["sep"] = mark
        account.tell("separator", "note", f"{account.name} has its columns separated by {mark!r}.")
    return found


def _agrees(text: str, separator: str) -> bool:
    """Whether all lines have the same number of fields, two at least, and names look like names."""
    try:
        rows = list(csv.reader(StringIO(text), _made(separator)))
    except csv.Error:
        return False
    widths = {len(row) for row in rows if row}
    if len(widths) != 1 or widths == {1}:
        return False
    others = [mark for mark in SEPARATORS[:4] if mark != separator]
    return not any(mark in name for name in rows[0] for mark in others)


def _detected_dialect(text: str, account: Account) -> Dialect:
    from clevercsv import Sniffer
    from clevercsv.exceptions import Error

    lines = text[:DETECTED_ON].splitlines(keepends=True)
    if len(text) > DETECTED_ON and len(lines) > 2:
        lines.pop()  # it was cut
    try:
        found = Sniffer().sniff("".join(lines), delimiters=list(SEPARATORS))
    except (Error, ValueError, IndexError, ZeroDivisionError):
        found = None
    if found is not None and found.delimiter:
        return _made(found.delimiter, found.quotechar or '"', found.escapechar or None)
    if "," in text:
        return _made(",")
    first = shortened(text.splitlines()[0], 60)
    raise InvalidOwners(
        f"It cannot be told what separates the columns of {account.name}: its first line is "
        f"{first!r}. Say it with --read sep=;."
    )


def _made(separator: str, quote: str = '"', escape: str | None = None) -> Dialect:
    how = {"delimiter": separator, "quotechar": quote, "escapechar": escape}
    return type("Found", (csv.excel,), how)


def _lines(sample: bytes, how: Dialect) -> tuple[list[list[str]], list[int]]:
    """Records of the sample, and the line of the file that each starts on."""
    csv.field_size_limit(1 << 30)
    reader = csv.reader(StringIO(sample.decode("utf-8"), newline=""), how)
    records: list[list[str]] = []
    starts = [0]
    try:
        for record in reader:
            records.append(record)
            starts.append(reader.line_num)
    except csv.Error:  # the rest is Arrow's to refuse
        pass
    return records, starts


def _without_total(body: bytes, how: Dialect, reading: Reading) -> tuple[bytes, list[str] | None]:
    """The rows, less a last line that calls itself a total, which is given back."""
    kept = body.rstrip(b"\n" + how.delimiter.encode() + b" ")
    cut = kept.rfind(b"\n") + 1
    if reading.totals == "keep" or cut == 0 or len(kept) - cut > SAMPLE:
        return body, None
    text = body[cut:].partition(b"\n")[0].decode("utf-8")
    try:
        last = next(csv.reader([text], how), [])
    except csv.Error:
        return body, None
    return (body[:cut], last) if is_total(last) else (body, None)


def _parsed(
    body: bytes,
    how: Dialect,
    names: list[str],
    reading: Reading,
    account: Account,
    texts: Sequence[str] = (),
) -> pa.Table:
    """All columns in the types that they seem to have, or some as text.

    Arrow reads them: its numbers are the nearest to what is written.
    """
    if not body.strip():
        return pa.table({name: pa.array([], pa.string()) for name in names})
    ragged: list[Any] = []

    def keep(row: Any) -> str:
        ragged.append(row)
        return "skip"

    longest = max(map(len, body[: 1 << 24].split(b"\n", 64)[:64]))
    # a block takes the longest line, and leaves some for other threads
    block = max(1 << 20, min(8 * longest, 1 << 30))
    try:
        table = arrow.read_csv(
            BytesIO(body),
            arrow.ReadOptions(column_names=names, block_size=block),
            arrow.ParseOptions(
                delimiter=how.delimiter,
                quote_char=how.quotechar,
                escape_char=how.escapechar or False,
                newlines_in_values=str(how.quotechar).encode() in body,
                invalid_row_handler=keep,
            ),
            arrow.ConvertOptions(
                null_values=[*MISSING, *reading.missing],
                strings_can_be_null=True,
                column_types=dict.fromkeys(texts, pa.string()),
                include_columns=list(texts),
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
    except (pa.ArrowException, ValueError, OSError, OverflowError) as error:
        raise InvalidOwners(
            f"{account.name} cannot be read as CSV: {str(error).strip()[:200]}."
        ) from error
    if ragged and not texts:
        _tell_of(ragged, body, account)
    return table


def _holds(body: bytes, how: Dialect, mark: str) -> bool:
    """Whether a field is this mark: Arrow reads it as missing and does not say so."""
    word = mark.encode()
    end = rb"[" + re.escape(f"{how.delimiter}{how.quotechar}".encode()) + rb"\r\n]"
    field = rb"(?:^|%b)%b(?:$|%b)" % (end, re.escape(word), end)
    return word in body and re.search(field, body) is not None


def _tell_of(ragged: list[Any], body: bytes, account: Account) -> None:
    row = ragged[0]
    lines = b"\n" + body.rstrip(b"\n") + b"\n"
    position = lines.find(b"\n" + row.text.encode() + b"\n")
    number, place = None, ""
    if position >= 0:
        number = lines.count(b"\n", 0, position) + 1
        place = f", row {number},"
    message = (
        f"{len(ragged)} row(s) of {account.name} do not have the {row.expected_columns} fields "
        f"that its names ask for; the first{place} has {row.actual_columns}: "
        f"{shortened(row.text, 60)!r}. Mend these rows."
    )
    account.tell("ragged-row", "stop", message, row=number, value=row.text)
