"""What an owner lets out, as it says itself, and the log of all that did leave it.

The policy is the owner's own file, read and enforced where its rows are; the coordinator is told
what it says and has no part in it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dushapley.errors import InvalidOption
from dushapley.validation import is_number, is_whole, refuse, suggestion

LEVELS = ("sums", "gradients", "models")
"""What may leave an owner: sums once, sums of gradients step by step, models trained locally."""

COUNTS = ("least_rows", "most_questions", "most_rounds")


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
        counts = {name: getattr(self, name) for name in COUNTS}
        refuse(
            InvalidOption,
            (
                not self.levels or not set(self.levels) <= set(LEVELS),
                f"A policy allows the levels {list(self.levels)}; there are {', '.join(LEVELS)}.",
            ),
            *(
                (
                    given is not None and not is_whole(given, 1),
                    f"A policy's {name} is {given!r}; it takes whole numbers.",
                )
                for name, given in counts.items()
            ),
            (
                not is_number(self.hold_back) or not 0 <= self.hold_back < 1,
                f"A policy's hold_back is {self.hold_back!r}; it takes a part of the rows, say "
                "0.2.",
            ),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy of a TOML file; what it does not name stays as it is here."""
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"The policy {os.fspath(path)} cannot be read: {error}. It must be a TOML file."
            ) from error
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidOption(
                    f"The policy {os.fspath(path)} says {name!r}, which no policy knows."
                    f"{suggestion(name, known)} There are: {', '.join(known)}."
                )
        lists = {k: tuple(map(str, v)) for k, v in given.items() if isinstance(v, list)}
        if isinstance(given.get("levels"), str) or isinstance(given.get("columns"), str):
            raise InvalidOption(
                f"The policy {os.fspath(path)} names levels or columns as text; write a list, "
                'levels = ["sums"], say.'
            )
        return cls(**{**given, **lists})

    @property
    def words(self) -> str:
        """What it says, in words."""
        limits = [
            f"at most {most:,} {what}"
            for most, what in ((self.most_questions, "questions"), (self.most_rounds, "rounds"))
            if most is not None
        ]
        columns = [] if self.columns is None else [f"columns {', '.join(self.columns)} only"]
        levels = " and ".join(self.levels)
        return ", ".join([levels, f"of at least {self.least_rows} rows", *columns, *limits])


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
        self.lines: list[dict[str, Any]] = [] if self.path is None else _lines(self.path)
        self.rounds = {(line.get("run"), line.get("round")) for line in self.lines}
        self.kinds = Counter(str(line.get("answer")) for line in self.lines)
        self.questions = sum(line.get("answer") not in ("refused", "fault") for line in self.lines)

    def add(self, about: Mapping[str, Any], answer: str, words: str, size: int) -> None:
        """Note that an answer of `size` bytes is about to leave."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "run": about.get("run"),
            "round": about.get("round"),
            "answer": answer,
            "bytes": size,
            "words": words,
        }
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.lines.append(line)
        self.rounds.add((line["run"], line["round"]))
        self.kinds[answer] += 1
        self.questions += answer not in ("refused", "fault")


def _lines(path: Path) -> list[dict[str, Any]]:
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
