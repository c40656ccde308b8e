"""Models that call, nest and return in ways of their own, and users who look in: values, or the reason for null."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, Log, fly_both, one_by_one
from support.trainings import read
from support.truth import check_null, check_values, reasons
from torch import Tensor, nn
from torch.func import functional_call, vmap

N = 6
Batch = tuple[Tensor, Tensor]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def batch() -> Batch:
    return torch.randn(N, 4, dtype=torch.float64), torch.randint(3, (N,))


def classify(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def case(make: Callable[[], nn.Module], loss: Any = classify, **options: Any) -> Case:
    return Case(lambda: make().double(), batch, loss, **options)


def fly(chosen: Case, path: Path, **settings: Any) -> Log:
    return fly_both(path, chosen.model, lambda net: chosen.optimizer(list(net.parameters())), chosen.train, **settings)


@dataclass
class Output:
    scores: Tensor
    hidden: Tensor | None = None


class Pair(NamedTuple):
    scores: Tensor
    hidden: Tensor


class Returning(nn.Module):
    """A scale of its own, and an output of some kind."""

    def __init__(self, kind: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.body, self.scale, self.kind = mlp(), nn.Parameter(torch.ones(3)), kind

    def forward(self, x: Tensor) -> Any:
        hidden = self.body(x)
        return self.kind(hidden * self.scale, hidden)


class Taking(nn.Module):
    """A mapping, and more by name."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.scale = mlp(), nn.Parameter(torch.ones(3))

    def forward(self, inputs: dict[str, Any], *, factor: float, note: str = "") -> Tensor:
        return self.body(inputs["x"][0]) * self.scale * factor


class Nested(nn.Module):
    """A model within a model within a model, each with a parameter of its own."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.inner = Nested(depth - 1) if depth else nn.Linear(4, 4)
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x) + self.shift)


class Functional(nn.Module):
    """Calls a module of its own with its own parameters, or with others made of them."""

    def __init__(self, changed: bool) -> None:
        super().__init__()
        self.inner, self.changed = mlp(), changed

    def forward(self, x: Tensor) -> Tensor:
        parameters = dict(self.inner.named_parameters())
        if self.changed:
            parameters = {name: p * 2 + p.square() for name, p in parameters.items()}
        return functional_call(self.inner, parameters, x)


class Mapped(nn.Module):
    """Runs over the samples by vmap, with or without a module inside."""

    def __init__(self, modules: bool) -> None:
        super().__init__()
        self.first, self.second, self.modules_inside = nn.Linear(4, 5), nn.Linear(5, 3), modules

    def forward(self, x: Tensor) -> Tensor:
        def one(sample: Tensor) -> Tensor:
            if self.modules_inside:
                return self.second(torch.tanh(self.first(sample)))
            return torch.tanh(self.first.weight @ sample + self.first.bias)

        return vmap(one)(x) if self.modules_inside else self.second(vmap(one)(x))


class Bootstrapped(nn.Module):
    """A target that is computed without gradients, by modules that learn elsewhere too."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target, self.head = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 3)
        self.target.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = self.head(self.target(x)) + self.online(x)
        return self.head(torch.tanh(self.online(x))) - wanted


class Twice(nn.Module):
    """A trunk and two heads, of which the loss takes both."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.heads = nn.Linear(4, 4), nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 1)})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.trunk(x))
        return self.heads["a"](hidden), self.heads["b"](hidden)


class Borrowed(nn.Module):
    """Uses the weight of a layer outside that layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.linear(torch.tanh(self.layer(x)), self.layer.weight.T))


class Broadcast(nn.Module):
    """A table that no sample indexes: a layer without a dimension of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(x @ self.mix(self.table(torch.arange(4)))))


class Swapped(nn.Module):
    """Whose `forward` was put on the object."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.layer.forward = lambda x: F.linear(x, self.layer.weight, self.layer.bias).square()  # type: ignore[method-assign]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x))


def squares(model: nn.Module, batch: Batch) -> Tensor:
    first, second = model(batch[0])
    return F.cross_entropy(first, batch[1]) + F.mse_loss(second[:, 0], batch[0][:, 0])


def scored(model: nn.Module, batch: Batch) -> Tensor:
    out = model(batch[0])
    scores = out["scores"] if isinstance(out, dict) else out.scores if hasattr(out, "scores") else out[0]
    return F.cross_entropy(scores, batch[1])


def named(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model({"x": [batch[0], "text"]}, factor=0.5, note="n"), batch[1])


def penalised(model: nn.Module, batch: Batch) -> Tensor:
    """A penalty on the gradient in the inputs."""
    x = batch[0].clone().requires_grad_()
    out = model(x)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.cross_entropy(out, batch[1]) + slope.square().sum(1).mean()


