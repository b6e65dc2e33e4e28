"""Thousands and millions of owners by `centres`, through the front door.

python benchmarks/many_owners.py write 1000000 rows.parquet   example data: ridge, 8 columns
python benchmarks/many_owners.py ridge 10000 [--shifted]      error against long runs, and time
python benchmarks/many_owners.py stream rows.parquet          a file's values: time, memory, error
python benchmarks/many_owners.py coverage size                intervals, 1,000 owners, 100 seeds
python benchmarks/many_owners.py knn 10000                    against exact values
python benchmarks/many_owners.py logistic                     adult, Newton steps and refits
python benchmarks/many_owners.py two-logistic                 the same from two short runs
python benchmarks/many_owners.py dask rows.parquet            two workers against one

Results go to benchmarks/results/many_owners.json, one entry a command.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from os import getloadavg
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.linear_model import Ridge

import dushapley as ds
from dushapley.estimators.centres import POWER, ROUND, Sizes, drawn_pools

RESULTS = Path(__file__).parent / "results" / "many_owners.json"
COLUMNS, ROWS, FLIPPED, TEST_ROWS = 8, 16, 7, 2000
COMMANDS = (
    "write",
    "ridge",
    "stream",
    "coverage",
    "knn",
    "logistic",
    "two-logistic",
    "dask",
)
GROUP = 8192
"""Owners of a row group."""
CLAIM = 0.03
"""Relative MSE that is claimed of ridge, and more than met by logistic regression's .05."""


def coefficients(seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 0]).normal(size=COLUMNS)


