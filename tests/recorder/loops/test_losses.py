"""Every kind of loss in a plain loop: the losses and gradients of the samples, or the reason why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, fly_both
from support.trainings import read
from support.truth import check_null, check_step, check_values, reasons
from torch import Tensor, nn

N = 6


def mlp(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


def over_tokens() -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7)).double()


def classes() -> Any:
    return torch.randn(N, 4, dtype=torch.float64), torch.randint(3, (N,))


def reals(*shape: int) -> Callable[[], Any]:
    return lambda: (torch.randn(N, 4, dtype=torch.float64), torch.randn(N, *shape, dtype=torch.float64))


def shares() -> Any:
    return torch.randn(N, 4, dtype=torch.float64), torch.rand(N, 3, dtype=torch.float64)


def sequences() -> Any:
    return torch.randint(7, (N, 5)), torch.randint(7, (N, 5))


WEIGHT = torch.tensor([1.0, 4.0, 0.5], dtype=torch.float64)


def plain(loss: Callable[..., Tensor], outputs: int = 3, batch: Callable[[], Any] = classes, **options: Any) -> Case:
    """A loss whose mean over samples is that of each sample alone."""
    return Case(lambda: mlp(outputs), batch, lambda model, batch: loss(model(batch[0]), batch[1]), **options)


def summed(loss: Callable[..., Tensor], **options: Any) -> Case:
    """A loss that is the sum over the samples: each counts N times in the mean."""
    case = plain(loss, **options)

    def each(model: nn.Module, batch: Any) -> Iterator[Tensor]:
        for i in range(N):
            yield N * loss(model(batch[0][i : i + 1]), batch[1][i : i + 1])

    return Case(case.model, case.batch, case.loss, each)


def weighted(model: nn.Module, batch: Any) -> Iterator[Tensor]:
    x, y = batch
    for i in range(N):
        alone = F.cross_entropy(model(x[i : i + 1]), y[i : i + 1], reduction="none")
        yield (WEIGHT[y[i]] * alone * N / WEIGHT[y].sum()).squeeze()


def counted(model: nn.Module, batch: Any) -> Iterator[Tensor]:
    """Tokens that are not to be ignored count the same, whoever's they are."""
    x, y = batch
    for i in range(N):
        losses = F.cross_entropy(model(x[i : i + 1]).flatten(0, 1), y[i], reduction="none")
        yield (losses * (y[i] != 1)).sum() * N / (y != 1).sum()


def penalised(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1]) + 0.1 * sum(p.square().sum() for p in model.parameters())


def with_activity(model: nn.Module, batch: Any) -> Tensor:
    out = model(batch[0])
    return F.cross_entropy(out, batch[1]) + 0.1 * out.square().mean()


def both(model: nn.Module, batch: Any) -> Tensor:
    out = model(batch[0])
    return F.cross_entropy(out, batch[1]) + 0.5 * F.mse_loss(out, F.one_hot(batch[1], 3).double())


def own(out: Tensor, target: Tensor) -> Tensor:
    return (out - target).abs().pow(1.5).mean()


def logs(x: Tensor) -> Tensor:
    return F.log_softmax(x, 1)