CASES: dict[str, Case] = {
    "a mapping": case(lambda: Returning(lambda a, b: {"scores": a, "hidden": b.detach()}), scored),
    "a tuple": case(lambda: Returning(lambda a, b: (a, [None, "text"])), scored),
    "a named tuple": case(lambda: Returning(Pair), scored, null="made of each other"),
    "a dataclass": case(
        lambda: Returning(Output), scored, null="no individual gradients for scale: no module around it"
    ),
    "an output that another is made of": case(
        lambda: Returning(lambda a, b: (F.pad(a[:, 1:], (1, 0)), a)), scored, null="made of each other"
    ),
    "the same output twice": case(lambda: Returning(lambda a, b: (a, a)), scored),
    "a mapping goes in": case(Taking, named),
    "nested": case(lambda: nn.Sequential(Nested(), nn.Linear(4, 3))),
    "two heads": case(Twice, squares, no_losses="2 losses"),
    "without gradients": case(Bootstrapped),
    "functional call": case(lambda: Functional(changed=False)),
    "functional call with other parameters": case(lambda: Functional(changed=True), null="do not add up"),
    "mapped over samples": case(lambda: Mapped(modules=True)),
    "mapped over samples, parameters only": case(lambda: Mapped(modules=False)),
    "a weight used elsewhere": case(Borrowed, null="do not add up"),
    "a layer without samples": case(Broadcast),
    "a forward of the object": case(Swapped),
    "a penalty on gradients": case(mlp, penalised, null="do not add up", no_losses="depends on the samples"),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_a_loop_over_samples(name: str, tmp_path: Path) -> None:
    chosen, run = CASES[name], tmp_path / "run"
    log = fly(chosen, run)
    if chosen.null:
        check_null(run, chosen.null)
    else:
        check_values(run, log, chosen.tolerance, losses=not chosen.no_losses)
    if chosen.no_losses:
        assert read(run, "steps")["loss_var"].is_null().all()


def looked_into(model: nn.Sequential, seen: list[Any]) -> None:
    model[0].register_forward_hook(lambda m, args, out: seen.append(out.shape))
    model[0].register_forward_pre_hook(lambda m, args: seen.append(args[0].shape))
    model[2].register_full_backward_hook(lambda m, given, out: seen.append(given[0].shape))
    model.register_forward_hook(lambda m, args, kwargs, out: seen.append(len(args)), with_kwargs=True)


def replaced(model: nn.Sequential, seen: list[Any]) -> None:
    model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    model[2].register_forward_hook(lambda m, args, out: out * 3 + args[0][:, :3])


def passed_back(model: nn.Sequential, seen: list[Any]) -> None:
    """Gradients that hooks of modules change on their way are those of no sample's loss."""
    model[2].register_full_backward_hook(lambda m, given, out: (given[0] * 0.5,))
    model[0].register_full_backward_pre_hook(lambda m, out: (out[0].clamp(-0.01, 0.01),))


@pytest.mark.parametrize("hooks", [looked_into, replaced])
def test_hooks_of_the_user(hooks: Any, tmp_path: Path) -> None:
    seen: list[Any] = []

    def model() -> nn.Module:
        net = mlp()
        hooks(net, seen)
        return net

    chosen = case(model)
    log = fly(chosen, tmp_path / "run")
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :], "the recorded run's, then the bare one's"
    check_values(tmp_path / "run", log)
    if hooks is looked_into:
        assert read(tmp_path / "run", "steps")["hess_trace"].is_null().all()
        assert any("hooks on its backward pass" in reason for reason in reasons(tmp_path / "run"))


def test_gradients_that_hooks_of_modules_change(tmp_path: Path) -> None:
    """Seen where they arrive: what a sample adds to the gradient that the optimizer gets."""

    def model() -> nn.Module:
        net = mlp()
        passed_back(net, [])
        return net

    def changed(net: Any, data: Batch) -> Iterator[Tensor]:
        """The sum of the samples' gradients, which hooks clamp as those of the batch."""
        for i in range(N):
            yield one_sample(net, data, i)

    def one_sample(net: Any, data: Batch, i: int) -> Tensor:
        return F.cross_entropy(net(data[0]), data[1], reduction="none")[i]

    chosen = case(model, each=changed)
    fly(chosen, tmp_path / "run")
    steps = read(tmp_path / "run", "steps")
    for row in steps.to_dicts():
        if row["inner_mean"] is not None:
            assert row["inner_mean"] == pytest.approx(row["grad_norm"] ** 2, rel=1e-9)


def test_a_wrapper_that_copies_to_no_device(tmp_path: Path) -> None:
    check_values(tmp_path / "run", fly(case(lambda: nn.DataParallel(mlp())), tmp_path / "run"))


def test_modules_that_no_model_registers(tmp_path: Path) -> None:
    """Only what the recorder was given is seen; a loss that leads elsewhere too is none of its business."""

    def loop(log: Log) -> None:
        other = nn.Linear(4, 4).double()
        chosen = case(mlp)

        def loss(model: nn.Module, data: Batch) -> Tensor:
            return F.cross_entropy(model(torch.tanh(other(data[0]))), data[1])

        for _ in range(3):
            data = chosen.batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                backward(loss(log.model, data), one_by_one(loss, data))
            log.optimizer.step()

    log = fly_both(tmp_path / "run", lambda: mlp().double(), lambda m: torch.optim.SGD(m.parameters(), lr=0.1), loop)
    check_values(tmp_path / "run", log)
