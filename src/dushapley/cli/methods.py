"""`methods`: which there are."""

from __future__ import annotations

import json as jsons

import dushapley as ds
from dushapley.cli import options as o
from dushapley.terminal import columns, output, table


def methods(json: o.Json = False) -> None:
    """All methods, one line each."""
    known = ds.methods()
    listed = table((), known.items(), left=(0, 1), indent=0, width=columns())
    output(jsons.dumps(known, indent=1, ensure_ascii=False) if json else listed)
