"""Individual losses against losses of one sample at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from recorder.losses import LossWatch, individual_losses, principal_target, sample_count


def individual(loss: Callable[[], Tensor], shape: tuple[int, ...]) -> tuple[Tensor | None, str]:
    with LossWatch() as watch:
        total = loss()
    assert len(watch.calls) == 1
    return individual_losses(watch.calls[0], total, [shape])


def prediction(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


CASES: dict[str, tuple[nn.Module, tuple[int, ...], Callable[[], Tensor]]] = {
    "cross entropy": (nn.CrossEntropyLoss(), (6, 4), lambda: torch.randint(0, 4, (6,))),
    "label smoothing": (nn.CrossEntropyLoss(label_smoothing=0.1), (6, 4), lambda: torch.randint(0, 4, (6,))),
    "tokens": (nn.CrossEntropyLoss(), (6, 4, 5), lambda: torch.randint(0, 4, (6, 5))),
    "squared error": (nn.MSELoss(), (6, 3), lambda: torch.randn(6, 3, dtype=torch.float64)),
    "squared error of numbers": (nn.MSELoss(), (6,), lambda: torch.randn(6, dtype=torch.float64)),
    "binary": (nn.BCEWithLogitsLoss(), (6, 3), lambda: torch.rand(6, 3, dtype=torch.float64)),
    "huber": (nn.HuberLoss(), (6, 2), lambda: torch.randn(6, 2, dtype=torch.float64)),
    "absolute error": (nn.L1Loss(), (6, 2), lambda: torch.randn(6, 2, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_loss_is_that_of_its_sample_alone(name: str) -> None:
    torch.manual_seed(0)
    loss_fn, shape, target = CASES[name]
    x, y = prediction(*shape), target()
    losses, reason = individual(lambda: loss_fn(x, y), shape)
    assert reason == ""
    alone = torch.stack([loss_fn(x[i : i + 1], y[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(losses, alone.detach(), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    "options",
    [{"weight": torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64)}, {"ignore_index": 1}, {"reduction": "sum"}],
    ids=["class weights", "ignored targets", "sum"],
)
def test_their_mean_is_the_loss_and_their_ratios_those_of_the_elements(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    x, y = prediction(6, 4), torch.tensor([0, 1, 2, 3, 0, 2])
    loss = F.cross_entropy(x, y, **options)  # type: ignore[arg-type]
    losses, _ = individual(lambda: F.cross_entropy(x, y, **options), (6, 4))  # type: ignore[arg-type]
    assert losses is not None
    assert losses.mean().item() == pytest.approx(loss.item(), rel=1e-12)
    elements = F.cross_entropy(x, y, **{**options, "reduction": "none"})  # type: ignore[arg-type]
    torch.testing.assert_close(losses / losses.sum(), (elements / elements.sum()).detach())


@given(st.floats(0.01, 100.0), st.floats(-10.0, 10.0))
def test_what_is_multiplied_scales_them_and_what_is_added_shifts_them(factor: float, penalty: float) -> None:
    x, y = prediction(6, 4), torch.randint(0, 4, (6,))
    plain, _ = individual(lambda: F.cross_entropy(x, y), (6, 4))
    added = torch.tensor(penalty, dtype=torch.float64)
    changed, _ = individual(lambda: factor * F.cross_entropy(x, y) / 2 + added, (6, 4))
    assert plain is not None
    torch.testing.assert_close(changed, plain * factor / 2 + penalty, rtol=1e-6, atol=1e-6)


def test_what_adds_up_along_several_ways_does() -> None:
    x, y = prediction(6, 4), torch.randint(0, 4, (6,))
    plain, _ = individual(lambda: F.cross_entropy(x, y), (6, 4))

    def twice() -> Tensor:
        loss = F.cross_entropy(x, y)
        return loss + 0.5 * loss

    changed, _ = individual(twice, (6, 4))
    assert plain is not None
    torch.testing.assert_close(changed, 1.5 * plain)


def test_a_loss_made_otherwise_has_none_and_a_reason() -> None:
    x, y = prediction(6, 4), torch.randint(0, 4, (6,))
    losses, reason = individual(lambda: F.cross_entropy(x, y).exp(), (6, 4))
    assert losses is None
    assert "no multiple of the one call of cross_entropy" in reason


def test_all_zero_losses_stay_zero() -> None:
    x = prediction(4, 2)
    losses, _ = individual(lambda: F.mse_loss(x, x.detach().clone()), (4, 2))
    assert losses is not None
    assert losses.tolist() == [0.0] * 4


def test_watching_changes_neither_value_nor_random_numbers() -> None:
    x, y = prediction(6, 4), torch.randint(0, 4, (6,))
    state = torch.get_rng_state()
    with LossWatch():
        watched = F.cross_entropy(x, y)
    assert torch.equal(watched, F.cross_entropy(x, y))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("losses", "inputs", "count"),
    [
        ((8,), [(8, 3)], 8),
        ((40,), [(8, 5)], 8),
        ((8, 5), [(8, 5)], 8),
        ((8,), [(5, 8, 3)], 8),
        ((7,), [(8, 3)], None),
        ((), [(8, 3)], None),
        ((8,), [], 8),
        ((0,), [(0, 3)], None),
        ((16,), [(2, 40), (16, 5)], 16),
    ],
)
def test_sample_count(losses: tuple[int, ...], inputs: list[tuple[int, ...]], count: int | None) -> None:
    assert sample_count(losses, inputs) == count


@pytest.mark.parametrize("share", [0.2, 0.8, 1.0])
def test_of_targets_that_are_mixed_the_heavier_counts(share: float) -> None:
    x, one, other = prediction(6, 4), torch.zeros(6, dtype=torch.long), torch.ones(6, dtype=torch.long)
    with LossWatch() as watch:
        loss = share * F.cross_entropy(x, one) + (1 - share) * F.cross_entropy(x, other)
    target = principal_target(loss, watch.calls)
    assert target is not None
    assert target.tolist() == (one if share > 0.5 else other).tolist()


def test_losses_of_several_predictions_have_no_principal_target() -> None:
    x, y, target = prediction(6, 4), prediction(6, 4), torch.zeros(6, dtype=torch.long)
    with LossWatch() as watch:
        loss = F.cross_entropy(x, target) + F.cross_entropy(y, target)
    assert principal_target(loss, watch.calls) is None
    with LossWatch() as watch:
        loss = F.cross_entropy(x, target)
    assert principal_target(loss, watch.calls) is None
