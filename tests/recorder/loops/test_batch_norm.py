"""Batch norm in training mode: what a sample adds to the gradient of its batch, whose statistics all samples make."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, Log, fly_both, raw
from support.truth import check_values, gradients_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

N = 6
Batch = tuple[Tensor, Tensor]


def classify(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def alone(model: nn.Module, batch: Batch) -> Iterator[Tensor]:
    """The loss of the batch as a function of the parameters that one sample's entries see; all others see constants.

    Its gradients, times the number of samples, have the gradient of the batch as their mean.
    """
    layers = [m for m in model.modules() if not list(m.children()) and list(m.parameters())]
    for i in range(N):
        with torch.no_grad():
            each = F.cross_entropy(model(batch[0]), batch[1], reduction="none")[i]
        handles = [layer.register_forward_hook(lambda m, args, out, i=i: moving(m, args, out, i)) for layer in layers]
        total = classify(model, batch)
        for handle in handles:
            handle.remove()
        yield Loss.apply(total, each)


class Loss(torch.autograd.Function):
    """The loss of a sample, with the gradients of the loss of the batch, times the number of samples."""

    @staticmethod
    def forward(context: object, total: Tensor, each: Tensor) -> Tensor:
        return each.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> tuple[Tensor, None]:
        return N * gradient, None


def moving(module: nn.Module, args: tuple[Tensor, ...], out: Tensor, i: int) -> Tensor:
    """The output as it would be if all samples but one saw constants."""
    twin = copy.copy(module)
    twin._forward_hooks = OrderedDict()
    still = {name: p.detach() for name, p in module.named_parameters()}
    others = functional_call(twin, still | {name: b.clone() for name, b in module.named_buffers()}, args)
    mine = (torch.arange(len(out)) == i).reshape(-1, *[1] * (out.dim() - 1))
    return torch.where(mine, out, others)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "vectors": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)), (4,)),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 2, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)
        ),
        (2, 3, 3),
    ),
    "without running statistics": (
        lambda: nn.Sequential(
            nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Tanh(), nn.Linear(5, 3)
        ),
        (4,),
    ),
    "without parameters, momentum of its own": (
        lambda: nn.Sequential(
            nn.Linear(4, 5), nn.BatchNorm1d(5, affine=False, momentum=None), nn.Tanh(), nn.Linear(5, 3)
        ),
        (4,),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_contributions_to_the_gradient_of_the_batch(name: str, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    case = Case(
        lambda: make().double(),
        lambda: (torch.randn(N, *shape, dtype=torch.float64), torch.randint(3, (N,))),
        classify,
        alone,
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(tmp_path / "run", log, rel=1e-8)


def test_their_mean_is_the_gradient_of_the_batch() -> None:
    """Of the loop over samples above."""
    torch.manual_seed(0)
    model = MODELS["vectors"][0]().double()
    batch = torch.randn(N, 4, dtype=torch.float64), torch.randint(3, (N,))
    parts = [gradients_of(model, loss) for loss in alone(model, batch)]
    whole = gradients_of(model, classify(model, batch))
    for part, gradient in zip(zip(*parts, strict=True), whole, strict=True):
        torch.testing.assert_close(torch.stack(part).mean(0), gradient)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.head, self.reentrant = nn.Linear(4, 5), nn.Linear(5, 3), reentrant
        self.middle = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 5), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.middle, self.first(x), use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [True, False])
def test_running_statistics_of_checkpointed_layers(reentrant: bool, tmp_path: Path) -> None:
    """They move at each recomputation, so that we must not cause any."""

    def loop(log: Log) -> None:
        for _ in range(4):
            batch = torch.randn(N, 4), torch.randint(3, (N,))
            log.optimizer.zero_grad()
            with log.step() as backward:
                backward(classify(log.model, batch))
            log.optimizer.step()
        log.extra += list(log.model.buffers())

    model = lambda: Checkpointed(reentrant)  # noqa: E731
    log = fly_both(tmp_path / "run", model, lambda net: torch.optim.SGD(net.parameters(), lr=0.1), loop)
    assert raw(log.extra[0]) != raw(torch.zeros(5))
