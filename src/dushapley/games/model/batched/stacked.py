"""Copies of one network, one a pool, stacked and trained together by `torch.func`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from dushapley.arrays import Array, BoolArray, FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic
from dushapley.games.model.batched.recipe import Steps, softmax
from dushapley.hashing import whole_number

if TYPE_CHECKING:
    from dushapley.games.model.batched.reference import TorchModel

Losses = Callable[[Any, Any], Any]
"""Rows and targets of mini-batches -> mean losses."""
_LOSSES: Any = {
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
        self.loss = _LOSSES.get(model.loss, model.loss)
        self.classification = model.kind == "classification"
        self.numbers: Arithmetic = arithmetic("torch", "float32", model.device)
        self.X = self.numbers.array(X)
        self.targets = self.numbers.array(targets, torch.int64 if self.classification else None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)  # the same initial weights on every device
            net = model.make()
        if not isinstance(net, torch.nn.Module):
            raise InvalidOption(
                f"make() returned a {type(net).__name__}; it must return a torch.nn.Module."
            )
        self.net = net.float().to(self.numbers.device)
        self.weights = dict(self.net.named_parameters())
        # networks that step together, always exactly this many: shapes decide last bits
        fits = 2**27 // max(1, sum(w.numel() for w in self.weights.values()))
        self.tile = int(np.clip(fits, 1, most or (16 if self.numbers.device == "cpu" else 256)))
        with self.in_force():
            self.columns = self._try_out()
            self.obstacle = self._obstacle()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Arithmetic with the same bits every time, on every GPU of a kind."""
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        plain = sdpa_kernel(SDPBackend.MATH)  # attention in steps that can be stacked
        with self.numbers.in_force(), flags, plain, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            yield

    def _try_out(self) -> int:
        """Columns that the network answers; refuse one that cannot be asked."""
        few = self.X[:2]
        try:
            answer = deepcopy(self.net).eval()(few)
        except Exception as error:
            raise InvalidOption(
                f"The network cannot take rows of shape {tuple(few.shape)}: "
                f"{type(error).__name__}: {error}. make= must return a module that takes "
                "(batch, columns) float32; begin it with torch.nn.Unflatten for images."
            ) from error
        shape = tuple(getattr(answer, "shape", [type(answer).__name__]))
        if self.classification:
            most = int(self.targets.max()) + 1
            fits = len(shape) == 2 and shape[0] == len(few) and shape[1] >= most
            wanted = f"(batch, {most})"
        else:
            fits, wanted = shape in ((len(few),), (len(few), 1)), "(batch,) or (batch, 1)"
        if not fits:
            raise InvalidOption(
                f"The network answers {shape} to {len(few)} rows; {self.model.kind} needs "
                f"{wanted}. Mend its last layer."
            )
        return int(shape[1]) if self.classification else 1

    def _obstacle(self) -> str | None:
        """Why copies of the network cannot be trained together; None: they can."""
        pair = self._copies(2)
        losses = partial(self._losses, pair, self.numbers.zeros(2, self.columns))
        rows = self.X[:2].expand(2, -1, -1)
        self.net.train()
        try:
            _slopes(list(pair.values()), losses, rows, self.targets[:2].expand(2, -1))
        except Exception as error:
            for name, part in self.net.named_modules():  # the usual suspects
                kind, modules = type(part).__name__, torch.nn.modules
                if isinstance(part, modules.dropout._DropoutNd) and part.p > 0:
                    return f"{kind} ({name}) drops units at random for every pool anew"
                if isinstance(part, modules.batchnorm._NormBase) and part.track_running_stats:
                    return f"{kind} ({name}) keeps running statistics of its own"
            first = next(iter(str(error).splitlines()), "")
            return f"torch.func refuses it ({type(error).__name__}: {first})"
        return None

    def _copies(self, count: int) -> dict[str, Any]:
        """The initial weights, stacked."""
        return {
            name: torch.stack([w.detach()] * count).requires_grad_()
            for name, w in self.weights.items()
        }

    def _losses(self, weights: dict[str, Any], lack: Any, x: Any, y: Any) -> Any:
        """Mean loss of every network on its mini-batch."""
        answers = vmap(partial(functional_call, self.net))(weights, (x,))
        return vmap(self._mean_loss)(answers, lack, y)

    def _mean_loss(self, answer: Any, lack: Any, y: Any) -> Any:
        if not self.classification:
            answer = answer.reshape(y.shape)
        elif self.loss is not self.model.loss:
            answer = answer + lack
        return self.loss(answer, y)

    def train(self, rows: IntArray, present: BoolArray) -> tuple[list[Any], Any]:
        """Train pools given by the rows of their mini-batches, shape (pools, steps · batch).

        A class that a pool lacks (it is not `present`) takes no part. Returns what is trained, in
        parts (tiles of stacked weights, or networks one by one), and what to add to its answers.
        """
        seen = np.pad(present, ((0, 0), (0, self.columns - present.shape[1])))
        lack = self.numbers.array(np.where(seen, 0.0, -np.inf))
        alone = self.obstacle is not None
        make, size = (self._alone, 1) if alone else (self._together, self.tile)
        cuts = [slice(k, k + size) for k in range(0, len(rows), size)]
        with self.in_force(), torch.random.fork_rng(enabled=alone):
            parts = [make(rows[cut], lack[cut]) for cut in cuts]
        return parts, lack[:, : present.shape[1]]

    def _together(self, rows: IntArray, lack: Any) -> Any:
        """All steps of one tile, filled up with its first pool."""
        filled = [*range(len(rows)), *[0] * (self.tile - len(rows))]
        weights = self._copies(self.tile)
        self.net.train()
        losses = partial(self._losses, weights, lack[filled])
        self._run(list(weights.values()), losses, rows[filled])
        return weights

    def _alone(self, rows: IntArray, lack: Any) -> Any:
        """One network after the other, for those that cannot be stacked."""
        net = deepcopy(self.net).train()
        # what drops out depends on the pool, not on its company
        torch.manual_seed(whole_number(f"{self.recipe.seed} {rows.tobytes().hex()}", 7))
        self._run(list(net.parameters()), lambda x, y: self._mean_loss(net(x), lack, y), rows[0])
        return net.eval()

    def _run(self, weights: list[Any], losses: Losses, rows: IntArray) -> None:
        """Take all steps, which change the weights in place."""
        steps = Steps(self.recipe, weights, self.numbers)
        on_device, size = self.numbers.index(rows), self.recipe.batch_size or 1
        for step in range(self.recipe.steps):
            batch = on_device[..., step * size : (step + 1) * size]
            slopes = _slopes(weights, losses, self.X[batch], self.targets[batch])
            if self.model.weight_decay:
                for w, g in zip(weights, slopes, strict=True):
                    g += self.model.weight_decay * w
            steps.take(slopes)

    def responses(self, trained: tuple[list[Any], Any], X: Array) -> Iterator[FloatArray]:
        """Pool by pool, probabilities (n, C) or numbers (n,), in float64."""
        parts, lacking = trained
        ask = vmap(partial(functional_call, self.net.eval()), in_dims=(0, None))
        rows, lacks = self.numbers.array(X), iter(lacking)
        for part in parts:
            with self.in_force():
                answers = ask(part, (rows,)) if self.obstacle is None else part(rows)[None]
            # more answers than pools: the last tile is filled up
            for answer, lack in zip(answers, lacks, strict=False):
                if self.classification:
                    known = self.numbers.to_numpy(answer[:, : len(lack)] + lack)
                    yield softmax(known.astype(np.float64))
                else:
                    yield self.numbers.to_numpy(answer.reshape(-1)).astype(np.float64)


def _slopes(weights: list[Any], losses: Losses, x: Any, y: Any) -> list[Any]:
    """Gradients of every network's own loss: those of all losses, for none shares a weight.

    `torch.func.grad` would give them too, slower, and first load what compiles programs.
    """
    with torch.enable_grad():
        found = losses(x, y)
        each = torch.ones(x.shape[:-2]).to(found)  # one number a network, or it is refused
        slopes = torch.autograd.grad(found, weights, each, materialize_grads=True)
    # a step uses them up, weights that are added share theirs, and fused steps of a GPU want
    # them in memory as the weights are
    return [torch.empty_like(w).copy_(g) for w, g in zip(weights, slopes, strict=True)]
