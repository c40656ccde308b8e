"""DAT011."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from support.synthetic import Training, codes, falling, flat, found
from torch import Tensor, nn

from analyzer.detectors.mixed_samples import MixedSamples
from analyzer.run import open_run
from recorder import Recorder

RULE = MixedSamples()


def mixing(share: float | None, loss: list[float]) -> Training:
    return Training(loss=loss, steps={"mixing_share": [share, *[None] * (len(loss) - 1)]})


@pytest.mark.parametrize(("loss", "severity"), [(flat(300), "error"), (falling(300), "note")])
def test_samples_that_are_mixed(tmp_path: Path, loss: list[float], severity: str) -> None:
    (finding,) = found(RULE, mixing(0.4, loss), tmp_path)
    assert (finding.severity, finding.value) == (severity, pytest.approx(0.4))


def test_samples_of_sequences_that_are_mixed(tmp_path: Path) -> None:
    looked = {"mixing_share": [None] * 300, "sequence_mixing": [math.nan, 0.3, *[None] * 298]}
    (finding,) = found(RULE, Training(loss=flat(300), steps=looked), tmp_path)
    assert (finding.severity, finding.value) == ("error", pytest.approx(0.3))


@pytest.mark.parametrize("share", [0.0, 1e-5])
def test_rounding_is_silent(tmp_path: Path, share: float) -> None:
    for seed in range(3):
        assert found(RULE, mixing(share, flat(300)).but(seed=seed, noise=0.3), tmp_path / str(seed)) == []


def test_not_recorded(tmp_path: Path) -> None:
    assert codes(Training(), tmp_path) == []


class Averaging(nn.Module):
    """Hidden values from which their mean over a dimension is taken."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden, self.head, self.dim = nn.Linear(4, 8), nn.Linear(8, 2), dim

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).tanh()
        head: Tensor = self.head(hidden - hidden.mean(self.dim, keepdim=True))
        return head


@pytest.mark.parametrize(("dim", "fires"), [(0, True), (1, False)])
def test_recorded(tmp_path: Path, dim: int, *, fires: bool) -> None:
    torch.manual_seed(0)
    model = Averaging(dim)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model, optimizer, preset="basic") as recorder:
        for _ in range(20):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(nn.functional.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 2, (16,))))
            optimizer.step()
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is fires
