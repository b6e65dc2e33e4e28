"""What installed modules import, read in their files; nothing is loaded to find out.

A package need not say all that it computes with: an import may stand in a function or in a module
beside the model's, and be no stated requirement. So the files of such modules are read, and those
of what they import, until a package is reached that is known to state its requirements in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from dushapley.games.model.description import ELSEWHERE
from dushapley.hashing import digest

STATED = {
    "catboost", "cloudpickle", "dask", "distributed", "jax", "jaxlib", "joblib", "keras",
    "lightgbm", "narwhals", "numba", "numpy", "packaging", "pandas", "polars", "psutil", "pyarrow",
    "ray", "requests", "scipy", "six", "sklearn", "skrub", "sympy", "tensorflow", "threadpoolctl",
    "torch", "triton", "urllib3", "xgboost", "yaml",
}  # fmt: skip
"""Packages that state what they compute with, or compute nothing: their files are not read."""
SHOWN = {
    "bokeh", "colorama", "filelock", "fsspec", "graphviz", "ipython", "ipywidgets", "jinja2",
    "markupsafe", "matplotlib", "pkg-resources", "plotly", "pytest", "rich", "seaborn",
    "setuptools", "tqdm", "typing-extensions",
}  # fmt: skip
"""Packages that draw, report, fetch, install or test: they count where a model names them."""
STATEMENT = re.compile(
    rb"(?:^|[:;])[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]*"
    rb"(?P<names>\([^)]*\)|(?:[^#\n;(\\]|\\\r?\n)*)"
    rb"|import[ \t]+(?P<modules>(?:[^#\n;(\\]|\\\r?\n)*))"
    rb"|(?:import_module|__import__)\(\s*['\"](?P<named>[\w.]+)['\"]",
    re.MULTILINE,
)
CODE = {".py", ".so", ".pyd", ".dll", ".dylib"}
LARGE = 2**26
"""Bytes of a file beyond which it is known by its size and time instead of its content."""


def reached(names: Iterable[str]) -> set[str]:
    """Modules, with all that they and the modules of theirs import, at any place and time.

    Examples
    --------
    >>> sorted(reached(["sklearn.linear_model", "json"]))
    ['json', 'sklearn.linear_model']
    """
    found = set(names)
    waiting, specs = list(found), dict[str, ModuleSpec | None]()
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if top in STATED | ELSEWHERE:
            continue
        spec = specs[top] if top in specs else specs.setdefault(top, spec_of(top))
        new = [] if spec is None else [n for n in _imports_of(name, spec) if n not in found]
        new = [other for other in new if not is_shown(other.partition(".")[0])]
        found.update(new)
        waiting += new
    return found


def is_shown(package: str) -> bool:
    """Whether a package, by the name it is imported or installed under, computes nothing."""
    return package.lower().replace("_", "-") in SHOWN


def spec_of(top: str) -> ModuleSpec | None:
    """Where a package is, or would be loaded from."""
    with suppress(ImportError, ValueError, AttributeError):
        return find_spec(top) if top else None
    return None


def _imports_of(name: str, spec: ModuleSpec) -> tuple[str, ...]:
    file = _file(name, spec)
    if file is None:
        return ()
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    with suppress(OSError):
        known = file.stat()
        return _read(file, package, known.st_mtime_ns, known.st_size)
    return ()


def _file(name: str, spec: ModuleSpec) -> Path | None:
    """The file of a module, without loading the packages above it, as `find_spec` would."""
    inside = name.split(".")[1:]
    if not inside:
        return Path(spec.origin) if str(spec.origin).endswith(".py") and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *inside)
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                return file
    return None


@lru_cache(maxsize=10_000)
def _read(file: Path, package: str, time: int, size: int) -> tuple[str, ...]:
    del time, size  # read again where they change
    return tuple(dict.fromkeys(_named(file.read_bytes(), package)))


def _named(content: bytes, package: str) -> Iterator[str]:
    """Names in the import statements of a source; also of names that turn out to be no modules."""
    for match in STATEMENT.finditer(content):
        groups = {k: v.decode(errors="replace") for k, v in match.groupdict().items() if v}
        if "modules" in groups:
            yield from _words(groups["modules"])
            continue
        base = _absolute(groups.get("base") or groups.get("named", ""), package)
        yield base
        yield from (f"{base}.{word}" for word in _words(groups.get("names", "")))


def _words(listed: str) -> Iterator[str]:
    """The names in "a.b as c, d" or "(a, b,)"; comments between lines are left out."""
    bare = re.sub(r"#[^\n]*|[()\\]", " ", listed)
    parts = (part.split() for part in bare.split(","))
    yield from (words[0] for words in parts if words and re.fullmatch(r"[\w.]+", words[0]))


def _absolute(name: str, package: str) -> str:
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    above = package.split(".")[: max(len(package.split(".")) - level + 1, 0)]
    return ".".join([*above, *filter(None, [name.lstrip(".")])])


def content_of(spec: ModuleSpec) -> str:
    """Digest of the files of a package that has no version to be known by."""
    roots = [Path(folder) for folder in spec.submodule_search_locations or ()]
    roots = roots or [Path(str(spec.origin))]
    return digest(*(part for root in roots for part in _parts(root)))[:32]


def _parts(root: Path) -> Iterator[str | bytes | int]:
    while not root.exists() and root != root.parent:  # in an archive
        root = root.parent
    installed = {"site-packages", "dist-packages"} & set(root.parts)
    for file in [root] if root.is_file() else sorted(root.rglob("*")):
        if "__pycache__" in file.parts or not (installed or file.suffix in CODE):
            continue  # beside somebody's own code, results may lie that change as it runs
        with suppress(OSError):
            known = file.stat()
            if file.is_file():
                yield str(file.relative_to(root))
                yield file.read_bytes() if known.st_size < LARGE else known.st_mtime_ns
