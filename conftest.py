"""Doctests of what needs an extra are left out where the extra is not installed."""

from importlib.util import find_spec

BATCHED = "src/dushapley/games/model/batched"
collect_ignore = [f"{BATCHED}/kernels.py"] * (find_spec("triton") is None) + [
    name
    for name in (f"{BATCHED}/network.py", f"{BATCHED}/stacked.py", "docs/networks.md")
    if find_spec("torch") is None
]
