"""Scatter of the individual gradients against Cockpit's values and against a loop over samples."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from support.models import MODELS, vectors
from support.references import VALUES, reference_training
from support.samples import individual_gradients
from support.trainings import Training, read, train
from torch import Tensor, nn

from recorder.instruments.individual_gradients import scatter
from recorder.second_moments import SecondMoments


def derived(row: dict[str, float], batch: int) -> dict[str, float]:
    """The quantities of Cockpit that follow from the recorded ones, by their definitions."""
    squared = row["grad_norm"] ** 2
    return {
        "NormTest": math.sqrt(row["grad_var"] / (batch * squared)),
        "InnerTest": math.sqrt(row["inner_var"] / (batch * squared**2)),
        "OrthoTest": math.sqrt((row["grad_var"] - row["inner_var"] / squared) / (batch * squared)),
        "CABS": row["lr"][0] * row["grad_var"] * (batch - 1) / batch / row["loss"],
    }


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.json")), ids=lambda file: file.stem)
def test_gradient_tests_equal_cockpits(file: Path, tmp_path: Path) -> None:
    reference = json.loads(file.read_text())
    rows = reference_training(tmp_path / "run", reference).steps.to_dicts()
    for step, expected in reference["values_per_step"].items():
        found = derived(rows[int(step)], reference["batch_size"])
        for name in found.keys() & expected.keys():
            assert found[name] == pytest.approx(expected[name], rel=1e-9), (step, name)


@pytest.mark.parametrize("name", MODELS)
def test_scatter_equals_a_loop_over_samples(name: str, tmp_path: Path) -> None:
    make, inputs, targets = MODELS[name]
    torch.manual_seed(0)
    model = make().double()
    batches = [(inputs(7), targets(7)) for _ in range(2)]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), lambda p: torch.optim.Adam(p, lr=0.01))
    check_against_loop(training, model, batches)


def check_against_loop(training: Training, model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    assert not [reason for reason in training.reasons() if "gsnr" in reason or "slope" in reason]
    steps, layers = training.steps.to_dicts(), read(training.path, "layers").to_dicts()
    names = [name for name, _ in model.named_parameters()]
    for step, (x, y) in enumerate(batches):
        gradients = individual_gradients(model, training.parameters[step], x, y)
        flat = torch.cat([g.reshape(len(x), -1) for g in gradients], 1)
        mean = flat.mean(0)
        assert steps[step]["grad_var"] == pytest.approx(flat.var(0).sum().item(), rel=1e-9)
        dots = flat @ mean
        assert steps[step]["inner_mean"] == pytest.approx(dots.mean().item(), rel=1e-9)
        assert steps[step]["inner_var"] == pytest.approx(dots.var().item(), rel=1e-9)
        differ = torch.cat([stands_out(g.reshape(len(x), -1)) for g in gradients])
        ratio = mean[differ].square() / flat.var(0, unbiased=False)[differ]
        assert steps[step]["gsnr_sum"] == pytest.approx(ratio.sum().item(), rel=1e-8)
        assert steps[step]["gsnr_count"] == differ.sum().item()
        for row in (row for row in layers if row["step"] == step and row["grad_var"] is not None):
            expected = gradients[names.index(row["tensor"])].reshape(len(x), -1).var(0).sum().item()
            assert row["grad_var"] == pytest.approx(expected, rel=1e-5, abs=1e-30)


def stands_out(gradients: Tensor) -> Tensor:
    """Entries of one tensor (samples, entries) that are more than rounding errors and not all equal."""
    size = gradients.abs().amax(0)
    return (size > 1e-13 * size.max()) & (gradients.std(0) > 1e-7 * size)


def test_micro_batches_add_up_to_the_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    model = make().double()
    whole = [(inputs(8), targets(8)) for _ in range(2)]
    parts = [[(x[:4], y[:4]), (x[4:], y[4:])] for x, y in whole]
    check_against_loop(train(tmp_path / "run", model, parts, nn.CrossEntropyLoss()), model, whole)


def test_neither_clipping_nor_stale_gradients_change_what_is_measured(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    model = make().double()
    batches = [(inputs(8), targets(8)) for _ in range(2)]

    def disturb(net: nn.Module) -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)

    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), between=disturb, zero=False)
    check_against_loop(training, model, batches)


def test_equal_samples_have_no_scatter(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    x = torch.randn(1, 6).expand(8, 6)
    row = train(
        tmp_path / "run", model, [(x, torch.zeros(8, dtype=torch.long))], nn.CrossEntropyLoss()
    ).steps.to_dicts()[0]
    assert row["grad_var"] == pytest.approx(0.0, abs=1e-5 * row["grad_norm"] ** 2)
    assert row["gsnr_count"] <= 10  # rounding may leave a few of the 53 entries


def test_a_replayed_module_takes_a_subset_and_says_so(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["tokens"]
    training = train(tmp_path / "run", make().double(), [(inputs(40), targets(40))], nn.CrossEntropyLoss())
    row = training.steps.to_dicts()[0]
    assert row["grad_var"] > 0
    assert row["inner_mean"] == pytest.approx(row["grad_norm"] ** 2, rel=1e-9)


def test_dropout_masks_are_those_of_the_pass(tmp_path: Path) -> None:
    """With one sample repeated, only the masks differ: the scatter must be that of the recorded pass."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    model = nn.Sequential(nn.Linear(6, 8), layer, nn.Flatten(), nn.Linear(32, 3)).double()
    batches = [(torch.randn(5, 4, 6, dtype=torch.float64), torch.randint(0, 3, (5,)))]
    row = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss()).steps.to_dicts()[0]
    assert row["inner_mean"] == pytest.approx(row["grad_norm"] ** 2, rel=1e-9)


