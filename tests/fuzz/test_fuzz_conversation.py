"""Any saved conversation (`AskTell.save`) goes on with its answers, or is refused in a sentence."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzzing import CASES, Target, bytewise, check
from hypothesis import given, settings

import dushapley as ds

ODD: list[Any] = [
    None, True, -1, 0, 2, 10**6, 10**12, 1e308, -1e-320, "", "exact", "sobol", "\x1b[2J\u202e",
    "x" * 20_000, [], {}, [[]], [None], {"form": 1}, [1, 2], ["a", "a", "b"], [[0, 1, None, None]],
]  # fmt: skip


def corpus() -> list[bytes]:
    found = []
    for method, budget in (("permutation", 40), ("gp", 12), ("exact", 8)):
        talk = ds.AskTell(method, 3, budget=budget, sizes=[3, 4, 5])
        for question in talk.ask(7):
            talk.tell(question, float(len(question.owners)))
        with tempfile.TemporaryDirectory() as folder:
            talk.save(Path(folder, "talk.json"))
            found.append(Path(folder, "talk.json").read_bytes())
    return found


def mutate(rng: Random, content: bytes) -> bytes:
    """Damage the text, or entries of it."""
    if rng.random() < 0.3:
        return bytewise(rng, content)
    data = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        inside: Any = data
        key: Any = rng.choice(sorted(inside))
        while rng.random() < 0.6 and isinstance(inside[key], (list, dict)) and inside[key]:
            inside = inside[key]
            key = rng.choice(sorted(inside) if isinstance(inside, dict) else range(len(inside)))
        if rng.random() < 0.1:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(rng.choice(ODD))
        if not data:
            break
    return json.dumps(data).encode()


def read(path: Path) -> None:
    """Go on with it for a few questions; large budgets of few owners repeat theirs for long."""
    talk = ds.AskTell.load(path)
    for question in talk.ask(3) if talk.plan.budget <= 10_000 else ():
        assert question.pool.shape == (len(talk.names),)
        talk.tell(question, 1.0)
    assert talk.estimate is None or np.isfinite(talk.estimate.values).all()


TARGET = Target("conversation", "talk.json", corpus, read, mutate)


@given(CASES)
@settings(max_examples=60)
def test_any_saved_conversation_ends_clearly(case: int) -> None:
    check(TARGET, case)
