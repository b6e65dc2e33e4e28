"""Tables and sentences in the terminal, and names and numbers as they are shown everywhere.

What comes from files is other people's text. It reaches a terminal through `printable` only, here
and in the words of every error: no name or note can clear the screen, reverse a line or add one.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from html import escape
from io import StringIO
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO
from unicodedata import category

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

STDOUT, STDERR = 1, 2
"""Numbers of their descriptors."""
MOST_COLUMNS = 10_000
"""Wide enough for any table, so that its text does not depend on the terminal."""
DECEPTIVE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that reverse, hide or break the text around them."""


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    indent: int = 2,
    width: int | None = None,
    widest: int | None = None,
) -> str:
    """Lay out cells in columns that are as wide as their contents, by rich.

    Wide (Chinese) and combining characters are counted as terminals show them. Cells are plain
    text: neither markup nor colours, and nothing that a terminal would obey.

    Parameters
    ----------
    headers, rows
        Titles of the columns (empty: no title line) and cells; a row may end early.
    left
        Positions of the left-aligned columns; the others are right-aligned.
    indent
        Spaces before every line.
    width
        Columns to fit into by wrapping the last cell of each row between words; None never wraps.
    widest
        Columns that the first cells may take; what is longer goes on below. None: any number.

    Examples
    --------
    >>> print(table(["owner", "rows"], [["北京", "1,200"], ["Lyon", "80"]]))
      owner   rows
      北京   1,200
      Lyon      80
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headers))
    cells = [[Text(printable(cell)) for cell in row] for row in rows]
    for k in range(max(map(len, [headers, *cells]))):
        title = Text(printable(headers[k])) if headers else Text()
        needed = max(cell.cell_len for cell in (title, *(row[k] for row in cells if k < len(row))))
        grid.add_column(title, justify="left" if k in left else "right", min_width=needed)
    if widest is not None:
        first = grid.columns[0]
        first.max_width, first.overflow = widest, "fold"
        first.min_width = min(first.min_width or 0, widest)
    grid.columns[-1].min_width = None
    for row in cells:
        grid.add_row(*row)
    console = Console(
        file=StringIO(),
        width=MOST_COLUMNS,
        color_system=None,
        force_jupyter=False,  # in a notebook rich would show the table instead of writing it
    )
    if width is not None:
        console.width = max(width - indent, console.measure(grid).minimum + 2)
    with console.capture() as text:
        console.print(grid)
    return "\n".join(f"{' ' * indent}{line}".rstrip() for line in text.get().splitlines())


def html_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], bars: Sequence[float] = ()
) -> str:
    """The same for notebooks; behind each name a bar, as long as its part of the longest.

    Bars are see-through, so that they can be read on light and dark grounds.
    """
    longest = max(map(abs, bars), default=0.0) or 1.0
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    lines = []
    for k, (name, *cells) in enumerate(rows):
        part = bars[k] / longest if k < len(bars) and np.isfinite(bars[k]) else 0.0
        colour = "rgba(178,83,47,.35)" if part < 0 else "rgba(47,111,178,.35)"
        bar = f"linear-gradient(90deg,{colour} {100 * abs(part):.1f}%,transparent 0)"
        style = f"text-align:left;min-width:9em;background:{bar}" if bars else "text-align:left"
        rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr><td style='{style}'><bdi>{escape(name)}</bdi></td>{rest}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def say(sentence: str) -> None:
    """Tell the person, not the pipe; whatever is quoted in it is shown as text."""
    if sys.stderr is not None:  # as it is where the shell closed it
        print(printable(sentence, keep="\n"), file=sys.stderr)


_RESULTS: list[TextIO] = []
"""The stream that results go to while everything else that is printed goes to stderr."""


def output(result: object) -> None:
    """Print a result: to stdout, which inside `results_only` nothing else reaches.

    It is text that cannot steer the terminal it is shown in.
    """
    print(printable(str(result), keep="\n\t"), file=_results(), flush=True)


def columns() -> int | None:
    """Width of the terminal that results go to; None where they go to a file or a pipe."""
    stream = _results()
    return get_terminal_size().columns if stream is not None and stream.isatty() else None


def _results() -> TextIO | None:
    return _RESULTS[-1] if _RESULTS else sys.stdout


@contextmanager
def results_only() -> Iterator[None]:
    """Keep stdout for `output`: what models print there goes to stderr, from C and workers too.

    The descriptor itself is turned to stderr, so that compiled code and processes started
    meanwhile follow; where Python's stdout is something else (a test, a notebook), it is left out
    of this.
    """
    if not all(map(_is_open, (STDOUT, STDERR))):  # then nothing can be mixed up
        yield
        return
    stream = sys.stdout
    stream.flush()
    kept, own = os.dup(STDOUT), _descriptor(stream) == STDOUT
    _RESULTS.append(_on(kept, stream) if own else stream)
    os.dup2(STDERR, STDOUT)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.pop()
        if os.name == "posix":  # what C code printed leaves its buffer while it goes to stderr
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, STDOUT)
        os.close(kept)


def _on(descriptor: int, like: TextIO) -> TextIO:
    """A stream on another descriptor that writes as this one does."""
    return open(descriptor, "w", encoding=like.encoding, errors=like.errors, closefd=False)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):  # it is not a file, or closed
        return None


def printable(text: str, keep: str = "") -> str:
    r"""Text in which � replaces what could reverse, hide or break the text around it.

    Examples
    --------
    >>> printable("north\nsouth")
    'north�south'
    """
    if text.isprintable():
        return text
    return "".join("�" if category(c) in DECEPTIVE and c not in keep else c for c in text)


def json_text(data: object) -> str:
    r"""JSON that is exact; what could deceive the reader of it is written as an escape.

    Examples
    --------
    >>> json_text(["Łódź" + chr(0x9B) + "2J"]).split()[1]
    '"Łódź\\u009b2J"'
    """
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(json.dumps(c)[1:-1] if category(c) in DECEPTIVE else c for c in line)


def short_name(name: str, width: int = 40) -> str:
    """An owner's name, printable and at most `width` columns wide.

    Examples
    --------
    >>> short_name("北京大学第一医院", 9)
    '北京大学…'
    """
    from rich.text import Text

    text = Text(printable(name))
    text.truncate(width, overflow="ellipsis")
    return text.plain


def distinct_names(names: Sequence[str], width: int) -> list[str]:
    """Names at most so many columns wide, shortened so that no two of them look the same.

    Where cutting the end would make two alike, the middle is cut; where that does too, each is
    numbered by its place among all.

    Examples
    --------
    >>> distinct_names(["Hospital of Saint Mary, North", "Hospital of Saint Mary, South"], 16)
    ['Hospita…y, North', 'Hospita…y, South']
    """
    plain = [printable(name) for name in names]
    for cut in (short_name, _without_middle):
        short = [cut(name, width) for name in plain]
        if len(set(short)) == len(set(plain)):
            return short
    return [f"{short_name(name, width - 5)} [{k + 1}]" for k, name in enumerate(plain)]


def _without_middle(name: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(name) <= width:
        return name
    head = set_cell_size(name, (width - 1) // 2).rstrip()
    tail = set_cell_size(name[::-1], width - 1 - (width - 1) // 2).rstrip()[::-1]
    return f"{head}…{tail}"


def decimals_for(values: ArrayLike) -> int:
    """Decimals that show four figures of the largest value; −1 where powers of ten read better."""
    largest = float(np.abs(np.asarray(values)).max(initial=0.0))
    if largest != 0 and not 1e-6 < largest < 1e12:
        return -1
    return 4 if largest == 0 else int(np.clip(4 - np.ceil(np.log10(largest)), 0, 12))


def error_text(half_width: float) -> str:
    """What stands after ±: two figures of the error itself, however large the value is.

    Examples
    --------
    >>> error_text(0.00012345), error_text(31.4)
    ('0.00012', '31')
    """
    if half_width == 0:
        return "0"
    if not 1e-9 < half_width < 1e12:
        return f"{half_width:.1e}"
    return f"{half_width:,.{max(0, 1 - int(np.floor(np.log10(half_width))))}f}"


def terminal_bar(*, disable: bool) -> Bar:
    """A line on stderr that is written again and again, unless it is disabled."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return progress.Progress(
        progress.BarColumn(bar_width=12),
        progress.MofNCompleteColumn(),
        "evaluations,",
        progress.TimeElapsedColumn(),
        "gone,",
        "{task.fields[left]} left ",
        progress.TextColumn("{task.description}", table_column=rest),
        console=Console(stderr=True),
        disable=disable,
        expand=True,  # a narrow terminal cuts the leaders, never the time left
    )


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which shows HTML below the cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def clock(seconds: float | None) -> str:
    """Seconds as hours, minutes and seconds; dashes where they are unknown.

    Examples
    --------
    >>> clock(3725.2), clock(None)
    ('1:02:05', '-:--:--')
    """
    if seconds is None:
        return "-:--:--"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
