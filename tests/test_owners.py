"""Owners from arrays, tables and files: what is taken, and what every refusal says."""

from __future__ import annotations

import contextlib
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dushapley as ds
from dushapley.data import overlap
from dushapley.data.files import SourceFile, listing, owner_name
from dushapley.errors import InvalidOwners, SharedRows


def table(**changes):
    columns = {"site": ["n", "n", "s", "s"], "age": [3, 5, 8, 9], "ill": [0, 1, 1, 0]}
    return pd.DataFrame({**columns, **changes})


def from_frame(frame, owner="site", target="ill"):
    return ds.Owners.from_frame(frame, owner=owner, target=target)


def test_a_table_is_split_by_its_owner_column():
    owners = from_frame(table(sex=["m", "f", None, "m"]))
    assert owners.names == ("n", "s")
    assert owners.columns == {"age": "number", "sex": "text"}
    assert owners.X[1].tolist() == [[8.0, None], [9.0, "m"]]
    assert owners.y[0].dtype == np.int64
    assert owners.target == "ill"
    assert len(set(owners.hashes)) == 2


def test_dates_whole_numbers_and_missing_numbers():
    days = pd.to_datetime(["2024-01-01", None, "2024-02-01", "2024-03-01"])
    owners = from_frame(table(day=days, age=[1.5, None, 2, 3]))
    assert owners.columns == {"age": "number", "day": "date"}
    assert owners.X[0][1, 1] is None
    assert np.isnan(owners.X[0][1, 0])
    nullable = table(age=pd.array([1, None, 2, 3], dtype="Int64"))
    assert np.isnan(from_frame(nullable).X[0][1, 0])


def test_equal_content_has_equal_hashes_however_it_came(tmp_path):
    frame = table()
    frame.to_parquet(tmp_path / "all.parquet")
    frame.to_csv(tmp_path / "all.csv", index=False)
    kept = [
        ds.Owners.from_files(tmp_path / name, target="ill", owner="site").hashes
        for name in ("all.parquet", "all.csv")
    ]
    assert kept[0] == kept[1] == from_frame(frame).hashes


def test_columns_may_stand_in_any_order():
    one, two = table()[["age", "ill"]].assign(b=1.0), table()[["ill", "age"]].assign(b=2.0)
    ab = ds.Owners.from_tables({"a": one, "b": two[["b", "age", "ill"]]}, target="ill")
    ba = ds.Owners.from_tables({"b": two[["b", "age", "ill"]], "a": one}, target="ill")
    assert list(ab.columns) == list(ba.columns) == ["age", "b"]
    assert ab.hashes == ba.hashes[::-1]


@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (table(), {"target": "il"}, r"no target column 'il'\. Did you mean 'ill'\? It has: 'site'"),
        (table(), {"owner": "who"}, "no owner column 'who'"),
        (table(), {"target": "site"}, "both the column 'site'"),
        (table(site=["n", None, "s", None]), {}, "2 of 4 rows have no owner in column 'site'"),
        (table(site=["n"] * 4), {}, "single owner, 'n'"),
        (table()[:0], {}, "no rows, so no owners"),
        (table(site=[1, "1", "s", "s"]), {}, "names '1' in two ways"),
        (
            table(ill=[0, 1, np.nan, np.inf]),
            {},
            r"'s' has no finite target in 2 of 2.*row 3",
        ),
        (
            table(ill=["a", None, "b", "b"]),
            {},
            r"'n' has no finite target in 1 of 2.*row 2",
        ),
        (table()[["site", "ill"]], {}, "no column to learn from"),
        (
            table(age=[3, 5, "8", "?"]),
            {},
            r"'s' has text in 'age' \('\?' in row 4\)",
        ),
        (table().rename(columns={"age": 7}), {}, "a column named 7; names of columns are text"),
        (pd.concat([table(), table()[["age"]]], axis=1), {}, "two columns named 'age'"),
    ],
)
def test_bad_tables_are_explained(frame, arguments, message):
    with pytest.raises(InvalidOwners, match=message):
        from_frame(frame, **arguments)


