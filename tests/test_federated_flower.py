"""The same federation over Flower: real SuperNodes, processes of their own, on this machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

import dushapley as ds
from dushapley.errors import FederationFailed, InvalidOption
from dushapley.federated import Federation, InProcess, Message
from dushapley.federated.flower.link import Flower, Link
from dushapley.federated.flower.nodes import Access, Node
from dushapley.federated.flower.programs import (
    folder_of_programs,
    free_port,
    interpreter,
    own_clientapp,
)
from dushapley.federated.flower.sockets import OwnersHere
from dushapley.games import SoftmaxRegression
from dushapley.processes import own_folder
from extras import skip_unless_required
from test_federated import encoded, joined, one, split

AVERAGING = {"level": "models", "steps": 3, "local_steps": 3, "local_batch": 16, "seed": 5}


@pytest.fixture(scope="module")
def rows():
    return split(load_breast_cancer, owners=3)


def need_flower():
    try:
        folder_of_programs()
    except InvalidOption as error:
        skip_unless_required("flower", str(error))


@pytest.fixture(scope="module")
def federation(rows):
    """Three owners, each with a SuperNode."""
    need_flower()
    with Flower() as flower:
        access = Access(flower.address, insecure=True)
        nodes = [Node(owner, access) for owner in joined(rows[0])]
        try:
            yield Federation(flower, n_owners=3, patience=120, join_within=300), nodes
        finally:
            for node in nodes:
                node.close()


@pytest.mark.slow
def test_gradients_over_supernodes_train_what_pooled_rows_train(federation, rows):
    game = ds.FederatedGame(
        federation[0], level="gradients", test=one(*rows[1]), steps=3, scoring="neg_log_loss"
    )
    owners, (X, y) = encoded(game, *rows)
    central = ds.ModelGame(
        owners, SoftmaxRegression(steps=3), X, y, scoring="neg_log_loss", fast=False
    )
    pools = np.array(list(np.ndindex(2, 2, 2)))
    assert np.abs(game(pools) - central(pools)).max() < 1e-9


@pytest.mark.slow
def test_averaging_over_supernodes_has_the_bits_of_this_process_also_when_one_is_killed(
    federation, rows
):
    asked, nodes = federation
    here = ds.FederatedGame(InProcess(joined(rows[0])), test=one(*rows[1]), **AVERAGING)
    there = ds.FederatedGame(asked, test=one(*rows[1]), **AVERAGING)
    owner, before = nodes[1].here.owners[0], nodes[1].program.process.pid

    def kill():
        until = monotonic() + 200
        while owner.log.kinds["steps"] == 0 and monotonic() < until:
            sleep(0.05)
        nodes[1].kill()

    Thread(target=kill, daemon=True).start()
    ours, theirs = ds.value(here), ds.value(there)
    assert nodes[1].program.process.pid != before
    assert theirs.values.tolist() == ours.values.tolist()
    assert theirs.errors["test set"] == ours.errors["test set"]
    assert sum(t["repeated"] for t in theirs.details["federation"]["owners"].values()) > 0


def test_beyond_this_machine_encryption_and_keys_are_required(tmp_path):
    some = tmp_path / "file"
    some.write_text("x")
    for address in ("10.0.0.1:9092", "0.0.0.0:9092", "hospital.example:443"):
        with pytest.raises(InvalidOption, match="--insecure was given for"):
            Access(address, insecure=True).refuse_open()
        with pytest.raises(InvalidOption, match="--private-key are missing"):
            Access(address, root_certificate=some).refuse_open()
        with pytest.raises(InvalidOption, match="--insecure was given for"):
            Link(address, insecure=True).refuse_open()
        with pytest.raises(InvalidOption, match="--certificate and --key"):
            Link(address).refuse_open()
        Access(address, root_certificate=some, private_key=some).refuse_open()
    Access("127.0.0.1:1", insecure=True).refuse_open()
    Link("[::1]:1", insecure=True).refuse_open()


def test_only_who_has_the_key_is_answered(tmp_path, rows):
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Client

    socket = tmp_path / "owner.sock"
    here = OwnersHere(joined(rows[0]), socket)
    assert stat.S_IMODE(os.stat(socket.with_suffix(".key")).st_mode) == 0o600
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(str(socket), "AF_UNIX", authkey=b"guessed").close()
    key = socket.with_suffix(".key").read_bytes()
    with Client(str(socket), "AF_UNIX", authkey=key) as line:
        line.send_bytes(b"nonsense")  # and whoever asks next is answered
    with Client(str(socket), "AF_UNIX", authkey=key) as line:
        line.send_bytes(b"2")
        line.send_bytes(Message("schema", {"run": "r", "round": 1}).encode())
        assert Message.decode(line.recv_bytes()).about["owner"] == "owner 2"
    here.close()


class HalfArrived:
    """A SuperLink as the relay sees it: of owner 1 an answer is announced and never there."""

    def __init__(self):
        self.nodes, self.never = [1, 2], Event()

    def get_node_ids(self):
        return self.nodes

    def push_messages(self, messages):
        return [str(message.address) for message in messages]

    def pull_messages(self, identities):
        (identity,) = identities
        if identity == "1":
            self.nodes = [1, 2, 3]  # it is started again, under another address
            self.never.wait()
        reply = SimpleNamespace(
            has_error=lambda: identity == "3", content={"message": {"bytes": b"yes"}}
        )
        return [reply]


def relay(monkeypatch):
    """The relay of the coordinator, without Flower."""
    import runpy

    from dushapley.federated.flower.programs import APP

    def message(**given):
        return SimpleNamespace(address=given["dst_node_id"])

    fake = SimpleNamespace(main=lambda: lambda function: function)
    parts = {
        "flwr": SimpleNamespace(),
        "flwr.app": SimpleNamespace(Context=0, Message=message, RecordDict=dict, ConfigRecord=dict),
        "flwr.serverapp": SimpleNamespace(Grid=0, ServerApp=lambda: fake),
    }
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    exchange = runpy.run_path(str(APP / "server.py"))["exchange"]
    exchange.__globals__.update(LOOK_AROUND=0.1, Grid=object)
    exchange.__globals__["KNOWN"].update({"1", "2"})
    return exchange


def test_nobody_waits_for_an_answer_of_which_half_has_arrived(monkeypatch):
    exchange, link = relay(monkeypatch), HalfArrived()
    started = monotonic()
    assert exchange(link, {"1": b"?", "2": b"?"}, 900.0) == {"2": b"yes"}
    assert monotonic() - started < 600  # not 900: somebody new is there, who may be owner 1
    exchange.__globals__["KNOWN"].add("3")
    assert exchange(link, {"3": b"?", "7": b"?"}, 0.5) == {}  # an error is no answer, nor is nobody
    link.never.set()


def test_the_relay_ends_with_the_coordinator_even_if_flower_never_answers(monkeypatch):
    import multiprocessing

    names, ended = relay(monkeypatch).__globals__, Event()
    names.update(AFTERWARDS=0.1, os=SimpleNamespace(_exit=lambda code: ended.set()))
    ours, theirs = multiprocessing.Pipe()
    requests = SimpleQueue()
    Thread(target=names["read"], args=(theirs, requests), daemon=True).start()
    ours.send_bytes(b'{"what": "exchange", "to": ["1"], "seconds": 9}')
    ours.send_bytes(b"?")
    assert requests.get(timeout=120)[1] == {"1": b"?"}  # and nobody serves it
    ours.close()
    assert ended.wait(120)
    theirs.close()


def test_what_flower_says_is_quoted_without_colours(tmp_path, monkeypatch):
    loud = tmp_path / "flower-superlink"
    loud.write_text("#!/bin/sh\nprintf '\\033[92mINFO \\033[0m: bad\\rport\\n\\n'\nexit 3\n")
    for name in ("flower-superlink", "flower-supernode"):
        (tmp_path / name).write_text(loud.read_text())
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("DUSHAPLEY_FLOWER", str(tmp_path))
    with pytest.raises(FederationFailed, match="does not listen") as failed:
        Flower()
    assert str(failed.value).endswith("It said:\nINFO : bad\nport")


def test_the_python_of_flower_is_found_however_pip_writes_it(tmp_path):
    script = tmp_path / "flwr-clientapp"
    for text in ("#!/a/python3\nimport re\n", '#!/bin/sh\n\'\'\'exec\' "/a/python3" "$0" "$@"\n'):
        script.write_text(text)
        assert interpreter(script) == "/a/python3"


def test_flower_is_imported_once_for_all_messages(tmp_path, monkeypatch):
    import socket

    (tmp_path / "flwr-clientapp").write_text(f"#!{sys.executable}\n")
    for name in ("flower-superlink", "flower-supernode"):
        (tmp_path / name).touch()
    monkeypatch.setenv("DUSHAPLEY_FLOWER", str(tmp_path))
    folder, (python, app, *more) = own_clientapp(tmp_path / "an owner's")
    assert (python, more) == (sys.executable, ["--wait", str(tmp_path / "an owner's/relay.sock")])
    assert Path(app).is_file()
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.bind(more[1])
        waiting.listen()
        subprocess.run([folder / "flwr-clientapp", "--token", "a b"], check=True)
        with waiting.accept()[0] as line:
            assert line.recv(100) == b"--token\0a b"


KILLED = """
import os, signal
from dushapley.federated.flower.sockets import listener
from dushapley.processes import own_folder