def test_batch_norm_in_training_mode_has_parts_that_sum_to_the_gradient(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    row = train(
        tmp_path / "run", model, [(vectors(9), torch.randint(0, 3, (9,)))], nn.CrossEntropyLoss()
    ).steps.to_dicts()[0]
    assert row["inner_mean"] == pytest.approx(row["grad_norm"] ** 2, rel=1e-9)
    assert row["grad_var"] > 0


@pytest.mark.parametrize("file", sorted(VALUES.glob("*-sgd.json")), ids=lambda file: file.stem)
def test_signal_to_noise_equals_cockpits_with_its_epsilon(file: Path, tmp_path: Path) -> None:
    reference = json.loads(file.read_text())
    training = reference_training(tmp_path / "run", reference)
    batch = reference["batch_size"]
    for step, expected in reference["values_per_step"].items():
        x = torch.tensor(reference["inputs"][int(step)], dtype=torch.float64)
        y = torch.tensor(reference["targets"][int(step)])
        gradients = individual_gradients(training.model, training.parameters[int(step)], x, y)
        biased, unbiased, count = 0.0, 0.0, 0.0
        for gradient in gradients:
            moments = SecondMoments(0, (gradient / batch).square().sum(0), None, batch)
            biased += scatter(moments, gradient.mean(0), batch, eps=1e-5)[1].item()
            # Cockpit adds its epsilon to the variance with 1/(B-1) here, and with 1/B above
            shrunk = 1e-5 * (batch - 1) / batch
            unbiased += scatter(moments, gradient.mean(0), batch, eps=shrunk)[1].item() * (batch - 1) / batch
            count += gradient[0].numel()
        assert biased / count == pytest.approx(expected["MeanGSNR"], rel=1e-9)
        assert 1 - batch * unbiased / count == pytest.approx(expected["EarlyStopping"], rel=1e-9)


class Alternating(nn.Module):
    """Two layers with one weight: both run in the first pass, only the second in later ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 3), nn.Linear(6, 3)
        self.second.weight = self.first.weight
        self.both = True

    def forward(self, x: Tensor) -> Tensor:
        both, self.both = self.both, False
        return self.first(x) + self.second(x) if both else self.second(x)


def test_of_layers_with_a_tied_weight_only_those_that_ran_are_measured(tmp_path: Path) -> None:
    model, batches = Alternating().double(), [(vectors(5), torch.randint(0, 3, (5,))) for _ in range(2)]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss())
    found = {r["tensor"]: r["grad_var"] for r in read(training.path, "layers").filter(step=1).to_dicts()}
    gradients = individual_gradients(model, training.parameters[1], *batches[1])
    expected = [g.flatten(1).var(0).sum().item() for g in gradients]
    assert found["first.weight"] == pytest.approx(expected[0], rel=1e-5)
    assert found["first.bias"] is None
    assert found["second.bias"] == pytest.approx(expected[2], rel=1e-5)