def test_owners_whose_columns_differ_show_the_difference():
    one, two = table()[["age", "ill"]], table()[["ill"]].assign(height=1.0)
    with pytest.raises(
        InvalidOwners,
        match=r"Owner 'b' lacks 'age' and has 'height' in addition, compared with 'a'",
    ):
        ds.Owners.from_tables({"a": one, "b": two}, target="ill")
    with pytest.raises(InvalidOwners, match="Owner 'b' has no rows"):
        ds.Owners.from_tables({"a": one, "b": one[:0]}, target="ill")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({}, "No owners were given"),
        ({"a": (np.zeros((0, 2)), [])}, "'a' has no rows"),
        ({"a": (np.zeros((2, 2)), [1])}, "2 rows but targets for 1"),
        ({"a": 3.0}, "found float, which holds no rows"),
        ({"a": [[1.0]], "b": [[1.0, 2.0]]}, r"rows of shape \(2,\)"),
        ({"a": [[1.0]], "b": ([[1.0]], [1])}, "differ in having a target"),
        ({1: [[1.0]], "1": [[1.0]]}, "same name"),
    ],
)
def test_bad_arrays_are_explained(blocks, message):
    with pytest.raises(InvalidOwners, match=message):
        ds.Owners.from_arrays(blocks)


def test_rows_of_two_owners_are_counted_and_warned_of():
    frame = table(age=[3, 5, 3, 5], ill=[0, 1, 0, 0])
    with pytest.warns(SharedRows, match=r"1 rows.*'n' and 's'"):
        from_frame(frame)
    words = table(age=["a", "b", "a", "b"], ill=["x", "y", "x", "y"])
    with pytest.warns(SharedRows, match="2 rows"):
        from_frame(words)


def test_a_test_table_is_put_into_the_owners_shape():
    owners = from_frame(table(sex=["m", "f", "f", "m"]))
    X, y = owners.align(pd.DataFrame({"ill": [1.0], "sex": ["f"], "age": [2], "more": [0]}))
    assert X.tolist() == [[2.0, "f"]]
    assert y.dtype == np.int64
    for frame, message in [
        (
            pd.DataFrame({"ill": [1], "age": [2]}),
            r"The test table lacks 'sex'.*It has: 'ill', 'age'",
        ),
        (pd.DataFrame({"age": [2], "sex": ["f"]}), "The test table has no target column 'ill'"),
        (
            pd.DataFrame({"ill": [1], "age": ["x"], "sex": ["f"]}),
            "'age' holds text in the test tab",
        ),
        (
            pd.DataFrame({"ill": ["x"], "age": [1], "sex": ["f"]}),
            "has text in 'ill', where the own",
        ),
        (pd.DataFrame({"ill": [np.nan], "age": [1], "sex": ["f"]}), "The test table has rows"),
    ]:
        with pytest.raises(InvalidOwners, match=message):
            owners.align(frame)
    with pytest.raises(InvalidOwners, match="came as arrays"):
        ds.Owners.from_arrays({"a": [[1.0]]}).align(table())


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


GOOD = "age,ill\n1,0\n2,1\n"


