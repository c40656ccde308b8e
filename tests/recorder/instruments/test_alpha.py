"""Slopes along the update against Cockpit's values and against a loop over samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.models import MODELS, vectors
from support.references import VALUES, reference_training
from support.trainings import Training, projections, read, train
from torch import Tensor, nn


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.json")), ids=lambda file: file.stem)
def test_ingredients_equal_cockpits(file: Path, tmp_path: Path) -> None:
    reference = json.loads(file.read_text())
    rows = reference_training(tmp_path / "run", reference).steps.to_dicts()
    assert [row["loss"] for row in rows] == pytest.approx(reference["losses"], rel=1e-10)
    for here, there, fit in zip(rows, rows[1:], reference["alpha_fit_per_step"], strict=False):
        t = here["update_norm"]
        assert t == pytest.approx(fit["t"], rel=1e-10)
        assert [here["loss"], there["loss"]] == pytest.approx(fit["f"], rel=1e-10)
        assert [here["start_slope"] / t, there["end_slope"] / t] == pytest.approx(fit["df"], rel=1e-10)
        assert [here["loss_var"], there["loss_var"]] == pytest.approx(fit["var_f"], rel=1e-10)
        assert [here["start_slope_var"] / t**2, there["end_slope_var"] / t**2] == pytest.approx(
            fit["var_df"], rel=1e-10
        )
        assert there["end_slope_total"] == pytest.approx(there["end_slope"], rel=1e-10)


def test_reference_values_are_all_there() -> None:
    assert len(list(VALUES.glob("*.json"))) == 9


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch_size", [7, 5, 2])
def test_slopes_equal_a_loop_over_samples(name: str, batch_size: int, tmp_path: Path) -> None:
    make, inputs, targets = MODELS[name]
    torch.manual_seed(0)
    model = make().double()
    batches = [(inputs(batch_size), targets(batch_size)) for _ in range(3)]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), lambda p: torch.optim.Adam(p, lr=0.01))
    check_against_loop(training, model, batches)


def check_against_loop(training: Training, model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> None:
    assert not [reason for reason in training.reasons() if "slope" in reason]
    rows = training.steps.to_dicts()
    for step, (x, y) in enumerate(batches):
        losses = individually(x, y)
        start = projections(model, training.parameters[step], losses, training.update(step))
        assert rows[step]["start_slope"] == pytest.approx(start.mean().item(), rel=1e-9, abs=1e-14)
        assert rows[step]["start_slope_var"] == pytest.approx(start.var().item(), rel=1e-9, abs=1e-14)
        if step:
            end = projections(model, training.parameters[step], losses, training.update(step - 1))
            assert rows[step]["end_slope"] == pytest.approx(end.mean().item(), rel=1e-9, abs=1e-14)
            assert rows[step]["end_slope_var"] == pytest.approx(end.var().item(), rel=1e-9, abs=1e-14)
            assert rows[step]["end_slope_total"] == pytest.approx(end.mean().item(), rel=1e-9, abs=1e-14)
        each = torch.stack([loss.detach() for loss in losses(model)])
        assert rows[step]["loss_var"] == pytest.approx(each.var().item(), rel=1e-9)


def individually(x: Tensor, y: Tensor) -> Callable[[nn.Module], Iterator[Tensor]]:
    def losses(model: nn.Module) -> Iterator[Tensor]:
        for i in range(len(x)):
            yield F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])

    return losses


def test_micro_batches_add_up_to_the_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    model = make().double()
    whole = [(inputs(8), targets(8)) for _ in range(3)]
    parts = [[(x[:4], y[:4]), (x[4:], y[4:])] for x, y in whole]
    training = train(tmp_path / "run", model, parts, nn.CrossEntropyLoss())
    check_against_loop(training, model, whole)


def test_dropout_is_replayed_with_its_mask(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    model = nn.Sequential(nn.Linear(6, 8), layer, nn.Flatten(), nn.Linear(32, 3)).double()
    batches = [(torch.randn(5, 4, 6, dtype=torch.float64), torch.randint(0, 3, (5,))) for _ in range(3)]
    steps = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss()).steps[1:]
    assert steps["end_slope"].to_list() == pytest.approx(steps["end_slope_total"].to_list(), rel=1e-9)


def test_batch_norm_in_training_mode_shows_each_samples_part_of_the_batch_gradient(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    batches = [(vectors(9), torch.randint(0, 3, (9,))) for _ in range(3)]
    steps = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss()).steps[1:]
    assert steps["end_slope"].to_list() == pytest.approx(steps["end_slope_total"].to_list(), rel=1e-9)
    assert steps["end_slope_var"].is_not_null().all()


def penalised(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction, target) + 0.1 * sum(p.square().sum() for p in model.parameters())

    return loss


class Tied(nn.Module):
    """Uses the weight of its layer outside that layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.layer(x)), self.layer.weight)


