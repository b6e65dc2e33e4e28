"""`check`: all that is odd in the files, before anything is trained or paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from dushapley.cli import options as o
from dushapley.cli.data import Data
from dushapley.cli.jobfile import job_text
from dushapley.cli.outputs import Force, Output, refuse_outputs, stamped
from dushapley.data.outputs import write_whole
from dushapley.errors import InvalidOption
from dushapley.report.findings import findings_page
from dushapley.terminal import json_text, output, say


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
        write_whole(report, stamped(findings_page(findings), data.identity))
        say(f"written: {report}")
    if write_job is not None:
        text = f"# dushapley-job:{data.identity}\n" + job_text(data, write_job.parent)
        write_whole(write_job, text)
        say(f"written: {write_job}")
    raise Exit(2 if findings.stops else 0)
