"""`federate`: owners who keep their rows, a coordinator who asks them, and both on one machine."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Annotated, Any

from typer import Argument, Context, Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.delivery import SETTLEMENT, Pot
from dushapley.cli.outputs import Force, planned, refuse_no_folder, refuse_outputs, write
from dushapley.data.outputs import write_whole
from dushapley.data.reading import Reading
from dushapley.engine.plan import choose_plan
from dushapley.errors import FederationFailed, InvalidOption
from dushapley.hashing import digest
from dushapley.report import report as page
from dushapley.report import summarize, text_table
from dushapley.terminal import output, say

Insecure = Annotated[
    bool, Option("--insecure", help="Without encryption; on this machine (127.0.0.1) only.")
]
RootCertificate = Annotated[
    Path | None,
    Option(help="Certificate that vouches for the SuperLink.", metavar="FILE", exists=True),
]
LISTEN = "127.0.0.1:9092"
HOSPITALS = ("Ashford", "Dunmore", "Cedarville")
"""Owners of the demo; the second has wrong labels."""
STARTED = re.compile(r"SuperNode started, process (\d+)")


OwnFiles = Annotated[
    list[Path], Argument(exists=True, metavar="FILES", help="Your own rows; they stay here.")
]
Superlink = Annotated[str, Option(help="Where the coordinator listens.", metavar="HOST:PORT")]
OwnName = Annotated[str | None, Option(help="What the others call you [default: the file's name].")]
PolicyFile = Annotated[
    Path | None,
    Option(help="What you answer, a TOML file (docs/federated.md).", metavar="FILE"),
]
LogFile = Annotated[
    Path | None,
    Option(help="Where all that leaves is noted [default: NAME-log.jsonl].", metavar="FILE"),
]
PrivateKey = Annotated[
    Path | None, Option(help="Your key, by which you are known.", metavar="FILE", exists=True)
]


def owner(
    files: OwnFiles,
    target: o.Target,
    superlink: Superlink = LISTEN,
    name: OwnName = None,
    policy: PolicyFile = None,
    log: LogFile = None,
    read: o.Read = None,
    accept: o.Accept = None,
    insecure: Insecure = False,
    root_certificate: RootCertificate = None,
    private_key: PrivateKey = None,
) -> None:
    """Answer a coordinator's questions about your rows, which never leave; until you stop it."""
    from dushapley.federated import Log, Policy
    from dushapley.federated.files import owner_of_files
    from dushapley.federated.flower.nodes import Access, Node

    access = Access(superlink, insecure, root_certificate, private_key)
    access.refuse_open()
    rules = Policy() if policy is None else Policy.read(policy)
    made = owner_of_files(
        files, target=target, name=name, policy=rules, reading=Reading.from_pairs(read or ()),
        accept=accept or (), tell=lambda sentence: say(f"note: {sentence}"),
    )  # fmt: skip
    made.log = Log(log or Path(f"{made.name}-log.jsonl"))
    held = f", {len(made.held_back):,} held back" if len(made.held_back) else ""
    say(f"{made.name}: {len(made.table):,} rows{held}; answers {rules.words}")
    say(f"everything that leaves is noted in {made.log.path}")
    signal.signal(signal.SIGTERM, _leave)
    with Node(made, access, tell=say) as node:
        say(f"joining {superlink}; Ctrl-C to leave")
        with suppress(KeyboardInterrupt):
            node.wait()
    say(f"{made.name} has left; all that it answered is in {made.log.path}")


def _leave(number: int, *_: object) -> None:
    """End as if asked politely: keys and sockets are removed, Flower's programs ended."""
    raise SystemExit(128 + number)


