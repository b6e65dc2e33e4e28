"""Asking and telling by hand: in any order, with failures, saved and loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dushapley as ds
from dushapley.estimators.gp import METHOD, gp
from dushapley.protocol import Conversation, Problem

WORTH = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0]

TRAINER = """
import json, pathlib, sys
folder, mine = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for job in sorted(folder.glob("*.job")):
    number = int(job.stem)
    if number % 3 == mine:
        pool = json.loads(job.read_text())
        fails = number in (17, 23)
        told = {"failure": "out of memory"} if fails else {"value": sum(pool) ** 0.5}
        job.with_suffix(".done").write_text(json.dumps(told))
        job.unlink()
"""


def engine(failed: list[tuple[bool, ...]], method: str, budget: int) -> ds.Valuation:
    def worth(pools: np.ndarray) -> list[float]:
        return [
            0.0 if tuple(p) in failed else sum(np.array(WORTH)[p].tolist()) ** 0.5 for p in pools
        ]

    return ds.value(ds.CallableGame(worth, 8), method, budget=budget, seed=4)


@pytest.mark.parametrize(("method", "budget"), [("permutation", 100), ("gp", 60)])
def test_three_processes_ten_pauses_and_two_failures_give_the_engines_estimate(
    tmp_path: Path, method: str, budget: int
) -> None:
    talk, file = ds.AskTell(method, 8, budget=budget, seed=4), tmp_path / "talk.json"
    failed, pauses, asked = [], 0, set()
    rng = np.random.default_rng(0)
    while not talk.finished:
        for question in talk.ask(5):
            assert question.number not in asked
            asked.add(question.number)
            members = [w for w, inside in zip(WORTH, question.pool, strict=True) if inside]
            (tmp_path / f"{question.number}.job").write_text(json.dumps(members))
            if question.number in (17, 23):
                failed.append(tuple(question.pool.tolist()))
        workers = [
            subprocess.Popen([sys.executable, "-S", "-c", TRAINER, str(tmp_path), str(k)])
            for k in range(3)
        ]
        assert all(worker.wait() == 0 for worker in workers)
        for path in rng.permutation(sorted(tmp_path.glob("*.done"))):
            talk.tell(int(path.stem), **json.loads(path.read_text()))
            path.unlink()
        talk.save(file)
        talk, pauses = ds.AskTell.load(file), pauses + 1
    assert pauses >= 10
    found, wanted = talk.valuation(), engine(failed, method, budget)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.std_errors, wanted.std_errors)
    assert found.failures == {"out of memory": 2}
    assert found.n_distinct == len(asked) == wanted.n_distinct
    assert found.n_trainings == found.n_distinct - 1
    assert found.complete
    assert talk.ask(5) == []
    assert ds.Valuation.from_dict(found.to_dict()) == found


def test_it_thinks_in_one_thread_as_the_engine_does() -> None:
    threads: set[int] = set()

    def watched(problem: Problem) -> Conversation:
        threads.update(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        return (yield from gp(problem))

    method = replace(METHOD, name="watched", run=watched)
    with threadpool_limits(2):
        talk = ds.AskTell(method, 8, budget=30)
        while not talk.finished:
            for question in talk.ask(5):
                talk.tell(question, float(question.pool.sum()))
        talk.valuation()
    assert threads == {1}


def test_noise_becomes_an_error_of_training() -> None:
    talk = ds.AskTell("exact", 3)
    while not talk.finished:
        for question in talk.ask(3):
            talk.tell(question, float(len(question.owners)), noise=0.1)
    found = talk.valuation()
    assert all(error > 0 for error in found.errors["training"])


def test_questions_that_are_out_can_be_asked_for_again_and_partial_results_read() -> None:
    talk = ds.AskTell("permutation", 4, budget=60)
    with pytest.raises(ds.DUShapleyError, match="no estimate yet"):
        talk.valuation()
    questions = talk.ask(12)
    for question in questions[::-1][:5]:
        talk.tell(question, 1.0 * len(question.owners))
    assert [q.number for q in talk.unanswered] == list(range(7))
    assert talk.ask(0) == []


def test_a_loaded_conversation_asks_again_what_was_out(tmp_path: Path) -> None:
    talk, file = ds.AskTell("permutation", 4, budget=40), tmp_path / "talk.json"
    first = talk.ask(6)
    talk.tell(first[0], 0.0)
    talk.tell(first[3], 1.0)
    assert not {q.number for q in talk.ask(3)} & {q.number for q in first}  # others may be at work
    talk.save(file)
    talk = ds.AskTell.load(file)
    out = [q.number for q in talk.unanswered]
    talk.tell(out.pop(), 1.0)  # by somebody who was at work all the time
    asked = [q.number for q in talk.ask(2)]
    talk.save(file)
    assert [q.number for q in ds.AskTell.load(file).ask(2)] == asked == out[:2]
    assert [q.number for q in talk.ask(4)] == out[2:]
    for question in talk.unanswered:
        talk.tell(question, len(question.owners) ** 2)
    for _ in range(40):
        for question in talk.ask(3):
            assert question.number not in out
            talk.tell(question, len(question.owners) ** 2)
    assert talk.finished


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    talk = ds.AskTell("permutation", 4, budget=60)
    nobody, everybody = talk.ask(2)
    for told, words in (
        ({"question": 7, "value": 1.0}, "No question has the number 7"),
        ({"question": nobody, "failure": "broken"}, "Nobody's pool was told as a failure"),
        ({"question": nobody}, "either a value or a failure"),
        ({"question": nobody, "value": float("nan")}, "must be a finite number"),
        ({"question": nobody, "value": 10**400}, "must be a finite number"),
        ({"question": nobody, "value": 1.0, "noise": -1.0}, "must be 0 or more"),
    ):
        with pytest.raises(ds.DUShapleyError, match=words):
            talk.tell(**told)
    unnamed = ds.AskTell("exact", 2)
    unnamed.tell(unnamed.ask(2)[1], failure="")
    unnamed.tell(0, 0.0)
    for question in unnamed.ask(2):
        unnamed.tell(question, 1.0)
    assert unnamed.valuation().failures == {"failure": 1}
    talk.tell(everybody, 2.0)
    talk.tell(everybody, 2.0)
    with pytest.raises(ds.DUShapleyError, match="told before"):
        talk.tell(everybody, 3.0)
    file = tmp_path / "talk.json"
    talk.save(file)
    stored = json.loads(file.read_text())
    for change, words in (
        ({"asked": 10**6}, "more questions than the method asks"),
        ({"seed": -1}, "seed is -1"),
        ({"told": [[0, None, None, None]]}, "a value or a failure"),
        ({"told": [[0, "1", None, None]]}, "must be a finite number"),
        ({"told": [[0, 1.0, "1", None]]}, "must be 0 or more"),
        ({"told": [[[0], 1.0, None, None]]}, "must be a whole number"),
        ({"told": [[0, 1.0]]}, "a list of 4 entries"),
        ({"told": [[99, 1.0, None, None]]}, "more questions than the method asks"),
        ({"questions": "0" * 64}, "other questions"),
        ({"more": 1}, "unknown"),
    ):
        file.write_text(json.dumps(stored | change))
        with pytest.raises(ds.DUShapleyError, match=words):
            ds.AskTell.load(file)
    file.write_text("{")
    with pytest.raises(ds.DUShapleyError, match="not a readable conversation"):
        ds.AskTell.load(file)
