"""Federations over Flower done wrong on purpose, with real processes: what is said, what is kept.

    DUSHAPLEY_FLOWER=.../bin python benchmarks/federated_flower.py [CASE ...] [--store]

Three owners with SuperNodes of their own on this machine; the case "simulation" has five owners in
Flower's simulation engine (which needs Ray beside Flower). Every case ends in a sentence that names
the owner, or with the values that an undisturbed run has, to the last bit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import dushapley as ds
from dushapley.errors import FederationFailed
from dushapley.federated import Federation, InProcess, Message, Owner, Policy, Table
from dushapley.federated.files import owner_of_files
from dushapley.federated.flower.link import Flower, Link
from dushapley.federated.flower.nodes import Access, Node
from dushapley.federated.flower.programs import free_port
from dushapley.games import SoftmaxRegression

RESULTS = Path(__file__).parent / "results" / "federated_flower.json"
AVERAGING = {"level": "models", "steps": 2, "local_steps": 3, "local_batch": 16, "seed": 5}
PATIENCE = 40.0
STANDING = ExitStack()
"""Federations that stand until the end."""


def one(X, y):
    return ds.Owners.from_arrays({"rows": (X, y)})


def rows_of(load, owners=3):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    n = len(y) // 2
    rows = {f"owner {k}": (X[order[k:n:owners]], y[order[k:n:owners]]) for k in range(owners)}
    return rows, one(X[order[n:]], y[order[n:]])


ROWS, TEST = rows_of(load_breast_cancer)


class Odd(Owner):
    """An owner that answers training otherwise than it should, once or always."""

    fault, always, done = "", True, 0

    def answer(self, content: bytes) -> bytes:
        reply = super().answer(content)
        message = Message.decode(reply)
        if message.kind != "steps" or (self.done and not self.always):
            return reply
        self.done += 1
        weights = message.arrays["weights"]
        if self.fault == "late":
            sleep(PATIENCE + 5)
        if self.fault == "silent":
            sleep(PATIENCE * 4)
        if self.fault == "nan":
            return replace(message, arrays={"weights": weights * np.nan}).encode()
        if self.fault == "shape":
            return replace(message, arrays={"weights": weights[:, :1]}).encode()
        if self.fault == "stale":
            return replace(message, about={**message.about, "round": 1}).encode()
        return reply


@contextmanager
def supernodes(owners, access=None, link=None):
    with Flower(link) as flower, ExitStack() as stack:
        nodes = [
            stack.enter_context(Node(o, (access or (lambda *_: Access(flower.address, True)))(o)))
            for o in owners
        ]
        yield Federation(flower, n_owners=len(nodes), patience=PATIENCE, join_within=300), nodes


def plain():
    return [Owner(name, one(*r)) for name, r in ROWS.items()]


def undisturbed():
    game = ds.FederatedGame(InProcess(plain()), test=TEST, **AVERAGING)
    return ds.value(game).values.tolist()


@cache
def odd_federation():
    """Three owners, the second of whom can be told to be odd; one federation for several cases."""
    owners = plain()
    owners[1] = Odd("owner 1", one(*ROWS["owner 1"]))
    return owners[1], STANDING.enter_context(supernodes(owners))[0]


def disturbed(fault: str, always: bool = True) -> str:
    owner, federation = odd_federation()
    owner.fault, owner.always, owner.done = fault, always, 0
    return outcome(federation)


def outcome(federation, test=TEST, expected=None) -> str:
    try:
        game = ds.FederatedGame(federation, test=test, **AVERAGING)
        values = ds.value(game).values.tolist()
    except FederationFailed as error:
        return str(error)
    same = values == (expected or undisturbed())
    repeated = sum(m.traffic.repeated for m in federation.members.values())
    return f"{'same bits' if same else 'OTHER BITS'}, {repeated} questions asked again"


def late():
    """One answer comes after patience has run out."""
    return disturbed("late", always=False)


def silent():
    """An owner answers nothing any more."""
    return disturbed("silent")


def nan():
    """An answer holds numbers that are none."""
    return disturbed("nan")


def shape():
    """An answer has another shape."""
    return disturbed("shape")


def stale():
    """Answers belong to an earlier round."""
    return disturbed("stale")


def disconnected():
    """A SuperNode dies and is not started again."""
    return lost(revive=False)


def restarted():
    """A SuperNode is killed in the middle and started again."""
    return lost(revive=True)


def lost(*, revive: bool) -> str:
    owners = plain()
    with supernodes(owners) as (federation, nodes):
        nodes[1].revive = revive

        def kill():
            until = monotonic() + 300
            while owners[1].log.kinds["steps"] == 0 and monotonic() < until:
                sleep(0.05)
            nodes[1].kill()

        Thread(target=kill, daemon=True).start()
        return outcome(federation)


def changed():
    """An owner's file changes after it has joined."""
    with tempfile.TemporaryDirectory() as folder:
        owners = []
        for name, (X, y) in ROWS.items():
            frame = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]).assign(y=y)
            frame.to_csv(f"{folder}/{name}.csv", index=False)
            owners.append(owner_of_files(f"{folder}/{name}.csv", target="y"))
        with supernodes(owners) as (federation, _):
            path = Path(folder) / "owner 1.csv"
            path.write_text(path.read_text().rsplit("\n", 2)[0] + "\n")
            X, y = TEST.X[0], TEST.y[0]
            test = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]).assign(y=y)
            return outcome(federation, Table.from_frame(test, target="y"))