def with_changed_gradients() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[0].weight.register_hook(lambda gradient: -gradient)
    return model


@pytest.mark.parametrize(
    ("make", "loss"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 6)), penalised),
        (Tied, lambda _: nn.CrossEntropyLoss()),
        (with_changed_gradients, lambda _: nn.CrossEntropyLoss()),
    ],
    ids=["a penalty", "a weight used elsewhere", "a changed gradient"],
)
def test_what_the_layers_do_not_tell_is_null_with_the_reason(
    make: Callable[[], nn.Module], loss: Callable[[nn.Module], Callable[..., Tensor]], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = make().double()
    batches = [(vectors(8), torch.randint(0, 6, (8,))) for _ in range(4)]
    training = train(tmp_path / "run", model, batches, loss(model))
    for column in ("end_slope", "inner_mean", "grad_var", "gsnr_sum"):
        assert training.steps[column].is_null().all(), column
    assert training.steps["start_slope"][:3].is_null().all()
    assert training.steps["loss_var"].is_not_null().all()
    assert any("do not add up to the gradient" in reason for reason in training.reasons())


def test_beyond_its_memory_a_probe_keeps_the_first_samples(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 4)).double()
    batches = [(torch.randn(64, 1, 8, 8, dtype=torch.float64), torch.randint(0, 4, (64,))) for _ in range(8)]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), probe_memory=250_000)
    row = training.steps.to_dicts()[-1]
    assert 1 < row["slope_count"] < 64
    x, y = batches[-1]
    kept = row["slope_count"]
    start = projections(model, training.parameters[-2], individually(x[:kept], y[:kept]), training.update(7))
    assert row["start_slope"] == pytest.approx(start.mean().item(), rel=1e-9)
    assert row["start_slope_var"] == pytest.approx(start.var().item(), rel=1e-9)
    assert any("of the samples" in reason for reason in training.reasons())


def test_without_memory_for_one_sample_there_are_no_slopes_and_training_goes_on(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    batches = [(inputs(8), targets(8)) for _ in range(8)]
    training = train(tmp_path / "run", make().double(), batches, nn.CrossEntropyLoss(), probe_memory=1)
    assert training.steps["start_slope"].is_null().all()
    assert training.steps["loss"].is_not_null().all()
    assert any("no more are made" in reason for reason in training.reasons())


def test_a_single_sample_has_slopes_but_no_variance(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    training = train(
        tmp_path / "run", make().double(), [(inputs(1), targets(1)) for _ in range(3)], nn.CrossEntropyLoss()
    )
    steps = training.steps
    assert steps["start_slope"].is_not_null().all()
    assert steps["start_slope_var"].is_null().all()


def test_a_parameter_that_joins_late_is_planned_for(tmp_path: Path) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.calls = nn.Linear(6, 6), nn.Linear(6, 6), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            x = self.first(x)
            return self.second(x) if self.calls > 2 else x

    torch.manual_seed(0)
    batches = [(vectors(8), torch.randint(0, 6, (8,))) for _ in range(6)]
    steps = train(tmp_path / "run", Late().double(), batches, nn.CrossEntropyLoss()).steps
    assert steps["end_slope"][2] is None
    assert steps["end_slope"].to_list()[4:] == pytest.approx(steps["end_slope_total"].to_list()[4:], rel=1e-9)


def test_clipping_shortens_the_update_but_not_the_individual_gradients(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    model = make().double()
    batches = [(inputs(8), targets(8)) for _ in range(3)]
    training = train(
        tmp_path / "run",
        model,
        batches,
        nn.CrossEntropyLoss(),
        between=lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.01),
    )
    check_against_loop(training, model, batches)
    steps = training.steps
    assert (steps["grad_norm_clipped"] < 0.0100001).all()
    assert (steps["grad_norm"] > 0.02).all()
    assert read(training.path, "layers")["grad_norm_clipped"].is_not_null().all()
