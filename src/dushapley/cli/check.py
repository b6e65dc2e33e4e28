"""`check`: all that is odd in the files before anything is trained, and the job file it writes.

A job file is what a collaboration agrees on once, reviews in git, and runs with `--job`. It is
TOML, whose keys are the options of the command line by their names (`by-file = true`). The table
`[read]` holds the keys of `--read`, with those of single files in `[read.files."NAME"]`. The
command line wins over the file; paths are relative to the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Exit, Option

from dushapley.cli import options as o
from dushapley.cli.job import Data
from dushapley.cli.outputs import Force, Output, refuse_outputs, stamped, write
from dushapley.data.reading import Reading
from dushapley.errors import InvalidOption
from dushapley.report.findings import findings_page
from dushapley.terminal import json_text, output
from dushapley.validation import suggestion

PATHS = ("files", "test", "ledger", "settlement", "report", "join", "reference", "picture")
CHOICES = (("test", "holdout", "cv"), ("owner", "by_file"), ("ledger", "no_ledger"))
"""Options of which only one is taken: one that is typed replaces another of the file."""
READ = "read of the job file"
DETECTED = ("sep", "encoding", "sheet", "header", "decimal", "thousands")


def load(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a job file as defaults of the command."""
    if path is not None:
        keys = {name.replace("-", "_"): value for name, value in parsed(path).items()}
        able = {str(option.name) for option in context.command.params} - {"job", "help", "debug"}
        for name in keys:
            if name not in able:
                names = sorted(option.replace("_", "-") for option in able)
                hint = suggestion(name.replace("_", "-"), names)
                raise InvalidOption(
                    f"{path} has the key {name.replace('_', '-')!r}, which is not an option of "
                    f"`{context.info_name}`.{hint} Options: {', '.join(names)}."
                )
        if not isinstance(keys.get("read", {}), Mapping):
            raise InvalidOption(
                f"{path} has read = {keys['read']!r}; it must be a table: [read], and below it "
                'lines like sep = ";".'
            )
        if "read" in keys:
            keys["read"] = context.meta[READ] = Reading.from_keys(keys["read"]).pairs()
        context.default_map = {name: located(name, value, path) for name, value in keys.items()}
    return path


Job = Annotated[
    Path | None,
    Option(
        help="Options from this file, which `check --write-job` writes; what is typed wins.",
        metavar="FILE",
        is_eager=True,
        callback=load,
        exists=True,
        dir_okay=False,
    ),
]


def parsed(path: Path) -> dict[str, Any]:
    """The content of a job file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidOption(f"{path} is not a job file: {error}. It must be TOML.") from error


def located(name: str, value: Any, path: Path) -> Any:
    """A value of the file, paths relative to it."""
    if isinstance(value, list) and name in PATHS:
        return [located(name, one, path) for one in value]
    return str(path.parent / str(value)) if name in PATHS else value


def decide(context: typer.Context, given: dict[str, Any]) -> None:
    """Where options came from a job file, what was typed wins, or is added to `read`."""
    typed = {name for name in given if source_of(context, name) == "COMMANDLINE"}
    for names in CHOICES:
        if typed & set(names):
            for name in set(names) - typed:
                if source_of(context, name) == "DEFAULT_MAP":
                    given[name] = False if isinstance(given[name], bool) else None
    if "read" in typed and READ in context.meta:
        given["read"] = [*context.meta[READ], *given["read"]]


def source_of(context: typer.Context, name: str) -> str:
    """Where an option's value came from, by click's name of it."""
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def job_text(data: Data, folder: Path) -> str:
    """The job file of these files: what was asked for, detected and accepted, as TOML."""
    import tomli_w

    def near(path: Path) -> str:
        return Path(os.path.relpath(path, folder)).as_posix()

    asked = data.reading.record()
    for key in ("max_rows", "max_bytes"):
        asked.pop(key, None)
    files = {
        name: _detected(found) | asked.get("files", {}).get(name, {})
        for name, found in data.intake.detected.items()
    }
    read = asked | {"files": {name: keys for name, keys in files.items() if keys}}
    job = {
        "files": [near(path) for path in data.files],
        "target": data.target,
        "owner": data.owner,
        "by-file": data.by_file or None,
        "test": data.test and near(data.test),
        "expect": list(data.intake.tables),
        "accept": data.accept,
        "read": {key.replace("_", "-"): value for key, value in read.items() if value},
    }
    return tomli_w.dumps({key: value for key, value in job.items() if value})


def _detected(found: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of reading that were detected for one file."""
    keys = {key: found[key] for key in DETECTED if key in found}
    formats = set(found.get("dates", {}).values())
    return keys | ({"dates": formats.pop()} if len(formats) == 1 else {})


def check(
    data: Data,
    report: Annotated[
        Path | None, Option(help="Write a map of owners and columns as a page.", metavar="FILE")
    ] = None,
    write_job: Annotated[
        Path | None,
        Option(
            help="Write what was detected and decided as a job file, for `value --job`.",
            metavar="FILE",
        ),
    ] = None,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """All that is odd in the files, at once; exit code 2 if anything stops a run."""
    if data.from_statistics:
        raise InvalidOption(
            "These files hold owners' statistics; `check` looks at rows. Let every owner check its "
            "own table."
        )
    wanted = {"--report": report, "--write-job": write_job}
    outputs = [Output(name, path, data.identity) for name, path in wanted.items() if path]
    refuse_outputs(outputs, data.paths, force=force)
    findings = data.findings
    output(json_text(findings.record()) if json else findings)
    if report is not None:
        write(report, stamped(findings_page(findings), data.identity))
    if write_job is not None:
        text = f"# dushapley-job:{data.identity}\n" + job_text(data, write_job.parent)
        write(write_job, text)
    raise Exit(2 if findings.stops else 0)