def tls():
    """Certificates and keys: a known owner is let in, and a stranger is not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout",
             folder / "link.key", "-out", folder / "link.crt", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True,
        )  # fmt: skip
        keys = []
        for owner in (*ROWS, "stranger"):
            file = folder / owner.replace(" ", "-")
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", file], check=True
            )
            keys.append(file.with_suffix(".pub").read_text())
        (folder / "owners.pub").write_text("".join(keys[:-1]))
        root = folder / "link.crt"
        link = Link(
            f"127.0.0.1:{free_port()}", False, root, folder / "link.key", root,
            folder / "owners.pub",
        )  # fmt: skip

        def access(owner):
            return Access(link.address, False, root, folder / owner.name.replace(" ", "-"))

        with supernodes(plain(), access, link) as (federation, _):
            said = outcome(federation)
            stranger = Owner("stranger", one(*ROWS["owner 1"]))
            with Node(stranger, access(stranger), revive=False) as node:
                until = monotonic() + 120
                while node.program.runs and monotonic() < until:
                    sleep(0.5)
                there = len(federation.transport.addresses())
                ended = "ends" if not node.program.runs else "waits"
                words = node.program.tail(30)
        words = " ".join(words.partition("Exit Code: ")[2].partition("For more")[0].split())
        return f"{said}; {there} of 4 are let in, the stranger's SuperNode {ended}: {words}"


def coordinator():
    """The coordinator is killed after a block, and run again."""
    return resumed(lambda process: process.pid)


def superlink():
    """The coordinator's SuperLink is killed after a block, and the coordinator run again."""
    return resumed(lambda process: child(process.pid, "flower-superlink"))


def resumed(victim) -> str:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, address = Path(name), f"127.0.0.1:{free_port()}"
        files = {**ROWS, "test": (TEST.X[0], TEST.y[0])}
        for owner, (X, y) in files.items():
            frame = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]).assign(y=y)
            frame.to_csv(folder / f"{owner}.csv", index=False)
        for owner in ROWS:
            command = [sys.executable, "-m", "dushapley", "federate", "owner", f"{owner}.csv",
                       "--target", "y", "--superlink", address, "--insecure"]  # fmt: skip
            log = stack.enter_context((folder / f"{owner}.txt").open("wb"))
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        command = [
            sys.executable, "-m", "dushapley", "federate", "coordinator", "--owners", "3",
            "--listen", address, "--insecure", "--test", "test.csv", "--target", "y",
            "--steps", "2", "--local-steps", "3", "--local-batch", "16", "--seed", "5",
            "--block", "4", "--json", "--ledger", "paid.sqlite", "--patience", str(PATIENCE),
        ]  # fmt: skip
        first = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=(folder / "c.txt").open("wb")
        )
        until = monotonic() + 400
        while paid(folder / "paid.sqlite") == 0 and first.poll() is None and monotonic() < until:
            sleep(0.1)
        os.kill(victim(first), signal.SIGKILL)
        killed = monotonic()
        code = first.wait(400)
        waited = monotonic() - killed
        said = (
            "" if code == -signal.SIGKILL else f", code {code} after {waited:.0f} s: {told(folder)}"
        )
        sleep(8)  # the relay gives Flower some seconds to take note
        behind = relays(address)
        before = paid(folder / "paid.sqlite")
        again = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if again.returncode:
            return f"FAILED: {again.stderr[-400:]}"
        result = json.loads(again.stdout)
        same = result["values"] == undisturbed()
        bits = "same bits" if same else "OTHER BITS"
        paid_now = f"{result['n_computed']} of {result['n_evaluations']} were paid after"
        return (
            f"{bits}, {before} evaluations were in the ledger at the kill, {paid_now}, "
            f"{len(behind)} processes were left behind{said}"
        )