def test_one_file_per_owner_or_a_folder(tmp_path):
    folder = write(tmp_path, north=GOOD, south="ill,age\n1,7\n")
    table()[["age", "ill"]].to_parquet(tmp_path / "east.parquet")
    (tmp_path / "notes.doc").write_text("not a table")
    with pytest.raises(
        InvalidOwners, match=r"notes.doc .* is not read: .*accept=\['file-skipped'\]"
    ):
        ds.Owners.from_files(folder, target="ill")
    owners = ds.Owners.from_files(folder, target="ill", accept=["file-skipped"])
    assert owners.names == ("east", "north", "south")
    listed = ds.Owners.from_files([folder / "north.csv", str(folder / "south.csv")], target="ill")
    assert listed.hashes == owners.hashes[1:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("age,ill\n", "Owner 'bad' has names of columns but no rows"),
        ("ill\n1\n", "Owner 'bad' lacks the column 'age'"),
        ("age,age,ill\n1,2,0\n", "two columns named 'age'"),
        (",age,ill\n7,1,1\n", "Column 1 of .* has no name.* drop='column 1'"),
        ("age,ill\n1,0,7\n2,1,7\n", "more fields than its line of names"),
        ("age,ill\n1,0\n2,1,7,8\n", "row 2, has 4: '2,1,7,8'"),
        ('age,ill\n"1,0\n', "row 1, has 1"),
        (b"age,ill\n\xff\xfe,1\n", r"Owner 'bad' has text in 'age' \('ÿþ' in row 1\)"),
        ("age,il\n1,0\n", "Owner 'bad' lacks the column 'ill'"),
        ("age,ill\nx,0\n", r"Owner 'bad' has text in 'age' \('x' in row 1\), others have numbers"),
    ],
)
def test_bad_files_are_explained(tmp_path, text, message):
    folder = write(tmp_path, good=GOOD, bad=text)
    with pytest.raises(InvalidOwners, match=message):
        ds.Owners.from_files([folder / "good.csv", folder / "bad.csv"], target="ill")


def test_bad_paths_are_explained(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, a=GOOD)
    write(tmp_path / "sub", a=GOOD)
    (tmp_path / "a.xlsx").write_text("x")
    (tmp_path / "a.doc").write_text("x")
    (tmp_path / "b.parquet").write_text("x")
    (tmp_path / "none").mkdir()
    for paths, message in [
        ([tmp_path / "a.csv", tmp_path / "sub" / "a.csv"], "both name the owner 'a'"),
        ([tmp_path / "a.csv"], "single owner, 'a'"),
        ([tmp_path / "nix.csv"], "There is no file"),
        ([tmp_path / "a.xlsx"], "a.xlsx is damaged"),
        ([tmp_path / "a.doc"], r"ends in '.doc'"),
        ([tmp_path / "b.parquet"], "cannot be read as Parquet"),
        ([], "No files were given"),
        (tmp_path / "none", "holds no .csv"),
    ]:
        with pytest.raises(InvalidOwners, match=message):
            ds.Owners.from_files(paths, target="ill")
    assert owner_name(tmp_path / "x.CSV.gz") == "x"
    assert listing(tmp_path / "a.csv").files == [tmp_path / "a.csv"]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    write(tmp_path, bom=b"\xef\xbb\xbf" + GOOD.encode(), plain="age,ill\n8,1\n")
    assert list(ds.Owners.from_files(tmp_path, target="ill").columns) == ["age"]


@pytest.mark.slow
def test_thousands_of_columns(tmp_path):
    names = [f"c{i}" for i in range(3_000)]
    wide = pd.DataFrame(np.arange(9_000.0).reshape(3, -1), columns=names).assign(
        who=["a", "b", "b"], ill=[0, 1, 0]
    )
    wide.to_csv(tmp_path / "wide.csv", index=False)
    owners = ds.Owners.from_files(tmp_path / "wide.csv", target="ill", owner="who")
    assert owners.X[1].shape == (2, 3_000)


HOSTILE = st.sampled_from(
    [
        "../x",
        "<b>",
        "=1+1",
        "",
        " ",
        '"',
        "a,b",
        "\ufeff",
        "nul\0",
        "né",
        "\U0001f600",
        "NA",
        "1e999",
    ]
)
NAMES = st.one_of(HOSTILE, st.text(max_size=8))


@settings(max_examples=60)
@given(st.lists(NAMES, min_size=2, max_size=5), st.lists(st.floats(), min_size=5, max_size=5))
def test_hostile_owner_names_and_values_are_kept_or_explained(names, numbers):
    frame = pd.DataFrame(
        {"who": names, "x": numbers[: len(names)], "y": range(len(names))}, dtype=object
    )
    if len(set(names)) == 1:
        with pytest.raises(InvalidOwners, match="single owner"):
            from_frame(frame, owner="who", target="y")
        return
    accept = ["owner-spelling"]
    owners = ds.Owners.from_frame(frame, owner="who", target="y", accept=accept)
    assert set(owners.names) == set(names)
    assert sum(owners.sizes) == len(names)


