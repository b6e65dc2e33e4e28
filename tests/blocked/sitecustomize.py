"""Hide the packages named in DUSHAPLEY_BLOCK, in this process and in those that it starts.

The name "prctl" hides what a system other than Linux lacks.

DUSHAPLEY_BLOCK=torch,ray PYTHONPATH=$PWD/tests/blocked make test
"""

import os
import sys
from importlib.abc import MetaPathFinder


class Blocked(MetaPathFinder):
    """Finds none of them, and says so even to `importlib.util.find_spec`."""

    names = frozenset(filter(None, os.environ.get("DUSHAPLEY_BLOCK", "").split(",")))

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise for what is blocked."""
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())

if "prctl" in Blocked.names:
    import ctypes

    class Foreign(ctypes.CDLL):
        """Libraries of a system that lacks `prctl`."""

        def __getattr__(self, name: str) -> object:
            if name == "prctl":
                raise AttributeError("there is no prctl here")
            return super().__getattr__(name)

    ctypes.CDLL = Foreign  # type: ignore[misc]
