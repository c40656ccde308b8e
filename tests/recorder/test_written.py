"""Losses written out in elementary operations, against torch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from recorder.losses import LossWatch, individual_losses, part_of

Formula = Callable[[Tensor, Tensor], Tensor]

SQUARES: dict[str, tuple[Formula, float]] = {
    "a power": (lambda p, t: ((p - t) ** 2).mean(), 1.0),
    "the other way round": (lambda p, t: (t - p).pow(2).mean(), 1.0),
    "functions": (lambda p, t: torch.mean(torch.square(torch.sub(p, t))), 1.0),
    "itself times itself": (lambda p, t: (lambda d: (d * d).mean())(p - t), 1.0),
    "half": (lambda p, t: 0.5 * ((p - t) ** 2).mean(), 0.5),
    "half before the mean": (lambda p, t: ((p - t) ** 2 / 2).mean(), 0.5),
    "a sum over outputs": (lambda p, t: ((p - t) ** 2).sum(1).mean(), 3.0),
    "a sum over all": (lambda p, t: ((p - t) ** 2).sum() / len(p), 3.0),
    "negated": (lambda p, t: -((p - t) ** 2).mean(), -1.0),
}


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True) * 1.5


@pytest.mark.parametrize("name", SQUARES)
def test_a_squared_error_is_one_however_it_is_written(name: str) -> None:
    formula, factor = SQUARES[name]
    prediction, target = made(6, 3), torch.randn(6, 3, dtype=torch.float64)
    with LossWatch() as watch:
        loss = formula(prediction, target)
    (call,) = watch.take(loss)
    assert call.name == "mse_loss"
    assert call.prediction is not None
    assert torch.equal(call.prediction, prediction)
    assert call.target is target or (call.target is not None and torch.equal(call.target, target))
    assert loss.item() == pytest.approx(factor * F.mse_loss(prediction, target).item(), rel=1e-12)
    each, reason = individual_losses(call, loss, [(6, 3)])
    assert each is not None, reason
    torch.testing.assert_close(each, factor * ((prediction - target) ** 2).mean(1).detach(), rtol=1e-10, atol=0)


def test_an_absolute_error() -> None:
    prediction, target = made(6, 3), torch.randn(6, 3, dtype=torch.float64)
    with LossWatch() as watch:
        loss = torch.abs(target - prediction).mean()
    assert [call.name for call in watch.take(loss)] == ["l1_loss"]


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, y: -F.log_softmax(x, 1).gather(1, y[:, None]).mean(),
        lambda x, y: -x.log_softmax(-1)[torch.arange(len(y)), y].mean(),
        lambda x, y: (-torch.log_softmax(x, dim=1)[range(len(y)), y]).mean(),
        lambda x, y: x.log_softmax(1).gather(1, y.unsqueeze(1)).squeeze(1).neg().mean(),
    ],
    ids=["gather", "rows", "range", "squeezed"],
)
def test_a_cross_entropy_by_log_softmax(formula: Formula) -> None:
    x, y = made(6, 4), torch.randint(0, 4, (6,))
    with LossWatch() as watch:
        loss = formula(x, y)
    (call,) = watch.take(loss)
    assert call.name == "nll_loss"
    assert call.target is not None
    assert torch.equal(call.target, y)
    each, reason = individual_losses(call, loss, [(6, 4)])
    assert each is not None, reason
    torch.testing.assert_close(each, F.cross_entropy(x, y, reduction="none").detach(), rtol=1e-10, atol=0)


def test_a_minus_that_was_forgotten_makes_a_negative_loss() -> None:
    x, y = made(6, 4), torch.randint(0, 4, (6,))
    with LossWatch() as watch:
        loss = x.log_softmax(1).gather(1, y[:, None]).mean()
    each, _ = individual_losses(watch.take(loss)[0], loss, [(6, 4)])
    assert each is not None
    torch.testing.assert_close(each, -F.cross_entropy(x, y, reduction="none").detach(), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, y: -(x.log_softmax(1).gather(1, y[:, None]) * torch.rand(6, 1, dtype=torch.float64)).mean(),
        lambda x, _: ((x - x.roll(1, 0)) ** 2).mean(),
        lambda x, _: ((x - 1.0) ** 2).mean(),
        lambda x, _: (x - torch.zeros(6, 4, dtype=torch.float64)).pow(4).mean(),
        lambda x, _: (x - torch.zeros(6, 4, dtype=torch.float64)).mean(),
        lambda x, _: (x.abs() * 2).sum(),
    ],
    ids=["policy gradient", "two predictions", "no target", "fourth power", "plain difference", "penalty"],
)
def test_what_is_no_such_loss_is_taken_for_none(formula: Formula) -> None:
    with LossWatch() as watch:
        loss = formula(made(6, 4), torch.randint(0, 4, (6,)))
    assert watch.take(loss) == []


def test_a_penalty_that_draws_parameters_to_where_they_were_is_none() -> None:
    weight = torch.nn.Parameter(torch.randn(6, 4))
    anchor = weight.detach().clone()
    with LossWatch() as watch:
        loss = ((weight - anchor) ** 2).sum()
    assert watch.take(loss) == []


def test_shapes_that_broadcast_are_seen_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    prediction, target = made(6, 1), torch.randn(6, dtype=torch.float64)
    with LossWatch() as watch:
        loss = ((prediction - target) ** 2).mean()
    (call,) = watch.take(loss)
    each, _ = individual_losses(call, loss, [(6, 4)])
    assert call.prediction is not None
    assert call.target is not None
    assert (call.prediction.shape, call.target.shape) == ((6, 1), (6,))
    assert each is not None
    assert not [warning for warning in recwarn if "broadcast" in str(warning.message) or "size" in str(warning.message)]


def test_errors_that_only_a_metric_is_made_of_are_none() -> None:
    x, y = made(6, 4), torch.randn(6, 4, dtype=torch.float64)
    with LossWatch() as watch:
        ((x - y) ** 2).mean()
        loss = x.pow(4).mean()
    assert watch.take(loss) == []


def test_a_root_of_a_mean_is_seen_but_makes_no_individual_losses() -> None:
    x, y = made(6, 4), torch.randn(6, 4, dtype=torch.float64)
    with LossWatch() as watch:
        loss = ((x - y) ** 2).mean().sqrt()
    (call,) = watch.take(loss)
    assert call.name == "mse_loss"
    assert individual_losses(call, loss, [(6, 4)])[0] is None
    assert part_of(loss, [call]) is None


def test_the_part_of_a_loss_that_was_seen() -> None:
    x, y = made(6, 4), torch.randint(0, 4, (6,))
    target = torch.randn(6, 4, dtype=torch.float64)
    with LossWatch() as watch:
        first, second = F.cross_entropy(x, y), F.mse_loss(x, target)
        loss = 2 * first + second / 4 - 0.1 * x.pow(4).sum()
    part = part_of(loss, watch.take(loss))
    assert part is not None
    assert part.item() == pytest.approx(2 * first.item() + second.item() / 4, rel=1e-12)
    with LossWatch() as watch:
        loss = F.cross_entropy(x, y).exp()
    assert part_of(loss, watch.take(loss)) is None


@pytest.mark.parametrize("written", [False, True])
def test_the_part_of_a_loss_that_was_reduced_afterwards(written: bool) -> None:
    """As of a variational autoencoder: unreduced terms are summed over pixels, added, and averaged over samples."""
    x, y, z = made(6, 4, 2), torch.rand(6, 4, 2, dtype=torch.float64), made(6, 2)
    with LossWatch() as watch:
        errors = (y - x).square() / 0.02 if written else F.binary_cross_entropy_with_logits(x, y, reduction="none")
        loss = (errors.sum(dim=(1, 2)) + 2 * z.pow(4).sum(1)).mean() / 5
    part = part_of(loss, watch.take(loss))
    assert part is not None
    assert part.item() == pytest.approx(errors.sum(dim=(1, 2)).mean().item() / 5, rel=1e-12)


def test_a_part_that_was_repeated_or_weighed_entry_by_entry_is_not_known() -> None:
    x, y, z = made(6), torch.randn(6, dtype=torch.float64), made(6, 1)
    with LossWatch() as watch:
        errors = F.mse_loss(x, y, reduction="none")
        repeated, weighted = (errors + z**4).mean(), (errors * torch.arange(6)).mean()
    (call,) = watch.take(repeated)
    assert part_of(repeated, [call]) is None
    assert part_of(weighted, [call]) is None


def test_views_that_are_to_find_each_other() -> None:
    similarity = made(6, 6)
    with LossWatch() as watch:
        loss = -F.log_softmax(similarity, 1).diagonal().mean()
    (call,) = watch.take(loss)
    assert (call.name, call.arguments["reduction"]) == ("nll_loss", "mean")
    assert loss.item() == pytest.approx(F.cross_entropy(similarity, torch.arange(6)).item(), rel=1e-12)
    assert call.target is not None
    assert call.target.tolist() == list(range(6))


def focal(p: Tensor, t: Tensor) -> Tensor:
    return -(t * p.sigmoid().log() * (1 - p.sigmoid()) + (1 - t) * (1 - p.sigmoid()).log() * p.sigmoid()).mean()


@pytest.mark.parametrize("rest", [(), (4, 5)])
def test_predictions_and_targets_that_are_broadcast_to_more_are_told_of_any_formula(rest: tuple[int, ...]) -> None:
    column, row = made(6, 1, *rest), torch.rand(6, *rest, dtype=torch.float64)
    with LossWatch() as watch:
        loss = focal(column, row)
    assert watch.take(loss) == []
    assert watch.pairs is not None
    assert [tuple(tensor.shape) for tensor in watch.pairs] == [(6, 1, *rest), (6, *rest)]
    for prediction, target in ((column.squeeze(1), row), (column, row[:, None]), (made(1, *rest), row)):
        with LossWatch() as watch:
            loss = focal(prediction, target)
        watch.take(loss)
        assert watch.pairs is None
