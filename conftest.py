"""Doctests of what needs an extra are left out where the extra is not installed."""

from importlib.util import find_spec

BATCHED = "src/dushapley/games/model/batched"
collect_ignore = [f"{BATCHED}/kernels.py"] * (find_spec("triton") is None) + [
    f"{BATCHED}/{name}.py" for name in ("network", "stacked") if find_spec("torch") is None
]