@dataclass(frozen=True)
class Training:
    """What is trained and how it is judged. Attributes are options by the same names."""

    level: Annotated[
        str, Option(help="What leaves an owner: sums, gradients or models.", metavar="LEVEL")
    ] = "models"
    test: o.Test = None
    target: Annotated[
        str | None, Option(help="Column to predict, in the test file.", metavar="COL")
    ] = None
    model: Annotated[
        str | None, Option(help="With sums: ridge, lda or naive-bayes.", metavar="NAME")
    ] = None
    scoring: Annotated[
        str | None, Option(help="A score of scikit-learn [default: accuracy, or r2].")
    ] = None
    columns: Annotated[
        list[str] | None,
        Option(help="Use this column; may be repeated [default: all].", metavar="COL"),
    ] = None
    steps: Annotated[
        int, Option(help="Gradient steps; with models, rounds of averaging.", min=1)
    ] = 20
    local_steps: Annotated[
        int, Option(help="With models: steps an owner takes in a round.", min=1)
    ] = 5
    local_batch: Annotated[
        int | None, Option(help="With models: rows of a mini-batch [default: all].", min=1)
    ] = None
    learning_rate: Annotated[float, Option(help="Length of a step.")] = 0.5
    l2: Annotated[float, Option(help="Weight of the squared weights.")] = 0.0
    empty: o.Empty = "constant"
    at_least: o.AtLeast = None
    on_refusal: Annotated[
        str, Option(help="If an owner refuses: raise, or empty = count the pool as no data.")
    ] = "raise"

    block: Annotated[
        int, Option(help="Pools trained together; each block done is kept in the ledger.", min=1)
    ] = 256

    def __post_init__(self) -> None:
        if (self.test is None) != (self.target is None):
            raise InvalidOption("--test and --target belong together: a file, and its column.")

    def game(self, federation: Any, read: list[str] | None, seed: int) -> ds.FederatedGame:
        """Agree with the owners; nothing trains."""
        from dushapley.federated.files import file_of_nobody

        given = asdict(self) | {"seed": seed, "empty": o.as_number(self.empty, float)}
        target = given.pop("target")
        if self.test is not None:
            given["test"] = file_of_nobody(
                self.test, target=target, reading=Reading.from_pairs(read or ())
            )
        return ds.FederatedGame(federation, **given)


@dataclass(frozen=True)
class Meeting:
    """Where owners are met, and how long they are waited for. Attributes are options."""

    owners: Annotated[int, Option(help="How many owners to wait for.", min=2)]
    listen: Annotated[str, Option(help="Where to listen for them.", metavar="HOST:PORT")] = LISTEN
    patience: Annotated[float, Option(help="Seconds in which an answer must come.")] = 120.0
    attempts: Annotated[int, Option(help="How often a question is asked.", min=1)] = 3
    join_within: Annotated[float, Option(help="Seconds in which all owners must be there.")] = 600.0
    insecure: Insecure = False
    certificate: Annotated[
        Path | None, Option(help="The SuperLink's certificate.", metavar="FILE", exists=True)
    ] = None
    key: Annotated[
        Path | None, Option(help="The key of that certificate.", metavar="FILE", exists=True)
    ] = None
    root_certificate: RootCertificate = None
    owners_keys: Annotated[
        Path | None,
        Option(help="Public keys of the owners, one a line.", metavar="FILE", exists=True),
    ] = None


LedgerFile = Annotated[
    Path, Option(help="File that keeps paid work; run the same again to go on.", metavar="FILE")
]


