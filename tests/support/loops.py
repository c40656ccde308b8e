"""A training loop written once, run with a recorder and without one, and what the recorder must have seen of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_flatten, tree_map

from recorder import Recorder
from recorder.instruments import PRESETS

EVERYTHING = {
    "preset": "full",
    "strict": True,
    "instruments": {each.name: 1 for each in PRESETS["full"] if each.sparse},
}
"""Every instrument at every step, and whatever goes wrong in one is raised."""

Each = Callable[[nn.Module], Iterable[Tensor]]
"""The losses of the samples of one backward pass, one after the other, on a model; their mean is the pass's loss."""


class Bare:
    """Stands where a recorder does, and records nothing."""

    def step(self) -> Any:
        return nullcontext(self)

    def evaluate(self, split: str) -> Any:
        return nullcontext()

    def log(self, split: str, **values: Any) -> None:
        return

    def backward(
        self, loss: Tensor, *, scaler: Any = None, backward: Callable[[Tensor], object] = Tensor.backward, **_: Any
    ) -> None:
        total = loss.mean() if loss.dim() == 1 else loss
        backward(total if scaler is None else scaler.scale(total))


@dataclass
class Moment:
    """One step of the loop: what the model was like before it, and how it changed."""

    state: dict[str, Tensor] = field(default_factory=dict)
    parameters: list[Tensor] = field(default_factory=list)
    """What they were at the first pass, which may have moved them."""
    random: list[Tensor] = field(default_factory=list)
    """State of the random numbers at the start of each pass."""
    passes: list[Each | None] = field(default_factory=list)
    before: list[Tensor] | None = None
    after: list[Tensor] | None = None

    @property
    def update(self) -> list[Tensor] | None:
        if self.before is None or self.after is None:
            return None
        return [b - a for a, b in zip(self.before, self.after, strict=True)]


class Log:
    """What a loop is given: a model, its optimizers, and steps that may be recorded; it keeps what happened."""

    def __init__(self, recorder: Any, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        self.recorder, self.model, self.optimizers = recorder, model, optimizers
        self.optimizer = optimizers[0]
        self.losses: list[Tensor] = []
        self.moments: list[Moment] = []
        self.extra: list[Tensor] = []
        """Further tensors that a recorder must not change."""
        self._handles: list[Any] = []
        for optimizer in optimizers:
            self._handles.append(optimizer.register_step_pre_hook(lambda *_: self._about_to_update()))
            self._handles.append(optimizer.register_step_post_hook(lambda *_: self._updated()))

    @contextmanager
    def step(self) -> Iterator[Callable[..., None]]:
        """A step of the recorder; what it yields differentiates a loss, given the losses of its samples alone."""
        moment = Moment(self._state(), random=[torch.get_rng_state()])
        self.moments.append(moment)
        with self.recorder.step() as step:

            def backward(loss: Tensor, each: Each | None = None, **options: Any) -> None:
                if not moment.passes:
                    moment.state = self._state() | moment.state  # what was lazy had none before
                    moment.parameters = self.values()
                step.backward(loss, **options)
                moment.passes.append(each)
                moment.random.append(torch.get_rng_state())
                self.losses.append(loss.detach().clone())

            yield backward

    def _state(self) -> dict[str, Tensor]:
        found = self.model.state_dict().items()
        return {name: tensor.detach().clone() for name, tensor in found if not is_lazy(tensor)}

    def values(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]

    def outcome(self) -> dict[str, list[bytes]]:
        """All that the training leaves behind, as bytes."""
        for handle in self._handles:
            handle.remove()
        states = [tree_flatten(optimizer.state_dict())[0] for optimizer in self.optimizers]
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        found = {
            "losses": self.losses,
            "model": list(self.model.state_dict().values()),
            "gradients": gradients,
            "optimizers": [value for state in states for value in state if isinstance(value, Tensor)],
            "extra": self.extra,
            "random": [torch.get_rng_state()],
        }
        return {name: [raw(tensor) for tensor in tensors] for name, tensors in found.items()}

    def _about_to_update(self) -> None:
        if self.moments[-1].before is None:
            self.moments[-1].before = self.values()

    def _updated(self) -> None:
        self.moments[-1].after = self.values()


def raw(tensor: Tensor) -> bytes:
    """The bits of a tensor."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return dense.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def one_by_one(loss: Callable[..., Tensor], batch: Any) -> Each:
    """The losses of the samples of a batch: each goes through the model alone, as a batch of one."""
    count = next(len(leaf) for leaf in tree_flatten(batch)[0] if isinstance(leaf, Tensor) and leaf.dim())

    def each(model: nn.Module) -> Iterator[Tensor]:
        for i in range(count):
            yield loss(model, tree_map(lambda leaf, i=i: sample(leaf, i, count), batch))

    return each


def sample(leaf: Any, i: int, count: int) -> Any:
    """The part of one sample in a tensor that runs over samples; anything else as it is."""
    return leaf[i : i + 1] if isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == count else leaf


@dataclass(frozen=True)
class Case:
    """A model, its data and its loss, and what cannot be measured of them."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Any]
    loss: Callable[[nn.Module, Any], Tensor]
    each: Callable[[nn.Module, Any], Iterable[Tensor]] | None = None
    """Losses of the samples, their mean being the loss; by default each sample goes through the model alone."""
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    null: str = ""
    """Why there are no individual gradients."""
    no_losses: str = ""
    """Why there are no individual losses."""
    no_curvature: str = ""
    """Why there is no curvature."""
    steps: int = 3
    tolerance: float = 1e-9

    def alone(self, batch: Any) -> Each:
        if self.each is None:
            return one_by_one(self.loss, batch)
        each = self.each
        return lambda model: each(model, batch)

    def train(self, log: Log) -> None:
        """The plain loop."""
        for _ in range(self.steps):
            batch = self.batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                backward(self.loss(log.model, batch), self.alone(batch))
            log.optimizer.step()


def fly(
    where: Path | None,
    model: Callable[[], nn.Module],
    optimizers: Callable[[nn.Module], torch.optim.Optimizer | list[torch.optim.Optimizer]],
    loop: Callable[[Log], object],
    seed: int = 0,
    **settings: Any,
) -> Log:
    """Run a loop from a seed, recorded in a directory or not at all."""
    torch.manual_seed(seed)
    net = model()
    made = optimizers(net)
    held = made if isinstance(made, list) else [made]
    recorder = Recorder(where, net, made, **{**EVERYTHING, **settings}) if where else nullcontext(Bare())
    with recorder as running:
        log = Log(running, net, *held)
        loop(log)
    return log


def fly_both(
    where: Path,
    model: Callable[[], nn.Module],
    optimizers: Callable[[nn.Module], torch.optim.Optimizer | list[torch.optim.Optimizer]],
    loop: Callable[[Log], object],
    **settings: Any,
) -> Log:
    """The recorded loop, once it has left behind, bit by bit, what the bare one did."""
    log = fly(where, model, optimizers, loop, **settings)
    bare, recorded = fly(None, model, optimizers, loop).outcome(), log.outcome()
    for what, tensors in bare.items():
        assert recorded[what] == tensors, f"{what} differ"
    return log
