"""Tables as text: columns stay under each other whatever stands in them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from rich.cells import cell_len

import dushapley as ds
from dushapley import errors
from dushapley.terminal import columns, decimals_for, json_text, printable, say, short_name, table

NAMES = ("北京大学第一医院", "e\u0301cole", "[red]x[/red]", ":smile:", "plain")


def test_columns_stand_under_each_other_for_every_script() -> None:
    lines = table(("owner", "value"), [(name, "1.25") for name in NAMES]).splitlines()
    assert len({cell_len(line) for line in lines}) == 1
    for name, line in zip(NAMES, lines[1:], strict=True):
        assert line.startswith(f"  {name}  ")  # neither markup nor emoji codes are read
        assert line.endswith("  1.25")


def test_rows_may_end_early_and_titles_may_be_left_out() -> None:
    assert table((), [("a", "1"), ("... 3 more ...",), ("b", "22")], indent=0).splitlines() == [
        "a                1",
        "... 3 more ...",
        "b               22",
    ]


def test_only_the_last_cell_wraps_and_only_where_a_width_is_given() -> None:
    rows = [("method", "a sentence that is longer than the terminal is wide")]
    assert len(table((), rows, left=(0, 1)).splitlines()) == 1
    lines = table((), rows, left=(0, 1), width=40).splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 40
    assert lines[1].startswith(" " * 10 + "t")


@pytest.mark.parametrize("width", [5, 20, 35, 60])
def test_a_narrow_terminal_costs_no_word_and_no_number(width: int) -> None:
    rows = [("permutation", "1,234", "words in a row"), ("du", "-", "another sentence")]
    shown = table(("method", "evaluations", "what it does"), rows, left=(0, 2), width=width)
    for cell in ("permutation", "1,234", "evaluations", *["words", "in", "a", "row"], "sentence"):
        assert cell in shown.split()


def test_the_text_depends_on_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = table(("owner", "value"), [(name, "1.25") for name in NAMES])
    for name, value in {"COLUMNS": "12", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert table(("owner", "value"), [(name, "1.25") for name in NAMES]) == expected
    assert columns() is None  # pytest's stdout is not a terminal


def test_names_are_printable_and_no_wider_than_asked() -> None:
    assert printable("a\u202eb\u2028c\x1b[31m") == "a�b�c�[31m"
    assert printable("a\nb\tc", keep="\n\t") == "a\nb\tc"
    assert short_name("x" * 60) == "x" * 39 + "…"
    assert cell_len(short_name("医" * 60)) == 40
    assert short_name("short") == "short"


def test_decimals_show_four_figures() -> None:
    assert [decimals_for([x]) for x in (0.0, 0.1234, 12.34, 12345.0, 1e-9, 1e15)] == [
        4, 4, 2, 0, -1, -1,
    ]  # fmt: skip


def test_importing_loads_no_library_that_only_output_needs() -> None:
    code = "import sys, dushapley; print({'rich', 'babel', 'jinja2', 'pooch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


HOSTILE = "\x1b[2J\x9b1;1H\u202eThe settlement holds.\r\u2028\u200b\x00\x7f"
"""Clears the screen, goes to its corner, reverses what follows, and ends the line."""


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_no_name_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    names = [HOSTILE, f"b\n{HOSTILE}", "c"]
    game = ds.CallableGame(lambda z: z @ [3.0, 2.0, 1.0], 3, names=names)
    v = ds.value(game, "exact")
    settled = ds.settle(v, 100, currency="EUR")
    answer = ds.what_if(game, ds.Merge(*names[:2]), method="exact")
    say(f"Found {HOSTILE}")
    texts = [repr(v), repr(settled), repr(answer), table([HOSTILE], [[HOSTILE]])]
    for text in (*texts, capsys.readouterr().err):
        assert is_harmless(text)
        assert "The settlement holds." not in text.splitlines()
    assert len(repr(settled).splitlines()) == 6  # no name adds a line


def test_notes_and_words_of_a_stored_valuation_are_harmless_too() -> None:
    game = ds.CallableGame(lambda z: z @ [3.0, 2.0], 2)
    stored = ds.value(game, "exact").to_dict()
    forged = stored | {"notes": [f"\n{HOSTILE}"], "method": f"exact{HOSTILE}\n"}
    assert is_harmless(repr(ds.Valuation.from_dict(forged)))
    assert len(repr(ds.Valuation.from_dict(forged)).splitlines()) == 6


def test_every_error_is_shown_as_text() -> None:
    assert is_harmless(str(errors.InvalidOwners(f"There is no file {HOSTILE}\ud800.")))
    with pytest.raises(errors.InvalidChange) as refusal:
        ds.what_if(ds.SizeGame(np.ones(2), w=np.sqrt, names=[HOSTILE, "b"]), ds.Leave("x"))
    assert is_harmless(str(refusal.value))


def test_json_stays_exact_and_shows_as_text() -> None:
    text = json_text({"name": [HOSTILE, "北京 é", "\ud800"]})
    assert is_harmless(text)
    assert "北京 é" in text
    assert json.loads(text) == {"name": [HOSTILE, "北京 é", "\ud800"]}
