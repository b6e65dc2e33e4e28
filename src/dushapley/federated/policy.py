"""What an owner lets out, as it says itself, and the log of all that did leave it.

The policy is the owner's own file, read and enforced where its rows are; the coordinator is told
what it says and has no part in it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from dushapley.arrays import AnyDict, AnyMapping
from dushapley.errors import InvalidOption
from dushapley.validation import is_number, is_whole, suggestion

LEVELS = ("sums", "gradients", "models")
"""What may leave an owner: sums once, sums of gradients step by step, models trained locally."""


@dataclass(frozen=True)
class Policy:
    """What an owner answers.

    Attributes
    ----------
    levels
        Those of `LEVELS` that it takes part in.
    columns
        Columns that may be used, the target included; None: all. Others are not even named.
    least_rows
        Rows that every answer must be made of; categories of fewer rows are not named.
    most_questions, most_rounds
        Messages answered and rounds taken part in, over the life of the log; None: any number.
    hold_back
        Part of its rows that is never trained on and scores models here.

    Examples
    --------
    >>> Policy(levels=("sums",), least_rows=50).words
    'sums, of at least 50 rows'
    """

    levels: tuple[str, ...] = LEVELS
    columns: tuple[str, ...] | None = None
    least_rows: int = 10
    most_questions: int | None = None
    most_rounds: int | None = None
    hold_back: float = 0.0

    def __post_init__(self) -> None:
        if not self.levels or not set(self.levels) <= set(LEVELS):
            raise InvalidOption(
                f"A policy allows the levels {list(self.levels)}; there are {', '.join(LEVELS)}."
            )
        for name in ("least_rows", "most_questions", "most_rounds"):
            given = getattr(self, name)
            if given is not None and not is_whole(given, 1):
                raise InvalidOption(f"A policy's {name} is {given!r}; it takes whole numbers.")
        if not is_number(self.hold_back) or not 0 <= self.hold_back < 1:
            raise InvalidOption(
                f"A policy's hold_back is {self.hold_back!r}; it takes a part of the rows, say 0.2."
            )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy of a TOML file; what it does not name stays as it is here."""
        file = os.fspath(path)
        try:
            given = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"The policy {file} cannot be read: {error}. It must be a TOML file."
            ) from error
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidOption(
                    f"The policy {file} says {name!r}, which no policy knows."
                    f"{suggestion(name, known)} There are: {', '.join(known)}."
                )
        if any(isinstance(given.get(name), str) for name in ("levels", "columns")):
            raise InvalidOption(
                f"The policy {file} names levels or columns as text; write a list, "
                'levels = ["sums"], say.'
            )
        lists = {k: tuple(map(str, v)) for k, v in given.items() if isinstance(v, list)}
        return cls(**(given | lists))

    @property
    def words(self) -> str:
        """What it says, in words."""
        words = [" and ".join(self.levels), f"of at least {self.least_rows} rows"]
        if self.columns is not None:
            words.append(f"columns {', '.join(self.columns)} only")
        if self.most_questions is not None:
            words.append(f"at most {self.most_questions:,} questions")
        if self.most_rounds is not None:
            words.append(f"at most {self.most_rounds:,} rounds")
        return ", ".join(words)


class Log:
    """Everything that left an owner, one line of JSON each, in words and bytes.

    Written before an answer is handed out. Lines of earlier runs count towards the limits of a
    policy, so that a restart does not reset them.

    Parameters
    ----------
    path
        The file; None: kept in memory only.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.lines: list[AnyDict] = []
        self.rounds: set[tuple[object, object]] = set()
        self.kinds: Counter[str] = Counter()
        for line in [] if self.path is None else _lines(self.path):
            self._count(line)

    @property
    def questions(self) -> int:
        """How many were answered, not refused."""
        return sum(n for kind, n in self.kinds.items() if kind not in ("refused", "fault"))

    def _count(self, line: AnyDict) -> None:
        self.lines.append(line)
        self.rounds.add((line.get("run"), line.get("round")))
        self.kinds[str(line.get("answer"))] += 1

    def add(self, about: AnyMapping, answer: str, words: str, size: int) -> None:
        """Note that an answer of `size` bytes is about to leave."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **about,
            "answer": answer,
            "bytes": size,
            "words": words,
        }
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._count(line)


def _lines(path: Path) -> list[AnyDict]:
    """What was logged before; a last line that was cut off by a kill is left out."""
    if not path.exists():
        return []
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        found += [line] if isinstance(line, dict) else []
    return found