def told(folder: Path) -> str:
    """The sentence with which a coordinator ended, without what it quotes of Flower."""
    (sentence,) = re.findall(r"^error: (.*)", (folder / "c.txt").read_text(), re.M)
    return re.sub(r" The SuperLink said:.*", "", sentence)


def processes() -> dict[int, tuple[int, str]]:
    """All that run: parents and command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(path.name)] = parent, (path / "cmdline").read_text().replace("\0", " ")
    return found


def child(pid: int, name: str) -> int:
    return next(k for k, (up, words) in processes().items() if up == pid and name in words)


def relays(address: str) -> list[str]:
    """Processes of the coordinator's side of Flower."""
    every = [words for _, words in processes().values()]
    port = address.rpartition(":")[2]
    return [w for w in every if f"-address {address}" in w or f"--port {port}" in w]


def paid(path: Path) -> int:
    import sqlite3

    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as known:
            return int(known.execute("select count(*) from evaluations").fetchone()[0])
    except sqlite3.Error:
        return 0


def simulation():
    """Five owners in Flower's simulation engine, three data sets: gradients and averaging."""
    worst, same = {}, True
    every = {"breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
    first, _ = rows_of(load_iris, 5)
    with Flower(simulated=[Owner(n, one(*r), Policy(least_rows=1)) for n, r in first.items()]) as f:
        for name, load in every.items():
            rows, test = rows_of(load, 5)
            owners = [Owner(n, one(*r), Policy(least_rows=1)) for n, r in rows.items()]
            f._there.owners = owners
            federation = Federation(f, n_owners=5, patience=PATIENCE, join_within=200)
            game = ds.FederatedGame(
                federation, level="gradients", test=test, steps=5, scoring="neg_log_loss"
            )
            central = ds.ModelGame(
                ds.Owners.from_arrays({o.name: game.agreement.encode(o.table, "") for o in owners}),
                SoftmaxRegression(steps=5, classes=game.classes),
                *game.agreement.encode(Table.of(test), ""),
                scoring="neg_log_loss",
                fast=False,
            )
            pools = np.array(list(np.ndindex(2, 2, 2, 2, 2)))
            worst[name] = float(np.abs(game(pools) - central(pools)).max())
            if name == "breast cancer":
                there = ds.FederatedGame(federation, test=test, **AVERAGING)
                here = ds.FederatedGame(InProcess(owners), test=test, **AVERAGING)
                same = ds.value(there).values.tolist() == ds.value(here).values.tolist()
    told = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
    bits = "same bits" if same else "OTHER BITS"
    return f"log loss of all 32 pools differs from pooled rows by at most {told}; averaging: {bits}"


CASES = {
    f.__name__: f
    for f in (simulation, late, silent, disconnected, restarted, nan, shape, stale, changed, tls,
              coordinator, superlink)
}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--store", action="store_true", help="beside the other cases")
    given = parser.parse_args()
    with STANDING:
        for case in given.cases:
            started = monotonic()
            said = CASES[case]()
            print(f"{case} ({monotonic() - started:.0f} s): {said}", flush=True)
            if given.store:
                known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                known[case] = {"case": CASES[case].__doc__, "said": said}
                ordered = {name: known[name] for name in CASES if name in known}
                RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
