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

from typer import Context, Exit, Option

from dushapley.arrays import AnyDict, AnyMapping
from dushapley.cli import options as o
from dushapley.cli.job import Data
from dushapley.cli.outputs import Force, planned, refuse_outputs, stamp, stamped, write
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


def load(context: Context, path: Path | None) -> Path | None:
    """Take the options of a job file as defaults of the command."""
    if path is not None:
        keys = {name.replace("-", "_"): value for name, value in parsed(path).items()}
        able = {str(option.name) for option in context.command.params} - {"job", "help", "debug"}
        for key in keys:
            if key not in able:
                names = sorted(option.replace("_", "-") for option in able)
                name = key.replace("_", "-")
                raise InvalidOption(
                    f"{path} has the key {name!r}, which is not an option of "
                    f"`{context.info_name}`.{suggestion(name, names)} Options: {', '.join(names)}."
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


def parsed(path: Path) -> AnyDict:
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


def decide(context: Context, given: AnyDict) -> None:
    """Where options came from a job file, what was typed wins, or is added to `read`."""
    found = {name: context.get_parameter_source(name) for name in given}
    sources = {name: source.name for name, source in found.items() if source is not None}
    typed = {name for name, source in sources.items() if source == "COMMANDLINE"}
    for names in CHOICES:
        if typed & set(names):
            for name in set(names) - typed:
                if sources.get(name) == "DEFAULT_MAP":
                    given[name] = False if isinstance(given[name], bool) else None
    if "read" in typed and READ in context.meta:
        given["read"] = [*context.meta[READ], *given["read"]]


def job_text(data: Data, folder: Path) -> str:
    """The job file of these files: what was asked for, detected and accepted, as TOML."""
    import tomli_w

    def near(path: Path) -> str:
        return Path(os.path.relpath(path, folder)).as_posix()

    read = data.reading.record()
    for key in ("max_rows", "max_bytes"):
        read.pop(key, None)
    typed = read.get("files", {})
    files = {k: _detected(v) | typed.get(k, {}) for k, v in data.intake.detected.items()}
    read["files"] = {name: keys for name, keys in files.items() if keys}
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


def _detected(found: AnyMapping) -> AnyDict:
    """Keys of reading that were detected for one file."""
    keys = {key: found[key] for key in DETECTED if key in found}
    formats = set(found.get("dates", {}).values())
    return keys | ({"dates": formats.pop()} if len(formats) == 1 else {})


Map = Annotated[
    Path | None, Option(help="Write a map of owners and columns as a page.", metavar="FILE")
]
WriteJob = Annotated[
    Path | None,
    Option(
        help="Write what was detected and decided as a job file, for `value --job`.",
        metavar="FILE",
    ),
]


def check(
    data: Data,
    report: Map = None,
    write_job: WriteJob = None,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """All that is odd in the files, at once; exit code 2 if anything stops a run."""
    if data.from_statistics:
        raise InvalidOption(
            "These files hold owners' statistics; `check` looks at rows. Let every owner check its "
            "own table."
        )
    job = data.identity
    refuse_outputs(planned(job, report=report, write_job=write_job), data.paths, force=force)
    findings = data.findings
    output(json_text(findings.record()) if json else findings)
    if report is not None:
        write(report, stamped(findings_page(findings), job))
    if write_job is not None:
        write(write_job, f"# {stamp(job)}\n{job_text(data, write_job.parent)}")
    raise Exit(2 if findings.stops else 0)