@settings(max_examples=60)
@given(st.data())
def test_hostile_tables_survive_files_or_are_explained(tmp_path_factory, data):
    columns = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    cells = st.one_of(HOSTILE, st.integers(), st.floats(), st.none(), st.text(max_size=5))
    count = data.draw(st.integers(0, 4))
    rows = [data.draw(st.lists(cells, min_size=count, max_size=count)) for _ in columns]
    folder = tmp_path_factory.mktemp("hostile")
    frame = pd.DataFrame({**dict(zip(columns, rows, strict=True)), "t": [1.5] * count})
    for name in ("one", "two"):
        frame.to_csv(folder / f"{name}.csv", index=False, encoding="utf-8", errors="replace")
    assert read_or_explained(folder)


@settings(max_examples=100)
@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "replace"))
    )
)
def test_any_bytes_are_a_table_or_explained(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "one.csv").write_bytes(content)
    (folder / "two.csv").write_bytes(content + b"\n1,2\n")
    (folder / "three.parquet").write_bytes(content)
    for name in ("one.csv", "two.csv", "three.parquet"):
        with contextlib.suppress(InvalidOwners):
            assert len(SourceFile.read(folder / name).table().columns) > 0
    assert read_or_explained(folder)


def read_or_explained(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedRows)
        try:
            owners = ds.Owners.from_files([folder / "one.csv", folder / "two.csv"], target="t")
        except InvalidOwners as error:
            told = str(error).splitlines()
            return all(re.search(r"\.( \[[a-z-]+\])?$", line) for line in told)  # in sentences
    return owners.names == ("one", "two") and all(len(X) for X in owners.X)


def test_copied_rows_are_told_with_their_holders_from_wherever_they_came() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), rng.integers(0, 2, 90)
    blocks = {
        name: (X[30 * k : 30 * k + 30], y[30 * k : 30 * k + 30]) for k, name in enumerate("abc")
    }
    blocks["b"] = (np.concatenate([blocks["b"][0], X[:7]]), np.concatenate([blocks["b"][1], y[:7]]))
    owners = ds.Owners.from_arrays(blocks)
    told = "7 rows.*'a' and 'b' \\(7, by chance about 0\\)"
    for game in (
        ds.ModelGame(owners, "naive-bayes", rng.normal(size=(20, 3)), y[:20]),
        ds.KNNGame(owners, rng.normal(size=(20, 3)), y[:20]),
        ds.DatasetGame(owners, lambda X, y: float(len(X))),
    ):
        settled = ds.settle(ds.value(game, "exact" if game.cheap else "loo"), 100, negative="floor")
        assert re.search(told, " ".join(settled.to_dict()["valuation"]["notes"]))
        assert "&#39;a&#39; and &#39;b&#39; (7" in ds.report.report(settled.valuation, settled)


def test_test_rows_are_told_with_their_holders() -> None:
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    owners = ds.Owners.from_arrays({"a": (X[:10], y[:10]), "b": (X[10:20], y[10:20])})
    with pytest.warns(SharedRows, match=r"4 rows of the test set.*here 'b' \(3\), 'a' \(1\)"):
        game = ds.ModelGame(owners, "naive-bayes", X[[0, 11, 12, 13, 30]], y[[0, 11, 12, 13, 30]])
    assert any("'b' (3)" in note for note in game.notes)


def test_equal_rows_in_coarse_data_are_no_sign_of_copying() -> None:
    rng = np.random.default_rng(1)
    coarse = [overlap.row_hashes(rng.integers(0, 3, (300, 4))) for _ in range(4)]
    assert overlap.overlap(coarse).shared > 50
    assert overlap.overlap(coarse).pairs() == []
    fine = [overlap.row_hashes(rng.normal(size=(300, 4))) for _ in range(4)]
    fine[2] = np.concatenate([fine[2], fine[0][:5]])
    assert overlap.overlap(fine).pairs() == [(0, 2, 5, 0.0)]
