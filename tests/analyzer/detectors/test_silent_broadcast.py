"""DAT005."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, found
from torch import Tensor

from analyzer.detectors.silent_broadcast import SilentBroadcast
from analyzer.findings import NotApplicable

RULE = SilentBroadcast()


def call(prediction: list[int] | None, target: list[int] | None) -> dict[str, Any]:
    return {
        "kind": "loss-input",
        "step": 7,
        "detail": {"loss": "mse_loss", "prediction_shape": prediction, "target_shape": target},
    }


@pytest.mark.parametrize(
    ("prediction", "target"), [([64, 1], [64]), ([64], [64, 1]), ([8, 8, 1], [8, 8]), ([1, 64], [64, 1, 1])]
)
def test_shapes_that_broadcast(tmp_path: Path, prediction: list[int], target: list[int]) -> None:
    (finding,) = found(RULE, Training(events=(call(prediction, target),)), tmp_path)
    assert (finding.severity, finding.first_step) == ("error", 7)
    assert str(tuple(prediction)) in finding.message


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        ([64, 1], [64, 1]),
        ([64], [64]),
        ([64, 9], [64, 1]),  # quantiles of one target
        ([64, 9], [9]),
        ([64, 1, 9], [64, 9, 1]),  # all pairs, on purpose
        ([1, 1], [1]),
        ([64, 10], [64]),  # classes, and indices of them: nothing broadcasts
        ([], [64]),
        ([0, 1], [0]),
    ],
)
def test_other_shapes_are_silent(tmp_path: Path, prediction: list[int], target: list[int]) -> None:
    assert found(RULE, Training(events=(call(prediction, target),)), tmp_path) == []


def test_a_later_call_counts(tmp_path: Path) -> None:
    events = (call([64, 1], [64, 1]), call([64, 1], [64]))
    assert len(found(RULE, Training(events=events), tmp_path)) == 1


@pytest.mark.parametrize("events", [(), (call([64, 1], None),), (call(None, None),)])
def test_not_applicable(tmp_path: Path, events: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(NotApplicable, match="not seen"):
        found(RULE, Training(events=events), tmp_path)


def sums(index: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(16, 4)
    return inputs, inputs.sum(1)


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "broadcast", F.mse_loss, outputs=1, batch=sums, lr=0.01))
    squeezed = recorded(
        tmp_path / "right", lambda prediction, target: F.mse_loss(prediction.squeeze(1), target), outputs=1, batch=sums
    )
    assert not says(RULE, squeezed)
