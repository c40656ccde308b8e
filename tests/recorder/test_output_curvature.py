"""The random gradients of a loss in its prediction against its Hessian there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from recorder.losses import LossCall, LossWatch
from recorder.output_curvature import NoCurvature, influences, random_gradient

CLASSES = torch.tensor([0, 2, 1, 2])
TOKENS = torch.tensor([[0, 1], [2, 2], [1, 0], [2, 1]])
WEIGHTS = torch.tensor([0.5, 2.0, 1.5], dtype=torch.float64)
LABELS = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.2], [0.0, 0.0, 1.0]], dtype=torch.float64)
NUMBERS = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(4, 3)
Loss = Callable[[Tensor], Tensor]

FLAT: dict[str, Loss] = {
    "cross entropy": lambda z: F.cross_entropy(z, CLASSES),
    "summed": lambda z: F.cross_entropy(z, CLASSES, reduction="sum"),
    "class weights": lambda z: F.cross_entropy(z, CLASSES, weight=WEIGHTS),
    "ignored targets": lambda z: F.cross_entropy(z, CLASSES, ignore_index=2),
    "smoothed labels": lambda z: F.cross_entropy(z, CLASSES, label_smoothing=0.2),
    "all at once": lambda z: F.cross_entropy(z, CLASSES, weight=WEIGHTS, ignore_index=1, label_smoothing=0.3),
    "soft targets": lambda z: F.cross_entropy(z, LABELS.softmax(1), weight=WEIGHTS, label_smoothing=0.1),
    "weighed by hand": lambda z: (F.cross_entropy(z, CLASSES, reduction="none") * torch.arange(4.0)).sum() / 3,
    "one sample": lambda z: F.cross_entropy(z[0], CLASSES[1]),
    "log-probabilities": lambda z: F.nll_loss(F.log_softmax(z, -1), CLASSES, weight=WEIGHTS, ignore_index=0),
    "logits": lambda z: F.binary_cross_entropy_with_logits(z, LABELS),
    "weighed logits": lambda z: F.binary_cross_entropy_with_logits(z, LABELS, WEIGHTS, pos_weight=WEIGHTS + 1),
    "squares": lambda z: F.mse_loss(z, NUMBERS),
    "summed squares": lambda z: F.mse_loss(z, NUMBERS, reduction="sum") / 8,
    "broadcast squares": lambda z: F.mse_loss(z[:, :1], NUMBERS[0]),
    "huber": lambda z: F.huber_loss(z, NUMBERS, delta=0.7),
    "smooth": lambda z: F.smooth_l1_loss(z, NUMBERS, beta=0.7),
    "two losses": lambda z: F.cross_entropy(z, CLASSES) + 0.5 * F.mse_loss(z, NUMBERS) / 3,
}
TOKENWISE: dict[str, Loss] = {
    "tokens": lambda z: F.cross_entropy(z.reshape(4, 3, 2), TOKENS, ignore_index=1),
    "flattened tokens": lambda z: F.cross_entropy(z.reshape(8, 3), TOKENS.flatten(), weight=WEIGHTS),
    "log-probabilities of tokens": lambda z: F.nll_loss(
        F.log_softmax(z.reshape(4, 2, 3), -1).view(8, 3), TOKENS.flatten()
    ),
}


def seen(loss: Loss, z: Tensor) -> tuple[Tensor, list[LossCall]]:
    with LossWatch() as watch:
        value = loss(z)
    return value, watch.calls


def unit(element: int) -> Callable[[Tensor], Tensor]:
    """In place of random signs: one at an element, zeros elsewhere."""

    def signs(like: Tensor) -> Tensor:
        one = torch.zeros(like.numel(), dtype=like.dtype)
        one[element : element + 1] = 1
        return one.reshape(like.shape)

    return signs


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", [*FLAT, *TOKENWISE])
def test_over_all_units_their_squares_add_up_to_the_hessian(name: str) -> None:
    loss = FLAT.get(name) or TOKENWISE[name]
    size = 12 if name in FLAT else 24
    z = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = (z.reshape(4, 3) if name in FLAT else z).requires_grad_()
    value, calls = seen(loss, z)
    found = torch.zeros(size, size, dtype=torch.float64)
    for call, weight in influences(value, calls):
        for element in range(call.arguments["input"].numel()):
            gradient = random_gradient(call, weight, unit(element))
            (back,) = torch.autograd.grad(call.arguments["input"], z, gradient, retain_graph=True)
            found += torch.outer(back.flatten(), back.flatten())
    expected = torch.autograd.functional.hessian(loss, z.detach()).reshape(size, size)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_with_random_signs_the_mean_of_the_squares_is_the_hessian_within_standard_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 3, dtype=torch.float64, generator=generator).requires_grad_()
    value, calls = seen(FLAT["all at once"], z)
    ((call, weight),) = influences(value, calls)

    def signs(like: Tensor) -> Tensor:
        return torch.randint(0, 2, like.shape, generator=generator, dtype=like.dtype) * 2 - 1

    drawn = torch.stack([random_gradient(call, weight, signs).flatten() for _ in range(3000)])
    squares = drawn.unsqueeze(2) * drawn.unsqueeze(1)
    expected = torch.autograd.functional.hessian(FLAT["all at once"], z.detach()).reshape(12, 12)
    error = squares.std(0) / len(squares) ** 0.5
    assert ((squares.mean(0) - expected).abs() <= 4.5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda z: F.l1_loss(z, NUMBERS), "no rule"),
        (lambda z: F.cross_entropy(z, CLASSES) + z.square().sum(), "more than a sum"),
        (lambda z: F.cross_entropy(z, CLASSES).exp(), "more than a sum"),
        (lambda z: F.cross_entropy(z, CLASSES) * F.mse_loss(z, NUMBERS), "more than a sum"),
        (lambda z: F.cross_entropy(z, CLASSES) * z.detach().requires_grad_().sum(), "more than a sum"),
        (lambda z: F.nll_loss(z, CLASSES), "log_softmax"),
        (lambda z: F.nll_loss(F.log_softmax(z, 0), CLASSES), "another dimension"),
        (lambda z: F.mse_loss(z, z.roll(1, 0)), "differentiated too"),
        (lambda z: F.mse_loss(z, NUMBERS, size_average=True), "size_average"),
    ],
)
@pytest.mark.filterwarnings("ignore:size_average")
def test_what_has_no_such_hessian_is_refused(loss: Loss, reason: str) -> None:
    value, calls = seen(loss, NUMBERS.clone().requires_grad_())
    with pytest.raises(NoCurvature, match=reason):
        [random_gradient(call, weight, torch.ones_like) for call, weight in influences(value, calls)]


def test_losses_that_are_not_differentiated_do_not_count() -> None:
    z = NUMBERS.clone().requires_grad_()
    with LossWatch() as watch:
        F.l1_loss(z, NUMBERS)
        value = F.mse_loss(z, NUMBERS)
    assert [call.name for call, _ in influences(value, watch.calls)] == ["mse_loss"]


def test_half_precision_predictions_get_gradients_of_their_kind() -> None:
    z = torch.randn(4, 3).bfloat16().requires_grad_()
    value, calls = seen(lambda z: F.cross_entropy(z.float(), CLASSES), z)
    ((call, weight),) = influences(value, calls)
    assert random_gradient(call, weight, torch.ones_like).dtype == torch.float32
    value, calls = seen(lambda z: F.cross_entropy(z, CLASSES), z)
    ((call, weight),) = influences(value, calls)
    assert random_gradient(call, weight, torch.ones_like).dtype == torch.bfloat16
