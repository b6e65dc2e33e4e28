"""Every figure and table in its quick profile, and what is said where data are missing."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from dushapley.cli.main import main
from dushapley_paper import EXPERIMENTS, DataMissing, reproduce
from dushapley_paper import download as fetching
from dushapley_paper.cases import TABLES, Case, TableMissing, Utilities, utilities
from dushapley_paper.data import FOLDER, SOURCES, load
from dushapley_paper.experiment import ClaimVerdict, Finding, judge, judge_every, short, standing
from dushapley_paper.figure_2 import needs_more_by_nature
from dushapley_paper.headlines import HEADLINES, decides
from dushapley_paper.page import counted, together, write_page
from dushapley_paper.records import UnknownExperiment, find_profile, read, save
from dushapley_paper.table_2_page import COLUMNS, as_good, clear_from

WITHOUT_DATA = [name for name, experiment in EXPERIMENTS.items() if not experiment.needs]
WITH_DATA = [name for name, experiment in EXPERIMENTS.items() if experiment.needs]
FINDINGS = {"holds", "holds weaker", "does not hold", "cannot be told"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded unasked."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("an experiment reached for the network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(requests, "get", refuse)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of quick results that need no data."""
    folder = tmp_path_factory.mktemp("reproduction")
    for name in WITHOUT_DATA:
        save(reproduce(name), folder / "results")
    return folder


def check_record(record: dict[str, Any]) -> None:
    """A result can be stored, judged, tabulated: the same before and after being stored."""
    experiment = EXPERIMENTS[record["name"]]
    result = json.loads(json.dumps(record["result"], allow_nan=False))
    verdicts = experiment.claims(result)
    assert verdicts
    assert all(v.finding in FINDINGS and v.numbers for v in verdicts)
    for sheet in experiment.sheets(result):
        assert all(len(row) == len(sheet.header) for row in sheet.rows), sheet.caption
        assert all(isinstance(cell, str) for row in sheet.rows for cell in row)
    assert {"machine", "versions", "seed", "profile", "seconds"} <= record.keys()


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_experiments_without_data(stored: Path, name: str) -> None:
    record = next(r for r in read(stored / "results") if r["name"] == name)
    check_record(record)


@pytest.fixture(scope="module")
def tables(data_folder: Path) -> dict[str, dict[str, Any]]:
    """Quick results that need data."""
    return {name: reproduce(name) for name in WITH_DATA}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_DATA)
def test_experiments_with_data(tables: dict[str, dict[str, Any]], name: str) -> None:
    check_record(tables[name])


@pytest.mark.slow
def test_one_page_from_stored_results(stored: Path) -> None:
    page = write_page(stored).read_text(encoding="utf-8")
    for name in WITHOUT_DATA:
        assert f"\n## {name}\n" in page
        if EXPERIMENTS[name].draw is not None:
            assert (stored / f"{name}.png").stat().st_size > 5_000
    assert page.count("cannot be told") > 1  # headlines of the tables that were not run


def test_headlines_name_verdicts_that_exist(stored: Path) -> None:
    verdicts = {
        r["name"]: EXPERIMENTS[r["name"]].claims(r["result"]) for r in read(stored / "results")
    }
    for headline in HEADLINES:
        for name, start in (*headline.decided_by, *headline.beyond):
            assert name in EXPERIMENTS
            if name in verdicts:
                assert any(decides(start, v.claim) for v in verdicts[name]), start


@pytest.mark.slow
def test_headlines_name_verdicts_of_the_tables(tables: dict[str, dict[str, Any]]) -> None:
    for name, record in tables.items():
        verdicts = EXPERIMENTS[name].claims(record["result"])
        for headline in HEADLINES:
            for decider, start in (*headline.decided_by, *headline.beyond):
                if decider == name:
                    assert any(decides(start, v.claim) for v in verdicts), start


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    folder = Path(__file__).parent.parent / "docs" / "reproduction"
    records = read(folder / "results")
    assert [r["name"] for r in records] == list(EXPERIMENTS)
    assert {r["profile"] for r in records} == {"full"}
    page = (folder / "README.md").read_text(encoding="utf-8")
    for record in records:
        for verdict in EXPERIMENTS[record["name"]].claims(record["result"]):
            line = f"- **{verdict.finding}**: {verdict.claim}. Found: {verdict.numbers}."
            assert line in page, "write the page again: dushapley reproduce all"


def test_cases_too_close_to_call_are_no_counterexamples(stored: Path) -> None:
    """Under the natural logarithm, as under base 10."""
    result = next(r for r in read(stored / "results") if r["name"] == "figure-2")["result"]
    found = next(r for r in result["readings"] if (r["base"], r["constant"]) == ("e", "in range"))
    found["permutation"] |= {"more": 10, "level": found["permutation"]["of"] - 10}
    assert needs_more_by_nature(result, "permutation", "in range").finding == "cannot be told"