def coordinator(
    context: Context,
    meeting: Meeting,
    training: Training,
    asked: o.Asked,
    pot: Pot,
    settlement: o.Settled = SETTLEMENT,
    report: o.Report = None,
    ledger: LedgerFile = Path("federation.sqlite"),
    read: o.Read = None,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """Value owners who keep their rows: ask them in rounds, then settle and report."""
    from dushapley.federated import Federation
    from dushapley.federated.flower.link import Flower, Link
    from dushapley.federated.traffic import size

    link = Link(
        meeting.listen, meeting.insecure, meeting.certificate, meeting.key,
        meeting.root_certificate, meeting.owners_keys,
    )  # fmt: skip
    link.refuse_open()
    job = digest("federation", meeting.owners, training.level, str(training.test))
    outputs = planned(job, settlement=settlement if pot.pot else None, report=report)
    refuse_outputs(outputs, [training.test], force=force)
    signal.signal(signal.SIGTERM, _leave)
    with Flower(link) as flower:
        say(f"listening on {flower.address} for {meeting.owners} owners")
        federation = Federation(
            flower, n_owners=meeting.owners, patience=meeting.patience,
            attempts=meeting.attempts, join_within=meeting.join_within, tell=say,
        )  # fmt: skip
        say(f"joined: {', '.join(federation.names)}")
        game = training.game(federation, read, asked.seed)
        rows, width = int(game.sizes.sum()), game.agreement.width
        say(
            f"agreed: {rows:,} rows of {game.n_players} owners, {width} columns of numbers; "
            f"level {game.level}"
        )
        for note in game.said:
            say(f"note: {note}")
        plan = choose_plan(game, asked.method, asked.options, asked.budget)
        price = game.costs(plan.budget)
        whole, each = size(price["bytes"]), size(price["bytes_per_owner"])
        say(
            f"up to {plan.budget:,} evaluations: about {price['rounds']:,} rounds, "
            f"{price['messages']:,} messages and {whole}, {each} an owner"
        )
        result = ds.value(
            game, asked.method, options=asked.options, budget=asked.budget, seed=asked.seed,
            ledger=None if game.cheap else ledger,
        )  # fmt: skip
    command = shlex.join(["dushapley", *(context.obj or ())])
    hand_over(result, game, pot, settlement, report, command, json=json)


def hand_over(
    result: ds.Valuation,
    game: ds.FederatedGame,
    pot: Pot,
    settlement: Path,
    report: Path | None,
    command: str,
    *,
    json: bool,
) -> None:
    """Data on stdout, files where they were asked for."""
    tested = ", ".join(f"{name}: {rows:,} rows" for name, rows in game.tested.items())
    about = {"model": game.trained, "score": str(game.scoring), "tested": f"on {tested}"}
    record = {"command": command, "about": about, "inputs": []}
    record |= {"federation": result.details["federation"]}
    settled = None if pot.pot is None else pot.shared(result, record)
    output(result.to_json() if json else text_table(result, summarize(result, settled), settled))
    for note in result.notes if json else ():  # a table has them
        if note.startswith("The federation took"):
            say(note)
    if settled is not None:
        write(settlement, settled.to_json())
    if report is not None:
        write(report, page(result, settled, about=about | {"command": command}))


Out = Annotated[Path, Option(help="Folder for files, logs, settlement and report.", metavar="DIR")]
Kill = Annotated[bool, Option(help="Kill one owner's SuperNode in the middle; it comes back.")]


def demo(
    out: Out = Path("dushapley-federation"),
    kill: Kill = True,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """Three hospitals on this machine, each a process of its own with a real SuperNode."""
    from dushapley.federated.flower.programs import folder_of_programs, free_port

    refuse_no_folder("--out", out)
    if out.exists() and any(out.iterdir()) and not force:
        raise InvalidOption(f"{out} is not empty. Name another folder, or add --force.")
    folder_of_programs()
    address = f"127.0.0.1:{free_port()}"
    files, test = demo_files(out)
    say("Three hospitals with breast-cancer rows that stay where they are; no row moves.")
    with ExitStack() as stack:
        for path in files:
            _start(path, address, out, stack)
        if kill:
            Thread(target=_kill, args=(out, files[1].stem), daemon=True).start()
        command = [
            "federate", "coordinator", "--owners", "3", "--listen", address, "--insecure",
            "--level", "models", "--steps", "3", "--local-steps", "5",
            "--test", str(test), "--target", "diagnosis", "--patience", "60",
            "--pot", "100000", "--currency", "EUR", "--settlement", str(out / "settlement.json"),
            "--report", str(out / "report.html"), "--ledger", str(out / "ledger.sqlite"), "--force",
            *(["--json"] if json else []),
        ]  # fmt: skip
        say(f"and the coordinator:\n  {shlex.join(['dushapley', *command])}")
        ended = subprocess.run([sys.executable, "-m", "dushapley", *command], check=False)  # noqa: S603
    if ended.returncode:
        raise FederationFailed(f"The coordinator ended with code {ended.returncode}.")
    say(f"What left each hospital is in {out}/*-log.jsonl.")


def demo_files(folder: Path) -> tuple[list[Path], Path]:
    """One CSV per hospital and the test file; one of the hospitals has wrong labels."""
    from dushapley.cli.demo import demo_tables

    tables, test = demo_tables(0)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: tables[name].to_csv(index=False) for name in HOSPITALS}
    paths = [write_whole(folder / f"{name}.csv", text) for name, text in texts.items()]
    return paths, write_whole(folder / "test.csv", test.to_csv(index=False))


def _start(path: Path, address: str, out: Path, stack: ExitStack) -> None:
    """An owner as a process of its own, which ends with the demo."""
    command = [
        "federate", "owner", str(path), "--target", "diagnosis", "--superlink", address,
        "--insecure", "--log", str(out / f"{path.stem}-log.jsonl"),
    ]  # fmt: skip
    say(f"  {shlex.join(['dushapley', *command])}")
    log = stack.enter_context((out / f"{path.stem}.txt").open("wb"))
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "dushapley", *command], stdout=log, stderr=log
    )
    stack.callback(_ended, process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()


def _kill(out: Path, name: str) -> None:
    """Kill the SuperNode of an owner once it has answered the first round of training."""
    log, said = out / f"{name}-log.jsonl", out / f"{name}.txt"
    until = monotonic() + 300
    while monotonic() < until:
        if log.exists() and '"answer": "steps"' in log.read_text(encoding="utf-8"):
            number = STARTED.findall(said.read_text(encoding="utf-8"))[-1]
            os.killpg(int(number), signal.SIGKILL)
            say(f"(the SuperNode of {name}, process {number}, is killed now, and comes back)")
            return
        sleep(0.1)


COMMANDS: dict[str, Callable[..., Any]] = {"owner": owner, "coordinator": coordinator, "demo": demo}
"""All commands of `federate` by name."""
