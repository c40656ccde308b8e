"""Several backward passes through one forward pass: its samples are counted once, whatever the losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.trainings import read
from torch import Tensor, nn

from recorder import Recorder
from recorder.step import Step

BATCH = 8


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.trunk(x))
        return self.first(hidden), self.second(hidden)


Loop = Callable[[nn.Module, Step, Tensor, Tensor], Any]


def losses(net: nn.Module, x: Tensor, y: Tensor, reduction: str = "mean") -> tuple[Tensor, Tensor]:
    classes, values = net(x)
    return F.cross_entropy(classes, y, reduction=reduction), F.mse_loss(values[:, 0], y.float(), reduction=reduction)


def one_forward(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    for loss in losses(net, x, y):
        step.backward(loss, backward=lambda scaled: scaled.backward(retain_graph=True))


def each_loss_in_its_turn(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    classes, values = net(x)
    step.backward(F.cross_entropy(classes, y), backward=lambda scaled: scaled.backward(retain_graph=True))
    step.backward(F.mse_loss(values[:, 0], y.float()))


def unreduced(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    for loss in losses(net, x, y, "none"):
        step.backward(loss, backward=lambda scaled: scaled.backward(retain_graph=True))


def alternating(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    for half in (slice(0, 4), slice(4, None)):
        step.backward(sum(losses(net, x[half], y[half]), torch.zeros(())))


def forward_twice_then_backward_twice(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    made = [sum(losses(net, x[half], y[half]), torch.zeros(())) for half in (slice(0, 4), slice(4, None))]
    for loss in made:
        step.backward(loss)


def look_first(net: nn.Module, step: Step, x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        net(x)
    one_forward(net, step, x, y)


def record(run: Path, loop: Loop, steps: int = 3, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    net = TwoHeads()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with Recorder(run, net, optimizer, strict=True, **settings) as recorder:
        for _ in range(steps):
            x, y = torch.randn(BATCH, 6), torch.randint(0, 3, (BATCH,))
            optimizer.zero_grad()
            with recorder.step() as step:
                loop(net, step, x, y)
            optimizer.step()
    return net


@pytest.mark.parametrize(
    "loop", [one_forward, each_loss_in_its_turn, unreduced, alternating, forward_twice_then_backward_twice, look_first]
)
def test_the_samples_are_counted_once(loop: Loop, tmp_path: Path) -> None:
    record(tmp_path, loop)
    steps = read(tmp_path, "steps")
    assert steps["batch_size"].to_list() == [BATCH] * 3
    assert steps["micro_batches"].to_list() == [2] * 3


@pytest.mark.parametrize("loop", [each_loss_in_its_turn, unreduced])
def test_the_losses_of_a_sample_are_added_up(loop: Loop, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = TwoHeads()
    first, second = losses(net, torch.randn(BATCH, 6), torch.randint(0, 3, (BATCH,)), "none")
    record(tmp_path, loop, steps=1)
    row = read(tmp_path, "steps").row(0, named=True)
    assert row["loss"] == pytest.approx((first + second).mean().item(), rel=1e-6)
    assert row["loss_count"] == BATCH
    assert row["loss_var"] == pytest.approx((first + second).var().item(), rel=1e-5)
    assert row["input_nonfinite"] == 0.0


def test_gradients_of_samples_are_not_told_with_a_reason(tmp_path: Path) -> None:
    """Each sample's gradient is the sum over the losses: statistics of the parts would be of other numbers."""
    record(tmp_path, one_forward)
    steps = read(tmp_path, "steps")
    assert steps["inner_mean"].null_count() == steps["start_slope"].null_count() == 3
    reasons = read(tmp_path, "events")["message"].to_list()
    assert any("several backward passes went through one forward pass" in reason for reason in reasons)


def test_without_a_probe_nobody_sees_whether_they_share_a_forward_pass(tmp_path: Path) -> None:
    record(tmp_path, unreduced, preset="basic", dense_steps=0, every=4, steps=3)
    assert read(tmp_path, "steps")["batch_size"].to_list() == [BATCH, None, None]
    assert any("steps.batch_size" in message for message in read(tmp_path, "events")["message"].to_list())