listener(own_folder(60) / "coordinator.sock")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_keys_of_killed_processes_are_swept_by_the_next_start(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def keys():
        found = [place.glob("dushapley-*/coordinator.key") for place in (tmp_path, Path("/tmp"))]
        return {key for some in found for key in some}

    before = keys()
    code = subprocess.run([sys.executable, "-c", KILLED], check=False).returncode
    assert code == -signal.SIGKILL
    (key,) = keys() - before
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    mine, again = own_folder(60), own_folder(60)
    assert not key.exists()
    assert mine.exists()  # what lives is left alone
    for folder in (mine, again):
        folder.rmdir()


def cli(*arguments):
    from dushapley.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["federate", *map(str, arguments)])
    return ended.value.code


def table(path: Path, **more) -> Path:
    n = 40
    columns = {"age": np.arange(n) + 0.5, "ward": ["a", "b"] * (n // 2), "ill": ["no", "yes"] * 20}
    pd.DataFrame(columns | more).to_csv(path, index=False)
    return path


def test_commands_refuse_before_anything_is_started(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = table(tmp_path / "Bonn.csv")
    far = ("--superlink", "10.0.0.1:9092")
    assert cli("owner", file, "--target", "ill", *far, "--insecure") == 2
    assert "not this machine" in capsys.readouterr().err
    assert cli("owner", file, "--target", "ill", *far) == 2
    assert "--root-certificate and --private-key are missing" in capsys.readouterr().err
    odd = table(tmp_path / "Kiel.csv", ill=["no", "yes", "Yes", "no"] * 10)
    assert cli("owner", odd, "--target", "ill", "--insecure") == 2  # its own intake check
    assert "label-spelling" in capsys.readouterr().err
    assert cli("coordinator", "--owners", "2", "--listen", "0.0.0.0:9092", "--insecure") == 2
    assert "--insecure was given for 0.0.0.0:9092" in capsys.readouterr().err
    assert cli("coordinator", "--owners", "2", "--test", file) == 2
    assert "--target" in capsys.readouterr().err
    monkeypatch.setenv("DUSHAPLEY_FLOWER", str(tmp_path))
    assert cli("demo", "--out", tmp_path / "out") == 2
    assert "pip install 'dushapley[federated]'" in capsys.readouterr().err


def test_what_the_check_quotes_stays_with_the_owner(tmp_path):
    from dushapley.federated.files import owner_of_files

    ages = np.append(np.arange(39) + 0.5, 98765.25)
    file = table(tmp_path / "Bonn.csv", age=ages, same=1.0)
    said: list[str] = []
    owner = owner_of_files(file, target="ill", tell=said.append)
    assert any("98765" in sentence for sentence in said)
    assert owner.notes[0].startswith("its own check noted constant-column")
    assert b"98765" not in owner.answer(Message("schema", {"run": "r", "round": 1}).encode())
    # nor do errors quote cells
    owner.table.columns["age"][3] = np.nan
    odd = owner.answer(Message("agree", {"run": "r", "round": 2, "agreement": {}}).encode())
    assert "(TypeError)" in Message.decode(odd).about["reason"]


def test_an_owner_of_files_notices_when_they_change(tmp_path):
    from dushapley.federated import Log, Policy
    from dushapley.federated.files import owner_of_files

    file = table(tmp_path / "Bonn.csv")
    log = Log(tmp_path / "log.jsonl")
    owner = owner_of_files(file, target="ill", policy=Policy(hold_back=0.25), log=log)
    assert (owner.name, len(owner.table), len(owner.held_back)) == ("Bonn", 30, 10)
    question = Message("schema", {"run": "r", "round": 1}).encode()
    assert Message.decode(owner.answer(question)).kind == "schema"
    os.utime(file)  # touched, but the same
    assert Message.decode(owner.answer(question)).kind == "schema"
    table(file, age=np.arange(40) * 2.0)
    answer = Message.decode(owner.answer(question))
    assert answer.kind == "fault"
    assert "files of Bonn have changed since it joined" in answer.about["reason"]
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [line["answer"] for line in lines] == ["schema", "schema", "fault"]


PAGE = Path(__file__).parents[1] / "docs/federated.md"


def shown(part: str) -> list[list[str]]:
    """Commands of a part of the page, word by word."""
    text = PAGE.read_text().partition(f"**{part}")[2].partition("\n#")[0].partition("\n**")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [shlex.split(line) for b in blocks for line in b.replace("\\\n", "").splitlines()]


def rows_of_the_page(folder: Path) -> None:
    for name in ("north", "south", "test"):
        pd.concat([pd.read_csv(table(folder / f"{name}.csv"))] * 2).to_csv(
            folder / f"{name}.csv", index=False
        )
    policy = re.search(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert policy is not None
    (folder / "policy.toml").write_text(policy[1])


def test_commands_of_the_page_for_one_machine_lack_nothing_but_flower(
    tmp_path, capsys, monkeypatch
):
    rows_of_the_page(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUSHAPLEY_FLOWER", str(tmp_path))
    commands = shown("On one machine")
    assert [command[:3] for command in commands] == [
        ["dushapley", "federate", "owner"],
        ["dushapley", "federate", "owner"],
        ["dushapley", "federate", "coordinator"],
    ]
    for _, _, *words in commands:
        assert cli(*words) == 2
        assert "Flower is not installed here" in capsys.readouterr().err


@pytest.mark.slow
def test_commands_of_the_page_for_three_machines_end_in_a_settlement(tmp_path):
    """With this machine's name in the place of the page's, and a policy for one of the owners."""
    need_flower()
    rows_of_the_page(tmp_path)
    port = str(free_port())
    here = {"federation.example.org": "localhost", "9092": port, "rsa:4096": "rsa:2048"}

    def run(words, **changes):
        line = shlex.join(words)
        for old, new in {**here, **changes}.items():
            line = line.replace(old, new)
        line = line.replace("'>'", ">").replace("dushapley", f"{sys.executable} -m dushapley", 1)
        with (tmp_path / "said.txt").open("ab") as said:
            words = ["sh", "-c", f"exec {line}"]
            return subprocess.Popen(words, cwd=tmp_path, stdout=said, stderr=said)

    certificate, key, collect, coordinator, owner = shown("On three machines")
    for made in (run(certificate), run(key), run(key, north="south")):
        assert made.wait(300) == 0
    assert run(collect).wait(300) == 0
    asks = run([*coordinator, "--steps", "1", "--patience", "120"])
    answer = [run([*owner, "--policy", "policy.toml"]), run(owner, north="south")]
    try:
        code = asks.wait(600)
    finally:
        for process in (asks, *answer):
            process.terminate()
    said = (tmp_path / "said.txt").read_text()
    assert "joined: north, south" in said
    assert code == 0, said
    assert json.loads((tmp_path / "settlement.json").read_text())["pot"]
    assert [process.wait(120) for process in answer] == [128 + signal.SIGTERM] * 2
    lines = (tmp_path / "south-log.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == ["schema", "agree", "steps"]
