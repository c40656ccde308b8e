"""GEN002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import CHANCE, Training, falling, flat, found, loss_input, validated
from torch import nn

from analyzer.detectors.too_much_regularisation import TooMuchRegularisation
from analyzer.findings import NotApplicable
from analyzer.run import open_run
from recorder import Recorder

RULE = TooMuchRegularisation()
STUCK = falling(300, floor=0.7 * CHANCE, rate=0.05)


def decayed(step: int) -> float:
    return max(0.05, 0.98**step)


def optimised(decay: float, kind: str = "SGD") -> dict[str, Any]:
    return {"groups": [{"optimizer": 0, "type": kind, "lr": 0.1, "options": {"weight_decay": decay}}]}


def dropping() -> dict[str, Any]:
    return {"modules": [{"name": "0", "type": "Linear"}, {"name": "drop", "type": "Dropout"}]}


@pytest.mark.parametrize(("decay", "kind"), [(0.1, "SGD"), (0.1, "Adam"), (0.04, "AdamW")])
def test_weight_decay_that_outweighs_the_gradient(tmp_path: Path, decay: float, kind: str) -> None:
    (finding,) = found(RULE, Training(loss=STUCK, weight=decayed, manifest=optimised(decay, kind)), tmp_path)
    assert finding.severity == "error"
    assert "Weight decay" in finding.causes[0]


def test_a_penalty_that_outweighs_the_loss(tmp_path: Path) -> None:
    loss = [level + 2 * 0.95**step for step, level in enumerate(STUCK)]
    (finding,) = found(RULE, Training(loss=loss, logits=4.0, weight=decayed, manifest=optimised(0.0)), tmp_path)
    assert "penalty" in finding.causes[0]


@pytest.mark.parametrize(("spread", "fires"), [(0.02, True), (1.5, False)])
def test_a_penalty_that_is_all_that_falls(tmp_path: Path, spread: float, *, fires: bool) -> None:
    ranges = {"prediction_min": -spread, "prediction_max": spread, "target_min": -2.0, "target_max": 2.0}
    logged = validated(lambda share: 1.3, noise=0.001)
    training = Training(
        loss=falling(300, start=4.0, floor=1.3), metrics=logged, steps=ranges, events=(loss_input("mse_loss", (64,)),)
    )
    assert bool(found(RULE, training, tmp_path)) is fires


def test_dropout_that_drops_nearly_everything(tmp_path: Path) -> None:
    logged = validated(lambda share: 0.9, noise=0.01)
    (finding,) = found(RULE, Training(loss=STUCK, metrics=logged, manifest=dropping()), tmp_path)
    assert "Dropout" in finding.causes[0]


@pytest.mark.parametrize(("mode", "fires"), [("overfit-batch", True), ("train", False)])
def test_one_batch_must_be_fitted_whole(tmp_path: Path, mode: str, *, fires: bool) -> None:
    manifest = {"mode": mode, "modules": [{"name": "drop", "type": "Dropout", "dropout": 0.9}]}
    assert bool(found(RULE, Training(loss=falling(300, floor=0.3 * CHANCE), manifest=manifest), tmp_path)) is fires


def test_a_weighted_loss_is_not_compared_with_that_of_validation(tmp_path: Path) -> None:
    call = loss_input()
    call["detail"] |= {"weighted": True}
    weighted = Training(
        loss=STUCK, metrics=validated(lambda share: 0.9, noise=0.01), manifest=dropping(), events=(call,)
    )
    assert found(RULE, weighted, tmp_path) == []


@pytest.mark.parametrize(("share", "fires"), [(0.9, True), (0.5, False)])
def test_dropout_without_validation(tmp_path: Path, share: float, *, fires: bool) -> None:
    manifest = {"modules": [{"name": "drop", "type": "Dropout", "dropout": share}]}
    assert bool(found(RULE, Training(loss=STUCK, manifest=manifest), tmp_path)) is fires


def test_a_model_that_learned_is_silent(tmp_path: Path) -> None:
    """Strong decay and dropout, but the loss is low: they do what they are for."""
    logged = validated(lambda share: 0.01, noise=0.01)
    manifest = optimised(0.1) | dropping()
    assert found(RULE, Training(weight=decayed, metrics=logged, manifest=manifest), tmp_path) == []


@pytest.mark.parametrize(("decay", "severities"), [(0.1, ["warning"]), (0.01, [])])
def test_a_decay_that_makes_nearly_all_steps_where_the_loss_does_not_tell(
    tmp_path: Path, decay: float, severities: list[str]
) -> None:
    """Of a loss of its own: nobody knows how much is left to learn."""
    unknown = Training(loss=falling(300, start=5.0, floor=1.0), weight=decayed, events=(), manifest={"loss": None})
    both = unknown.but(manifest=optimised(decay) | {"loss": None})
    assert [finding.severity for finding in found(RULE, both, tmp_path)] == severities


def test_label_smoothing_is_not_in_the_validation_loss(tmp_path: Path) -> None:
    call = loss_input()
    smoothed = {**call, "detail": {**call["detail"], "label_smoothing": 0.1}}
    logged = validated(lambda share: 0.4 * CHANCE, noise=0.01)
    training = Training(loss=STUCK, metrics=logged, manifest=optimised(0.0) | dropping())
    assert len(found(RULE, training, tmp_path / "plain")) == 1
    assert found(RULE, training.but(events=(smoothed,)), tmp_path / "smoothed") == []


def test_a_usual_decay_of_a_model_that_does_not_learn_is_silent(tmp_path: Path) -> None:
    """Labels that say nothing: the weights shrink a little, for want of anything else."""
    training = Training(loss=flat(300), weight=lambda step: 0.999**step, manifest=optimised(5e-4))
    assert found(RULE, training, tmp_path) == []


def test_underfitting_alone_is_silent(tmp_path: Path) -> None:
    logged = validated(lambda share: 0.7 * CHANCE, noise=0.02)
    assert found(RULE, Training(loss=STUCK, metrics=logged, manifest=dropping()), tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    logged = validated(lambda share: CHANCE, noise=0.1, seed=seed)
    training = Training(loss=flat(300), noise=0.1, metrics=logged, manifest=dropping() | optimised(1e-3), seed=seed)
    assert found(RULE, training, tmp_path) == []


def test_negative_losses_are_not_judged(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="negative"):
        found(RULE, Training(loss=flat(300, -1.0)), tmp_path)


@pytest.mark.parametrize("decay", [1.0, 1e-4])
def test_a_recording(tmp_path: Path, decay: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=decay)
    inputs = torch.randn(96, 8)
    targets = (inputs @ torch.randn(8, 3)).argmax(dim=1)
    loss_fn = nn.CrossEntropyLoss()
    with Recorder(tmp_path / "run", model, optimizer, loss_fn, preset="basic") as recorder:
        for _ in range(120):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(loss_fn(model(inputs), targets))
            optimizer.step()
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) == (decay == 1.0)


@pytest.mark.parametrize(
    ("own", "floor", "fires"),
    [(0.3, 0.7, True), (0.01, 0.7, False), (0.3, 0.05, False)],
    ids=["weighs", "is nothing", "did no harm"],
)
def test_terms_beside_a_loss_that_settled(tmp_path: Path, own: float, floor: float, *, fires: bool) -> None:
    part = falling(300, floor=floor * CHANCE, rate=0.05)
    total = [value + own for value in part]
    result = found(RULE, Training(loss=total, noise=0.0, steps={"loss_part": part}), tmp_path)
    assert [finding.severity for finding in result] == ["note"] * fires


def test_a_bonus_has_no_floor(tmp_path: Path) -> None:
    part = falling(300, floor=0.7 * CHANCE, rate=0.05)
    with pytest.raises(NotApplicable, match="negative"):
        found(RULE, Training(loss=[value - 0.3 for value in part], noise=0.0, steps={"loss_part": part}), tmp_path)