def draw(first: int, count: int, *, shifted: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of some owners, shapes (count, 16, 8) and (count, 16); one in seven has flipped targets.

    Shifted: every owner has a mean of its own.
    """
    rng = np.random.default_rng([seed, 1, first])
    X = rng.normal(size=(count, ROWS, COLUMNS))
    if shifted:
        X += 0.5 * rng.normal(size=(count, 1, COLUMNS))
    y = X @ coefficients(seed) + np.sqrt(COLUMNS) * rng.normal(size=(count, ROWS))
    y[np.arange(first, first + count) % FLIPPED == 0] *= -1
    return X, y


def held_back(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 2])
    X = rng.normal(size=(TEST_ROWS, COLUMNS))
    return X, X @ coefficients(seed) + np.sqrt(COLUMNS) * rng.normal(size=TEST_ROWS)


def write(n_owners: int, path: Path, *, shifted: bool) -> None:
    """A Parquet file whose rows stand owner by owner."""
    import pyarrow as pa
    from pyarrow import parquet

    names = ["owner", *(f"x{k}" for k in range(COLUMNS)), "y"]
    writer = None
    for first in range(0, n_owners, GROUP):
        count = min(GROUP, n_owners - first)
        X, y = draw(first, count, shifted=shifted)
        owner = np.repeat(np.arange(first, first + count), ROWS)
        columns = [owner, *X.reshape(-1, COLUMNS).T, y.ravel()]
        table = pa.table(dict(zip(names, map(pa.array, columns), strict=True)))
        writer = writer or parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table, row_group_size=count * ROWS)
    assert writer is not None
    writer.close()


def streamed(path: Path) -> ds.StreamedGame:
    return ds.StreamedGame(
        path, Ridge(), *held_back(), owner="owner", target="y", scoring="r2", at_least="empty"
    )


def valued(game, centres: int, **options) -> ds.Valuation:
    return ds.value(game, "centres", budget=centres * (game.n_players + 1) + 2, **options)


def store(name: str, entry: dict[str, object]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[name] = entry
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    print(name, json.dumps(entry))


def memory(whose: int = resource.RUSAGE_SELF) -> float:
    """Most gigabytes that this process has held, or the largest of those it started."""
    return resource.getrusage(whose).ru_maxrss / 2**20


def cpu() -> float:
    """CPU seconds of this process and of those it started and saw end."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(u.ru_utime + u.ru_stime for u in used)


def beside_longer_runs(
    make: Callable[[], Any], centres: int, reference: int, seeds: int = 1
) -> tuple[ds.Valuation, dict[str, float]]:
    """Runs of some seeds, the mean of four longer ones, and what one took, its game included."""
    began, used = perf_counter(), process_time()
    game = make()
    found = [valued(game, centres, seed=1)]
    seconds, cpu = perf_counter() - began, process_time() - used
    found += [valued(game, centres, seed=1 + k) for k in range(1, seeds)]
    long = np.stack([valued(game, reference // 4, seed=100 + k).values for k in range(4)])
    each = [apart(one, one.values, long) for one in found]
    told = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    took = {"seconds": seconds, "cpu_seconds": cpu}
    return found[0], {"centres": centres, "seeds": seeds, **told, **took}


def apart(found: ds.Valuation, values: np.ndarray, long: np.ndarray) -> dict[str, float]:
    """How far values are from the mean of longer runs, whose own error their spread tells."""
    reference = long.mean(axis=0)
    spread = reference.var()
    error = float(np.mean((values - reference) ** 2) / spread)
    own = float(np.mean(long.var(axis=0, ddof=1)) / len(long) / spread)
    of_values = np.asarray(found.std_errors)[: len(values)]
    return {
        "relative_mse": error,
        "reference_relative_mse": own,
        "reference_se_as_part_of_error": float(np.sqrt(own / error)),
        "reference_se_as_part_of_claim": float(np.sqrt(own / CLAIM)),
        "claimed_by_standard_errors": float(np.mean(of_values**2) / spread),
        "covered": float(np.mean(np.abs(values - reference) <= 1.96 * of_values)),
    }


def ridge(n_owners: int, centres: int, reference: int, folder: Path, *, shifted: bool) -> None:
    """Error against longer runs, whose own error is told."""
    file = folder / f"rows-{n_owners}-{shifted}.parquet"
    if not file.exists():
        write(n_owners, file, shifted=shifted)
    _, told = beside_longer_runs(partial(streamed, file), centres, reference, seeds=8)
    entry = {**told, "reference_centres": reference, "memory_gb": memory()}
    store(f"ridge {n_owners} {'shifted' if shifted else 'i.i.d.'}", entry)


def of_first_block(game: ds.StreamedGame, centres: int, runs: int) -> np.ndarray:
    """Values of the first block of owners by several runs of `centres`, each with mean zero.

    Pools are of everybody, marginals of the block only, which is cheap. Values add up, so errors
    have mean zero over all owners; hence those of a block are compared up to a common number.
    """
    whole, n = game.marginals(), game.n_players
    blocks = [slice(a, min(a + whole.block, n)) for a in range(0, n, whole.block)]
    first = blocks[0]

    def states(pools: np.ndarray) -> np.ndarray:
        return np.sum([whole.states(pools[:, owners], owners) for owners in blocks], axis=0)

    ends = np.repeat([[False], [True]], n, axis=1)
    known = whole.gains(ends[:, first], states(ends), first).sum(axis=0) / (n + 1)
    nobody = states(ends[:1])
    alone = [whole.gains(ends[:1, owners], nobody, owners)[0] for owners in blocks]
    order, rng = np.argsort(np.concatenate(alone), kind="stable"), np.random.default_rng(100)
    rounds = max(1, (centres - 2) // ROUND)
    strata, found = Sizes(n, (centres - 2) // (2 * rounds), POWER), []
    for _ in range(runs):
        drawn = known.copy()
        for _ in range(rounds):
            sizes, weights = strata.draw(rng)
            pools = drawn_pools(rng, sizes, order)
            gains = whole.gains(pools[:, first], states(pools), first)
            drawn += weights @ gains / len(weights) / rounds
        found.append(drawn - drawn.mean())
    return np.stack(found)


def stream(path: Path, centres: int, reference: int, jobs: int) -> None:
    """Time and memory of a file's values, and what an update costs.

    The first block of owners is compared with four longer runs, drawn by another seed.
    """
    began, used = perf_counter(), cpu()
    game = streamed(path)
    read = cpu() - used
    found = valued(game, centres, progress=True, n_jobs=jobs)
    wall = perf_counter() - began
    if jobs > 1:
        get_reusable_executor().shutdown(wait=True)  # what workers used is told when they end
    taken = cpu() - used
    honest = np.arange(game.n_players) % FLIPPED != 0
    entry: dict[str, object] = {
        "centres": centres,
        "processes": jobs,
        "wall_seconds": wall,
        "cpu_seconds": taken,
        "cpu_seconds_before_the_first_centre": read,
        "cpu_microseconds_an_owner_and_centre": 1e6 * (taken - read) / centres / game.n_players,
        "memory_gb": memory(),
        "memory_gb_of_the_largest_worker": memory(resource.RUSAGE_CHILDREN),
        "flipped_below_median": float(np.mean(found.values[~honest] < np.median(found.values))),
    }
    store(f"stream {game.n_players} {centres} centres", entry)
    if reference:
        long = of_first_block(game, reference // 4, 4)
        block = found.values[: long.shape[1]]
        told = apart(found, block, long + block.mean())
        store(
            f"stream {game.n_players} {centres} centres",
            {**entry, **told, "reference_centres": reference},
        )


def covered_games() -> dict[str, Callable[[], Any]]:
    """Games of 1,000 owners whose exact values are known, by name."""
    rng = np.random.default_rng(5)
    sizes, apart = rng.integers(5, 100, 1000), np.ceil(rng.lognormal(3, 1.5, 1000))
    return {
        "size": lambda: ds.SizeGame(sizes, ds.games.rational(1000.0)),
        "size-far-apart": lambda: ds.SizeGame(apart, ds.games.rational(300.0)),
        "linear-regression": lambda: tabled(ds.LinearRegressionGame(sizes, gamma=1.0, d=10)),
        "knn": lambda: knn_game(1000),
        "size-rising-late": lambda: ds.SizeGame(sizes, partial(rising_late, int(sizes.sum()))),
    }


def rising_late(everybody: int, rows: np.ndarray) -> np.ndarray:
    """A curve that is flat among small pools, where most centres are, and among large ones."""
    return 1 / (1 + np.exp(-(rows / everybody - 0.5) / 0.15))


def tabled(game: ds.LinearRegressionGame) -> ds.SizeGame:
    """The same game with its curve in a table: 100 runs ask for each number of rows many times."""
    curve = game.of_rows(np.arange(game.sizes.sum() + 1)[:, None], game.gamma[:1])
    same = ds.SizeGame(game.sizes, lambda n: curve[np.rint(n).astype(np.int64)])
    values = [ds.value(one, "exact").values for one in (game, same)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12)
    return same


def coverage(name: str, centres: int, seeds: int, power: float) -> None:
    """Of 95% intervals, pooled over owners and seeds, at 1,000 owners."""
    game = covered_games()[name]()
    exact = ds.value(game, "exact").values
    covered, errors, warned = [], [], []
    for seed in range(seeds):
        found = valued(game, centres, seed=seed, options={"power": power})
        errors.append(np.mean((found.values - exact) ** 2) / exact.var())
        covered.append(np.mean(np.abs(found.values - exact) <= 1.96 * found.std_errors))
        warned.append(any("decide these values" in note for note in found.notes))
    entry = {
        "seeds": seeds,
        "covered": np.mean(covered),
        "standard_error_between_runs": np.std(covered, ddof=1) / seeds**0.5,
        "runs_that_cover_less_than_half": np.mean(np.array(covered) < 0.5),
        "runs_that_say_so": np.mean(warned),
        "relative_mse": np.mean(errors),
    }
    store(f"coverage {name} {centres} centres{f' power {power:g}' * bool(power)}", entry)


def knn_game(n_owners: int, rows: int = 3, points: int = 100) -> ds.KNNGame:
    """Owners of a few rows in two columns, a tenth of them with other labels than the rest."""
    rng = np.random.default_rng([9, n_owners])
    X = rng.normal(size=(n_owners, rows, 2))
    y = (X.sum(axis=2) + 0.5 * rng.normal(size=(n_owners, rows)) > 0).astype(int)
    y[::10] = 1 - y[::10]
    owners = ds.Owners.from_arrays({f"owner {j}": (X[j], y[j]) for j in range(n_owners)})
    T = rng.normal(size=(points, 2))
    return ds.KNNGame(owners, T, (T.sum(axis=1) > 0).astype(int))


def knn(n_owners: int, centres: int, seeds: int = 8) -> None:
    """Against the exact values, over several seeds."""
    game = knn_game(n_owners)
    began = process_time()
    exact = ds.value(game, "exact").values
    formula, began = process_time() - began, process_time()
    runs = [valued(game, centres, seed=seed) for seed in range(seeds)]
    off = [np.abs(run.values - exact) for run in runs]
    covered = [np.mean(o <= 1.96 * run.std_errors) for o, run in zip(off, runs, strict=True)]
    entry = {
        "seeds": seeds,
        "relative_mse": float(np.mean(np.square(off)) / exact.var()),
        "covered": float(np.mean(covered)),
        "cpu_seconds": (process_time() - began) / seeds,
        "exact_cpu_seconds": formula,
        "memory_gb": memory(),
    }
    store(f"knn {n_owners} {centres} centres", entry)


def adult_game() -> ds.ModelGame:
    """Adult: 1,000 owners of 44 rows, logistic regression under log loss, 1,000 test rows."""
    from sklearn.linear_model import LogisticRegression

    from complete_games import adult

    X, y = adult()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    blocks = {f"owner {j}": (X[44 * j : 44 * j + 44], y[44 * j : 44 * j + 44]) for j in range(1000)}
    owners, test = ds.Owners.from_arrays(blocks), slice(44_000, 45_000)
    model = LogisticRegression(max_iter=2000)
    return ds.ModelGame(owners, model, X[test], y[test], scoring="neg_log_loss")


def logistic(centres: int, reference: int) -> None:
    """Newton steps and refits against longer runs of the same kind, whose steps are checked too."""
    found, told = beside_longer_runs(adult_game, centres, reference)
    work = found.details["marginals"]
    store("logistic adult 1000", {**told, **work, "reference_centres": reference})


def two_logistic(centres: int) -> None:
    """The error of a run from two of them: their errors are independent and have mean zero."""
    began, game = process_time(), adult_game()
    runs = [valued(game, centres, seed=seed) for seed in (1, 2)]
    one, other = (run.values for run in runs)
    error = float(np.mean((one - other) ** 2) / 2)
    spread = float(np.cov(one, other)[0, 1])
    entry = {
        "centres": centres,
        "relative_mse": error / spread,
        "correlation_of_the_two": float(np.corrcoef(one, other)[0, 1]),
        "claimed_by_standard_errors": [float(np.mean(r.std_errors**2)) / spread for r in runs],
        "cpu_seconds_of_both": process_time() - began,
        **runs[0].details["marginals"],
    }
    store("logistic adult 1000, two runs", entry)


def dask(path: Path, centres: int, repetitions: int = 5) -> None:
    """Two Dask workers against one on the same file: clusters that stand ready, turn by turn.

    Elapsed times mean something on a quiet machine only, so the load is told, and what the busiest
    worker and the driver computed, which depends on others less.
    """
    from distributed import Client, LocalCluster

    game, load = streamed(path), getloadavg()[0]
    seconds: dict[int, list[float]] = {1: [], 2: []}
    busiest, driver = ({workers: [] for workers in seconds} for _ in range(2))
    values = set()
    with ExitStack() as stack:
        clients = {}
        for workers in seconds:
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            clients[workers] = stack.enter_context(Client(stack.enter_context(cluster)))
            valued(game, 3, executor="dask", address=clients[workers])  # workers import
        for _ in range(repetitions):
            for workers, client in clients.items():
                before, own, began = client.run(process_time), process_time(), perf_counter()
                found = valued(game, centres, executor="dask", address=client)
                seconds[workers].append(perf_counter() - began)
                driver[workers].append(process_time() - own)
                after = client.run(process_time)
                busiest[workers].append(max(after[name] - before[name] for name in after))
                values.add(found.values.tobytes())
    one, two = (float(np.median(seconds[workers])) for workers in (1, 2))
    entry = {
        "owners": game.n_players,
        "centres": centres,
        "repetitions": repetitions,
        "seconds_one": one,
        "seconds_two": two,
        "speedup": one / two,
        "each": seconds,
        "cpu_seconds_of_the_busiest_worker": {w: float(np.median(busiest[w])) for w in busiest},
        "cpu_seconds_of_the_driver": {w: float(np.median(driver[w])) for w in driver},
        "load_average_before": load,
        "same_bits": len(values) == 1,
    }
    store("dask", entry)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--centres", type=int, default=66)
    parser.add_argument("--reference", type=int, default=2048)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--power", type=float, default=0.0)
    parser.add_argument("--shifted", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("."))
    asked = parser.parse_args()
    first, *rest = asked.arguments or [""]
    if asked.what == "write":
        write(int(first), Path(rest[0]), shifted=asked.shifted)
    elif asked.what == "ridge":
        files = asked.folder
        ridge(int(first), asked.centres, asked.reference, files, shifted=asked.shifted)
    elif asked.what == "stream":
        stream(Path(first), asked.centres, asked.reference, asked.jobs)
    elif asked.what == "coverage":
        coverage(first, asked.centres, asked.seeds, asked.power)
    elif asked.what == "knn":
        knn(int(first), asked.centres)
    elif asked.what == "logistic":
        logistic(asked.centres, asked.reference)
    elif asked.what == "two-logistic":
        two_logistic(asked.centres)
    else:
        dask(Path(first), asked.centres)


if __name__ == "__main__":
    main()