CASES: dict[str, Case] = {
    "cross entropy": plain(nn.CrossEntropyLoss()),
    "label smoothing": plain(nn.CrossEntropyLoss(label_smoothing=0.1)),
    "class probabilities": plain(lambda p, y: F.cross_entropy(p, F.one_hot(y, 3) * 0.7 + 0.1)),
    "negative log likelihood": plain(lambda p, y: F.nll_loss(logs(p), y)),
    "squared error": plain(nn.MSELoss(), 2, reals(2)),
    "squared error of numbers": plain(lambda p, y: F.mse_loss(p.squeeze(1), y), 1, reals()),
    "absolute error": plain(nn.L1Loss(), 2, reals(2)),
    "huber": plain(nn.HuberLoss(), 2, reals(2)),
    "smooth absolute error": plain(F.smooth_l1_loss, 2, reals(2)),
    "binary": plain(lambda p, y: F.binary_cross_entropy(p.sigmoid(), y), 3, shares),
    "binary of logits": plain(nn.BCEWithLogitsLoss(pos_weight=WEIGHT), 3, shares),
    "divergence by sample": plain(
        lambda p, y: F.kl_div(logs(p), y.softmax(1), reduction="batchmean"), 3, shares
    ),
    "poisson": plain(nn.PoissonNLLLoss(), 3, shares),
    "gaussian": plain(lambda p, y: F.gaussian_nll_loss(p, y, p.exp()), 3, shares),
    "multiple labels": plain(lambda p, y: F.multilabel_soft_margin_loss(p, y.round()), 3, shares),
    "margin": plain(nn.MultiMarginLoss()),
    "triplets": plain(lambda p, y: F.triplet_margin_loss(p, y, -y), 3, shares),
    "cosine": plain(lambda p, y: F.cosine_embedding_loss(p, y, torch.ones(len(y))), 3, shares),
    "times a factor": plain(lambda p, y: 3.0 * F.cross_entropy(p, y) / 7),
    "unreduced": plain(lambda p, y: F.cross_entropy(p, y, reduction="none")),
    "averaged by the user": plain(lambda p, y: F.cross_entropy(p, y, reduction="none").mean()),
    "squared by the user": plain(lambda p, y: 0.5 * ((p - y) ** 2).mean(), 2, reals(2)),
    "likelihood by the user": plain(lambda p, y: -p.log_softmax(1).gather(1, y[:, None]).mean()),
    "of the user's own": plain(own, 2, reals(2), no_losses="no known loss function was seen"),
    "sum": summed(nn.CrossEntropyLoss(reduction="sum")),
    "sum of squares": summed(lambda p, y: F.mse_loss(p, y, reduction="sum"), outputs=2, batch=reals(2)),
    "class weights": Case(
        mlp, classes, lambda m, batch: F.cross_entropy(m(batch[0]), batch[1], weight=WEIGHT), weighted
    ),
    "tokens, classes second": Case(
        over_tokens, sequences, lambda m, batch: F.cross_entropy(m(batch[0]).transpose(1, 2), batch[1])
    ),
    "tokens, flattened": Case(
        over_tokens, sequences, lambda m, batch: F.cross_entropy(m(batch[0]).flatten(0, 1), batch[1].flatten())
    ),
    "ignored tokens": Case(
        over_tokens,
        sequences,
        lambda m, batch: F.cross_entropy(m(batch[0]).flatten(0, 1), batch[1].flatten(), ignore_index=1),
        counted,
    ),
    "two losses": Case(mlp, classes, both, no_losses="2 losses were called"),
    "a penalty on outputs": Case(mlp, classes, with_activity, no_losses="depends on the samples"),
    "sequences of unknown alignment": Case(
        lambda: nn.Linear(4, 4).double(),
        lambda: (torch.randn(N, 5, 4, dtype=torch.float64), torch.randint(1, 4, (N, 2))),
        lambda m, batch: F.ctc_loss(
            m(batch[0]).log_softmax(2).transpose(0, 1), batch[1], (5,) * len(batch[0]), (2,) * len(batch[0])
        ),
        no_losses="no known loss function was seen",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_a_loop_over_samples(name: str, tmp_path: Path) -> None:
    case, run = CASES[name], tmp_path / "run"
    log = fly_both(run, case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(run, log, case.tolerance, losses=not case.no_losses)
    if case.no_losses:
        assert read(run, "steps")["loss_var"].is_null().all()
        assert any(case.no_losses in reason and "loss_var" in reason for reason in reasons(run)), reasons(run)


def test_a_penalty_on_parameters_is_in_no_sample_s_gradient(tmp_path: Path) -> None:
    """Its losses differ from those without it by the same number, so that their variance is known."""
    case = Case(mlp, classes, penalised)
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_null(tmp_path / "run", "do not add up")
    check_step(tmp_path / "run", log, 0, 1e-9, gradients=False)


def test_a_loss_within_the_model(tmp_path: Path) -> None:
    """As models of language have it: named tensors go in, a mapping with the loss comes out."""

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4), nn.GELU()), nn.Linear(4, 7)

        def forward(self, *, tokens: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
            logits = self.head(self.body(tokens))
            shifted, wanted = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
            return (
                {"logits": logits} if labels is None else {"loss": F.cross_entropy(shifted, wanted), "logits": logits}
            )

    case = Case(
        lambda: Inside().double(),
        lambda: {"tokens": (x := torch.randint(7, (N, 5))), "labels": x},
        lambda model, batch: model(**batch)["loss"],
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(tmp_path / "run", log)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_recorded_as_such(bad: float, tmp_path: Path) -> None:
    case = plain(lambda p, y: F.cross_entropy(p, y) * bad)
    fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    steps = read(tmp_path / "run", "steps")
    assert not steps["loss"].is_finite().any()
    assert not steps["grad_var"].fill_null(math.nan).is_finite().any()
    assert not steps["start_slope"].fill_null(math.nan).is_finite().any()