def test_same_seed_same_result() -> None:
    first, second = (reproduce("svarm-figure", seed=3)["result"] for _ in range(2))
    assert first == second
    assert first != reproduce("svarm-figure", seed=4)["result"]


def test_theorem_2_as_stated_is_refuted_and_the_repaired_one_is_not(stored: Path) -> None:
    found = json.loads((stored / "results" / "figure-2.json").read_text())["result"]["theorem 2"]
    assert found["stated"] < found["error"] < found["repaired"]
    assert found["error"] == pytest.approx(0.9204, abs=1e-3)
    assert found["stated"] == pytest.approx(0.8825, abs=1e-4)  # κ = 1


def test_verdicts_in_words() -> None:
    assert judge(3, 3) == "holds"
    assert judge(2, 3) == "holds weaker"
    assert judge(1, 3) == "does not hold"
    assert judge(1, 2) == "does not hold"
    assert judge(1, 3, level=1) == "cannot be told"
    assert judge(0, 0) == "cannot be told"
    assert judge_every(35, 1, 36) == "does not hold"  # one counterexample
    assert judge_every(35, 0, 36) == "cannot be told"
    assert judge_every(36, 0, 36) == "holds"
    verdicts = [ClaimVerdict("a", "holds", "1"), ClaimVerdict("b", "does not hold", "2")]
    assert together(verdicts[:1]) == "holds"
    assert together([]) == "cannot be told"


def test_headlines_are_no_better_than_their_verdicts() -> None:
    of: dict[str, Finding] = {
        "h": "holds",
        "w": "holds weaker",
        "n": "does not hold",
        "o": "cannot be told",
    }

    def found(letters: str) -> list[ClaimVerdict]:
        return [ClaimVerdict(letter, of[letter], "1") for letter in letters]

    assert {together(found(s)) for s in ("h", "hhh")} == {"holds"}
    assert {together(found(s)) for s in ("hw", "hhn", "ho", "w", "hwwnn")} == {"holds weaker"}
    assert {together(found(s)) for s in ("n", "hn", "wn", "no", "hnno")} == {"does not hold"}
    assert {together(found(s)) for s in ("", "o", "oo")} == {"cannot be told"}
    assert together(found("hhn"), every=True) == "does not hold"
    assert together(found("hho"), every=True) == "holds weaker"
    assert counted(found("hhwnnno")) == "2 hold, 1 weaker, 3 do not, 1 open"
    assert counted(found("n")) == "1 does not"
    assert counted([]) == "no verdict"


def test_as_good_as_is_limited_by_what_could_be_seen() -> None:
    def scores(*spread: float) -> dict[str, Any]:
        """All methods alike but for DU-Shapley's noise."""
        plain = {c: {"all": [0.5, 0.5, 0.5]} for c in COLUMNS}
        noisy = {c: {"all": [0.5 + s for s in spread]} for c in COLUMNS}
        return {"sets": {"BBC": {"DataShapley": plain, "DU-Shapley": noisy}}}

    quiet, loud = (scores(-s, 0.0, s) for s in (0.005, 0.02))
    for result, finding in ((quiet, "holds"), (loud, "holds weaker")):
        assert as_good(result, ("DataShapley",), "as good").finding == finding
    assert clear_from(quiet, "DataShapley", COLUMNS) == pytest.approx(
        (4.3027 * 0.005 / 3**0.5, 0), rel=1e-3
    )
    assert clear_from(scores(0.0, 0.0, 0.0), "DataShapley", COLUMNS) == (0.0, 6)


def test_noise_decides_no_case() -> None:
    assert standing(0.1, (0.01, 50), (0.02, 50)) == "won"
    assert standing(-0.1, (0.01, 50), (0.02, 50)) == "lost"
    assert standing(0.1, (0.01, 50), (0.2, 50)) == "level"
    assert standing(3.0, (1.0, 3)) == "level"  # Student's t with two degrees of freedom: 4.3
    assert standing(5.0, (1.0, 3)) == "won"
    assert standing(5.0, (0.0, 1)) == "level"
    assert (standing(0.0), standing(1e-9), standing(-1e-9)) == ("level", "won", "lost")


def test_numbers_for_people() -> None:
    told = [short(x) for x in (0.0, 1.0, 0.95, -0.0123, 10, 99_999, 1e-4, 9.99e-5, 4.4e9, None)]
    assert told == ["0", "1", "0.95", "-0.012", "10", "1e5", "0.0001", "0.0001", "4.4e9", "–"]


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_what_is_left_open_is_tried_in_more_than_one_way(stored: Path, name: str) -> None:
    record = next(r for r in read(stored / "results") if r["name"] == name)
    tried = EXPERIMENTS[name].dependence
    if name != "figure-1":  # states all that decides it
        assert tried is not None
        assert len(tried(record["result"])) > 1


