"""Copies of one network, one a pool, stacked and trained together by `torch.func`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic
from dushapley.games.model.batched.recipe import Steps
from dushapley.hashing import whole_number

if TYPE_CHECKING:
    from dushapley.games.model.batched.network import TorchModel

TILES = {"cpu": 16, "cuda": 256}
"""Networks that step together, always exactly this many: shapes decide last bits."""
MOST_NUMBERS = 2**27
"""Weights in one tile, at most."""

_LOSSES: dict[str, Any] = {
    "cross_entropy": torch.nn.functional.cross_entropy,
    "mse": torch.nn.functional.mse_loss,
    "mae": torch.nn.functional.l1_loss,
    "huber": torch.nn.functional.huber_loss,
}


class Stack:
    """One network and all the rows that pools are made of.

    Parameters
    ----------
    model
        The network and how it is trained.
    X, targets
        Rows (n, d), and classes 0..C−1 or numbers.
    most
        Networks that step together; None: as many as suit the device.

    Attributes
    ----------
    obstacle
        Why copies of this network cannot be trained together; None: they can.
    """

    def __init__(
        self, model: TorchModel, X: Array, targets: Array, *, most: int | None = None
    ) -> None:
        self.model, self.recipe = model, model.recipe()
        self.classification = model.kind == "classification"
        self.numbers: Arithmetic = arithmetic("torch", "float32", model.device)
        self.device = self.numbers.device
        self.X = self.numbers.array(X)
        whole = torch.int64 if self.classification else None
        self.targets = self.numbers.array(targets, whole)
        self.net = _made(model).to(self.device)
        self.weights = dict(self.net.named_parameters())
        if not self.weights:
            raise InvalidOption("The network has no weights to train; make= must return some.")
        numbers = sum(w.numel() for w in self.weights.values())
        self.tile = int(np.clip(MOST_NUMBERS // numbers, 1, most or TILES[self.device]))
        with self._in_force():
            self.columns = self._try_out()
            self.obstacle = self._obstacle()

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """Arithmetic with the same bits every time, on every GPU of a kind."""
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        plain = sdpa_kernel(SDPBackend.MATH)  # attention in steps that can be stacked
        with self.numbers.in_force(), flags, plain, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            yield

    def _try_out(self) -> int:
        """Columns that the network answers, or why it cannot be asked."""
        net = deepcopy(self.net).eval()
        try:
            answer = net(self.X[:2])
        except Exception as error:
            raise InvalidOption(
                f"The network cannot take rows of shape {tuple(self.X[:2].shape)}: "
                f"{type(error).__name__}: {error}. make= must return a module that takes "
                "(batch, columns) float32; begin it with torch.nn.Unflatten for images."
            ) from error
        shape = tuple(answer.shape) if torch.is_tensor(answer) else type(answer).__name__
        most = int(self.targets.max()) + 1 if self.classification else 1
        fits = isinstance(shape, tuple) and shape[:1] == (len(self.X[:2]),)
        columns = 1 if shape[1:] == () else int(shape[1])
        wide = columns >= most if self.classification else columns == 1
        if not fits or len(shape) > 2 or (self.classification and len(shape) != 2) or not wide:
            wanted = f"(batch, {most})" if self.classification else "(batch,) or (batch, 1)"
            raise InvalidOption(
                f"The network answers {shape} to {len(self.X[:2])} rows; {self.model.kind} needs "
                f"{wanted}. Mend its last layer."
            )
        return columns

    def _obstacle(self) -> str | None:
        pair = {name: torch.stack([w, w]) for name, w in self.weights.items()}
        rows = self.X[:2].expand(2, -1, -1)
        wanted = self.targets[:2].expand(2, -1)
        try:
            self._slopes(pair, rows, wanted, self._lacking(None, 2))
        except Exception as error:
            return _known_obstacle(self.net) or f"torch.func refuses it ({_first_line(error)})"
        return None

    def _loss(self, weights: dict[str, Any], x: Any, y: Any, lack: Any) -> Any:
        return self._mean_loss(functional_call(self.net, weights, (x,)), y, lack)

    def _mean_loss(self, answer: Any, y: Any, lack: Any) -> Any:
        loss = self.model.loss
        judged = _LOSSES[loss] if isinstance(loss, str) else loss
        if self.classification:
            return judged(answer + lack if isinstance(loss, str) else answer, y)
        return judged(answer.reshape(y.shape), y)

    def _slopes(self, weights: dict[str, Any], x: Any, y: Any, lack: Any) -> dict[str, Any]:
        """Gradients of every network's own loss: those of all losses, for none shares a weight.

        `torch.func.grad` would give them too, slower, and first load what compiles programs.
        """
        self.net.train()
        with torch.enable_grad():
            free = {name: w.detach().requires_grad_() for name, w in weights.items()}
            losses = vmap(self._loss)(free, x, y, lack)
            each = torch.ones(len(x)).to(losses)  # one number a network, or it is refused
            slopes = torch.autograd.grad(losses, list(free.values()), each, materialize_grads=True)
        # a step uses them up, weights that are added share theirs, and fused steps of a GPU want
        # them in memory as the weights are
        own = (torch.empty_like(w).copy_(g) for w, g in zip(weights.values(), slopes, strict=True))
        return dict(zip(weights, own, strict=True))

    def _lacking(self, present: BoolArray | None, n: int) -> Any:
        """What to add to the answers so that a class that a pool lacks takes no part."""
        lack = self.numbers.zeros(n, self.columns)
        if present is not None:
            seen = np.zeros((n, self.columns), dtype=np.bool_)
            seen[:, : present.shape[1]] = present
            lack = self.numbers.array(np.where(seen, 0.0, -np.inf))
        return lack

    def train(self, rows: IntArray, present: BoolArray | None) -> TrainedNetworks:
        """Train pools given by the rows of their mini-batches, shape (pools, steps · batch)."""
        lack = self._lacking(present, len(rows))
        n_classes = None if present is None else present.shape[1]
        with self._in_force():
            if self.obstacle is not None:
                nets = [self._alone(r, lack[k]) for k, r in enumerate(rows)]
                return TrainedNetworks(self, nets, lack, n_classes)
            tiles = [
                self._together(rows[start : start + self.tile], lack, start)
                for start in range(0, len(rows), self.tile)
            ]
            return TrainedNetworks(self, tiles, lack, n_classes)

    def _together(self, rows: IntArray, lack: Any, start: int) -> dict[str, Any]:
        """All steps of one tile, filled up with its first pool."""
        fill = [0] * (self.tile - len(rows))
        filled = np.concatenate([rows, rows[fill]])
        absent = lack[[*range(start, start + len(rows)), *(start + f for f in fill)]]
        on_device = self.numbers.index(filled)
        weights = {n: torch.stack([w.detach()] * self.tile) for n, w in self.weights.items()}
        steps = Steps(self.recipe, self.numbers, list(weights.values()), 0)
        size = self.model.batch_size
        for step in range(self.recipe.steps):
            batch = on_device[:, step * size : (step + 1) * size]
            slopes = self._slopes(weights, self.X[batch], self.targets[batch], absent)
            self._take(steps, list(weights.values()), [slopes[name] for name in weights])
        return weights

    def _take(self, steps: Steps, weights: list[Any], slopes: list[Any]) -> None:
        if self.model.weight_decay:
            for w, g in zip(weights, slopes, strict=True):
                g += self.model.weight_decay * w
        steps.take(slopes)

    def _alone(self, rows: IntArray, lack: Any) -> Any:
        """One network after the other, for those that cannot be stacked."""
        net, size = deepcopy(self.net).train(), self.model.batch_size
        weights = list(net.parameters())
        steps = Steps(self.recipe, self.numbers, [w.data for w in weights], 0)
        on_device = self.numbers.index(rows)
        seed = whole_number(f"{self.recipe.seed} {rows.tobytes().hex()}", 7)
        with torch.random.fork_rng(), torch.enable_grad():
            torch.manual_seed(seed)  # what drops out depends on the pool, not on its company
            for step in range(self.recipe.steps):
                batch = on_device[step * size : (step + 1) * size]
                loss = self._mean_loss(net(self.X[batch]), self.targets[batch], lack)
                slopes = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    self._take(steps, [w.data for w in weights], [g.clone() for g in slopes])
        return net.eval()


@dataclass
class TrainedNetworks:
    """Networks of a block of pools: tiles of stacked weights, or one by one."""

    stack: Stack
    parts: list[Any]
    lack: Any
    n_classes: int | None

    def responses(self, X: Array) -> Iterator[FloatArray]:
        """Pool by pool, probabilities (n, C) or numbers (n,), in float64."""
        rows, k = self.stack.numbers.array(X), 0
        for part in self.parts:
            with self.stack._in_force():
                answers = self._answers(part, rows)
            for answer in answers[: len(self.lack) - k]:
                yield self._response(answer, k)
                k += 1

    def _answers(self, part: Any, rows: Any) -> Any:
        if self.stack.obstacle is not None:
            return part(rows)[None]
        net = self.stack.net.eval()
        return vmap(lambda w: functional_call(net, w, (rows,)))(part)

    def _response(self, answer: Any, pool: int) -> FloatArray:
        numbers = self.stack.numbers
        if not self.stack.classification:
            return np.asarray(numbers.to_numpy(answer.reshape(-1)), dtype=np.float64)
        known = (answer + self.lack[pool])[:, : self.n_classes]
        scores = numbers.to_numpy(known).astype(np.float64)
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def _known_obstacle(net: Any) -> str | None:
    """What stands in the way of the usual suspects, in words."""
    from torch.nn.modules import batchnorm, dropout

    for name, part in net.named_modules():
        if isinstance(part, dropout._DropoutNd) and part.p > 0:
            return f"{type(part).__name__} ({name}) drops units at random for every pool anew"
        if isinstance(part, batchnorm._NormBase) and part.track_running_stats:
            return f"{type(part).__name__} ({name}) keeps running statistics of its own"
    return None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _made(model: TorchModel) -> Any:
    """A new network with the initial weights that the seed gives, the same on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(model.recipe().seed)
        net = model.make()
    if not isinstance(net, torch.nn.Module):
        raise InvalidOption(
            f"make() returned a {type(net).__name__}; it must return a torch.nn.Module."
        )
    return net.float()
