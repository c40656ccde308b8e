"""The Takeuchi information criterion's ingredients against loops over samples, classes and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.models import MODELS, vectors
from support.references import VALUES, reference_training
from support.samples import individual_gradients
from support.trainings import Training, read, train
from torch import Tensor, nn

from recorder.instruments.tic import TakeuchiInformation

NAME = "takeuchi-information"
SETTINGS: dict[str, Any] = {"preset": "business", "instruments": {NAME: 1, "hessian-trace": None}}


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have an instrument run over all unit vectors of a sample's prediction instead of a few random signs.

    The mean over the draws is then the sum over the outputs: the diagonal itself.
    """

    def over(outputs: int) -> None:
        units = torch.eye(outputs, dtype=torch.float64) * outputs**0.5
        drawn: Iterator[Tensor] = iter([])

        def signs(_: TakeuchiInformation, like: Tensor) -> Tensor:
            nonlocal drawn
            unit = next(drawn, None)
            if unit is None:
                drawn = iter(units)
                unit = next(drawn)
            return unit.reshape(1, *like.shape[1:]).expand(like.shape)

        monkeypatch.setattr(TakeuchiInformation, "DRAWS", outputs)
        monkeypatch.setattr(TakeuchiInformation, "_signs", signs)

    return over


def gauss_newton_diagonal(model: nn.Module, parameters: list[Tensor], x: Tensor) -> list[Tensor]:
    """Of the mean cross entropy: for each prediction, squared gradients of all classes weighed by probability."""
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(value)
    moving = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in moving]
    for sample in x.split(1):
        losses = -F.log_softmax(model(sample), 1).movedim(1, -1).reshape(-1, model(sample).shape[1])
        for loss in losses.flatten():
            found = torch.autograd.grad(loss, moving, retain_graph=True, allow_unused=True, materialize_grads=True)
            share = torch.exp(-loss.detach()) / len(losses) / len(x)
            sums = [total + share * gradient.square() for total, gradient in zip(sums, found, strict=True)]
    ready = iter(sums)
    return [next(ready) if p.requires_grad else torch.zeros_like(p) for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_all_of_it_equals_a_loop_over_samples_and_classes(
    name: str, tmp_path: Path, exact: Callable[[int], None]
) -> None:
    make, inputs, targets = MODELS[name]
    torch.manual_seed(0)
    model, x, y = make().double(), inputs(4), targets(4)
    exact(int(model(x)[0].numel()))
    training = train(tmp_path / "run", model, [(x, y)] * 2, nn.CrossEntropyLoss(), **SETTINGS)
    assert not [reason for reason in training.reasons() if "tic_sum" in reason]
    check(training, x, y)


def check(training: Training, x: Tensor, y: Tensor) -> None:
    model = training.model
    layers = {(row["step"], row["tensor"]): row for row in read(training.path, "layers").to_dicts()}
    for step in range(2):
        diagonals = gauss_newton_diagonal(model, training.parameters[step], x)
        squares = [g.square().mean(0) for g in individual_gradients(model, training.parameters[step], x, y)]
        rows, count, trace, ratio = {}, 0, 0.0, 0.0
        for (name, _), h, square in zip(model.named_parameters(), diagonals, squares, strict=True):
            above = h > 1e-20 * h.max()
            rows[name] = (square.sum().item(), h.sum().item(), (square[above] / h[above]).sum().item(), above.sum())
            count, trace, ratio = count + int(rows[name][3]), trace + rows[name][1], ratio + rows[name][2]
        row = training.steps.to_dicts()[step]
        assert row["ggn_trace"] == pytest.approx(trace, rel=1e-9)
        assert row["tic_sum"] == pytest.approx(ratio, rel=1e-6)
        assert row["tic_count"] == count
        for name, (square, trace, ratio, above) in rows.items():
            if (found := layers[step, name])["tic_count"] is not None:
                assert found["grad_square"] == pytest.approx(square, rel=1e-5)
                assert found["ggn_trace"] == pytest.approx(trace, rel=1e-5)
                assert found["tic_sum"] == pytest.approx(ratio, rel=1e-5)
                assert found["tic_count"] == above


def test_it_equals_cockpits_where_the_hessian_is_the_gauss_newton_matrix(
    tmp_path: Path, exact: Callable[[int], None]
) -> None:
    """Softmax regression. Cockpit adds 1e-7 to each entry of the diagonal."""
    reference = json.loads((VALUES / "logreg-sgd.json").read_text())
    exact(4)
    rows = reference_training(tmp_path / "run", reference, **SETTINGS).steps.to_dicts()
    for step, expected in reference["values_per_step"].items():
        assert rows[int(step)]["ggn_trace"] == pytest.approx(sum(expected["HessTrace"]), rel=1e-9)
        assert rows[int(step)]["tic_sum"] == pytest.approx(expected["TICDiag"], rel=1e-4)


def test_the_estimate_scatters_around_the_exact_value(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    x, y = vectors(64), torch.randint(0, 4, (64,))
    training = train(
        tmp_path / "run", model, [(x, y)] * 40, nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, 0.0), **SETTINGS
    )
    steps = training.steps
    diagonal = gauss_newton_diagonal(model, training.parameters[0], x)
    squares = [g.square().mean(0) for g in individual_gradients(model, training.parameters[0], x, y)]
    trace = sum(h.sum().item() for h in diagonal)
    assert abs(steps["ggn_trace"].mean() - trace) < 4 * steps["ggn_trace"].std() / 40**0.5
    assert steps["ggn_trace"].std() < 0.2 * trace
    exact_sum = sum((square / h).sum().item() for square, h in zip(squares, diagonal, strict=True))
    assert steps["tic_sum"].median() == pytest.approx(exact_sum, rel=0.25)


def test_it_is_the_same_for_any_micro_batches_and_reduction(tmp_path: Path, exact: Callable[[int], None]) -> None:
    torch.manual_seed(0)
    make, inputs, targets = MODELS["mlp"]
    model, batch = make().double(), (inputs(6), targets(6))
    exact(3)
    columns = ["ggn_trace", "tic_sum", "tic_count"]

    def row(where: str, batches: Any, loss_fn: Callable[..., Tensor]) -> dict[str, float]:
        training = train(tmp_path / where, model, batches, loss_fn, lambda p: torch.optim.SGD(p, lr=0.0), **SETTINGS)
        return training.steps.select(columns).row(0, named=True)

    once = row("once", [batch], nn.CrossEntropyLoss())
    assert row("parts", [[batch, batch]], nn.CrossEntropyLoss()) == pytest.approx(once, rel=1e-12)
    summed = row("summed", [batch], lambda z, y: F.cross_entropy(z, y, reduction="sum") / 6)
    assert summed == pytest.approx(once, rel=1e-12)
    none = row("none", [batch], lambda z, y: F.cross_entropy(z, y, reduction="none").mean())
    assert none == pytest.approx(once, rel=1e-12)


LINEAR = lambda: nn.Linear(6, 3).double()  # noqa: E731


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda z, y: F.l1_loss(z, z.detach().round()), "no rule"),
        (lambda z, y: z.square().mean(), "no known loss function"),
        (lambda z, y: F.cross_entropy(z, y) + z.square().mean(), "more than a sum"),
    ],
)
def test_where_there_is_none_the_reason_is_told(
    loss: Callable[[Tensor, Tensor], Tensor], reason: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    batches = [(vectors(5), torch.randint(0, 3, (5,)))]
    training = train(tmp_path / "run", LINEAR(), batches, loss, **SETTINGS)
    assert training.steps["tic_sum"].to_list() == training.steps["ggn_trace"].to_list() == [None]
    assert any("steps.tic_sum" in each and reason in each for each in training.reasons())
    assert training.steps["grad_norm"][0] > 0


def test_a_loss_that_is_maximised_has_no_positive_curvature(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(vectors(5), torch.randint(0, 3, (5,)))]
    row = train(tmp_path / "run", LINEAR(), batches, lambda z, y: -F.cross_entropy(z, y), **SETTINGS).steps.to_dicts()[
        0
    ]
    assert row["tic_count"] == 0
    assert not row["ggn_trace"] > 0


def test_what_it_holds_counts_towards_the_limit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 3)).double()
    batches = [(vectors(32), torch.randint(0, 3, (32,))) for _ in range(4)]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), probe_memory=45_000, **SETTINGS)
    steps = training.steps
    assert any("MiB" in reason for reason in training.reasons())
    assert steps["tic_sum"][0] is None
    assert steps["tic_sum"][-1] > 0
    assert steps["individual_count"][-1] < 32


def test_gradients_of_the_user_are_not_touched(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)).double()
    seen = []
    model[0].weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    batches = [(vectors(5), torch.randint(0, 3, (5,)))]
    training = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), **SETTINGS)
    assert training.steps["tic_sum"][0] > 0
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], model[0].weight.grad, rtol=0, atol=0)


class UsedTwice(nn.Module):
    """Its weight is used also outside the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + torch.tanh(x @ self.layer.weight.T)


def test_where_the_layers_do_not_tell_the_whole_gradient_nothing_is_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(vectors(8), torch.randint(0, 3, (8,)))]
    training = train(tmp_path / "run", UsedTwice().double(), batches, nn.CrossEntropyLoss(), **SETTINGS)
    assert training.steps.select("ggn_trace", "tic_sum", "tic_count").row(0) == (None,) * 3
    layers = read(training.path, "layers")
    assert layers.select("grad_square", "ggn_trace", "tic_sum", "tic_count").null_count().row(0) == (2,) * 4
    assert layers["grad_norm"].is_not_null().all()