@pytest.mark.parametrize("name", WITH_DATA)
@pytest.mark.parametrize("named", [False, True])
def test_missing_data_are_explained(
    name: str,
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if named:
        monkeypatch.setenv(FOLDER, str(tmp_path))
    else:
        monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", name])
    assert stop.value.code == 1
    told = capsys.readouterr().err
    for need in EXPERIMENTS[name].needs:
        assert SOURCES[need].file in told
        assert SOURCES[need].origin in told
    assert f"export {FOLDER}=" in told
    assert ("lacks it" if named else "is not set") in told


def test_all_checks_data_before_it_runs_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(SystemExit):
        main(["reproduce", "all", "--out", str(tmp_path / "page")])
    assert not (tmp_path / "page").exists()


def test_unknown_names_list_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "figure-9"])
    assert stop.value.code == 2
    assert "older-table, or all" in capsys.readouterr().err
    with pytest.raises(UnknownExperiment, match="quick or full"):
        find_profile("slow")


def test_reproduce_prints_verdicts_and_keeps_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_returns(["reproduce", "figure-1", "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert "Theorem 1" in printed.out
    assert "--profile full" in printed.err
    assert [r["name"] for r in read(tmp_path / "results")] == ["figure-1"]
    main_returns(["reproduce", "figure-1", "--json"])
    assert json.loads(capsys.readouterr().out)["name"] == "figure-1"


def main_returns(arguments: list[str]) -> None:
    """Run a command that must succeed."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert not stop.value.code


def test_full_tables_name_the_script_and_the_folder(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TABLES, raising=False)
    monkeypatch.setattr("dushapley_paper.cases.gpu", lambda: None)
    monkeypatch.setattr("dushapley_paper.table_2.gpu", lambda: None)
    with pytest.raises(TableMissing, match=f"reproduce_gpu.py table-1.*export {TABLES}="):
        utilities(Case("breast-cancer", 20))
    with pytest.raises(TableMissing, match=f"reproduce_gpu.py table-2.*export {TABLES}="):
        reproduce("table-2", "full")


def test_the_value_of_nothing_moves_du_and_exact_values_alike() -> None:
    u = np.array([0.5, 0.6, 0.7, 0.9])
    table = Utilities(u, np.array([1, 2]), np.array([[0.15, 0.25]]), "here")
    zero, constant = (table.game(empty).values[0] for empty in ("zero", "constant"))
    assert (zero, constant) == (0.0, 0.5)
    assert table.du_values("zero").tolist() == [[0.4, 0.5]]


class FakeWeb:
    """Archives by address."""

    def __init__(self, archives: dict[str, bytes]) -> None:
        self.archives, self.asked = archives, list[str]()

    def __call__(self, address: str, **_: object) -> requests.Response:
        self.asked.append(address)
        answer = requests.Response()
        answer.status_code = 200
        answer.raw = io.BytesIO(self.archives[address.rsplit("/", 1)[1]])
        return answer


def zipped(**files: bytes) -> bytes:
    """An archive of files; `_` in names stands for a dot."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


ADULT = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
ADULT_ROWS = (
    ADULT + "Male, 2174, 0, 40, United-States, <=50K\n" + ADULT + "Female, 0, 0, 50, ?, >50K\n"
)


def test_downloads_only_when_asked_and_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = FakeWeb(
        {
            "adult.zip": zipped(
                adult__data=ADULT_ROWS.encode(), adult__test=b"|note\n" + ADULT_ROWS.encode()
            ),
            "bank+marketing.zip": zipped(
                bank__zip=zipped(
                    **{"bank-full__csv": b'"age";"job";"y"\n30;"a";"no"\n40;"b";"yes"\n'}
                )
            ),
        }
    )
    for file in ("2/adult.zip", "222/bank+marketing.zip"):
        made_up = hashlib.sha256(web.archives[Path(file).name]).hexdigest()
        monkeypatch.setitem(fetching.CHECKSUMS, file, made_up)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(requests, "get", web)
    made = fetching.download(["adult", "bank", "breast-cancer", "BBC"])
    assert [path.name for path in made] == [
        SOURCES[name].file for name in ("adult", "bank", "breast-cancer")
    ]
    assert load("adult").y.tolist() == [0, 1, 0, 1]
    assert load("bank").y.tolist() == [0, 1]
    assert load("breast-cancer").X.shape == (569, 30)
    asked = len(web.asked)
    assert fetching.download(["adult", "bank"]) == []
    assert len(web.asked) == asked


def test_another_file_than_the_known_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(requests, "get", FakeWeb({"adult.zip": zipped(adult__data=b"")}))
    with pytest.raises(DataMissing, match=r"adult\.zip has changed: SHA256 .* does not match"):
        fetching.download(["adult"])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_downloads_say_how_to_get_pooch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataMissing, match=r"pip install 'dushapley\[paper\]'"):
        fetching.download(["adult"])


def test_downloads_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(DataMissing, match=f"export {FOLDER}="):
        fetching.download(["adult"])
