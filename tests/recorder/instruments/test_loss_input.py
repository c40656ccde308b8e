from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.audits import Rig, micro
from torch import Tensor, nn

from recorder.instruments.loss_input import LossInput, class_dim

RANDOM = torch.Generator().manual_seed(0)


def logits(*shape: int) -> Tensor:
    return torch.randn(shape, generator=RANDOM)


def classes(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=RANDOM)


def look(
    prediction: Tensor | None, target: Tensor | None, loss: str | None = "cross_entropy", rig: Rig | None = None
) -> dict[str, object]:
    rig = rig or Rig(nn.Linear(1, 1))
    rig.step(LossInput(rig.context), micro(prediction=prediction, target=target, loss_name=loss))
    return rig.columns()


def reasons(rig: Rig) -> dict[str, str]:
    return {column: event["reason"] for event in rig.events("not-measured") for column in event["columns"]}


def test_logits_against_a_python_loop() -> None:
    prediction, target = logits(32, 5), classes(4, 32)
    rows = prediction.double().tolist()
    found = look(prediction, target)
    assert found["prediction_min"] == min(min(row) for row in rows)
    assert found["prediction_max"] == max(max(row) for row in rows)
    assert found["prediction_sum_min"] == pytest.approx(min(sum(row) for row in rows), rel=1e-5)
    assert found["prediction_sum_max"] == pytest.approx(max(sum(row) for row in rows), rel=1e-5)
    assert (found["target_min"], found["target_max"]) == (min(target.tolist()), max(target.tolist()))
    assert found["class_counts"] == [Counter(target.tolist())[c] for c in range(5)]
    right = [c for row, c in zip(rows, target.tolist(), strict=True) if max(row) == row[c]]
    assert found["class_hits"] == [Counter(right)[c] for c in range(5)]


def test_probabilities_sum_to_one_over_the_classes_and_not_over_the_batch() -> None:
    right = look(logits(64, 10).softmax(1), classes(10, 64))
    wrong = look(logits(64, 10).softmax(0), classes(10, 64))
    assert right["prediction_sum_min"] == pytest.approx(1, abs=1e-5) == right["prediction_sum_max"]
    assert wrong["prediction_sum_max"] - wrong["prediction_sum_min"] > 0.01


@pytest.mark.parametrize(
    ("prediction", "target", "loss", "dim"),
    [
        ((8, 3), (8,), "cross_entropy", 1),
        ((3,), (), "CrossEntropyLoss", 0),
        ((8, 3, 5, 5), (8, 5, 5), "nll_loss", 1),
        ((8, 3), (8,), "FocalLoss", 1),
        ((8, 7, 3), (8, 7), None, 2),
        ((8, 3, 7), (8, 7), None, 1),
        ((8, 3), (8,), "mse_loss", None),
        ((8, 1), (8,), "binary_cross_entropy_with_logits", None),
        ((8,), (8,), None, None),
        ((), (), None, None),
        ((8, 3), (5,), None, None),
    ],
)
def test_the_dimension_of_the_classes(
    prediction: tuple[int, ...], target: tuple[int, ...], loss: str | None, dim: int | None
) -> None:
    assert class_dim(logits(*prediction), classes(3, *target), loss) == dim


def test_soft_targets_have_row_sums_but_no_counts() -> None:
    rig = Rig(nn.Linear(1, 1))
    found = look(logits(8, 3), logits(8, 3).softmax(1), rig=rig)
    assert "prediction_sum_min" in found
    assert "class_counts" not in found
    assert reasons(rig)["steps.class_counts"] == "the targets are not class indices"


def test_regression_has_ranges_only() -> None:
    rig = Rig(nn.Linear(1, 1))
    found = look(logits(8, 1), logits(8, 1), "mse_loss", rig)
    assert set(found) == {"prediction_min", "prediction_max", "target_min", "target_max"}
    assert reasons(rig)["steps.prediction_sum_min"] == "the loss has no dimension of classes"


@pytest.mark.parametrize("ignored", [-100, 1])
def test_ignored_targets_are_left_out(ignored: int) -> None:
    target = torch.tensor([2, 0, ignored, 2, ignored])
    told = None if ignored == -100 else ignored
    rig = Rig(nn.Linear(1, 1))
    batch = micro(prediction=logits(5, 3), target=target, loss_name="cross_entropy", ignore_index=told)
    rig.step(LossInput(rig.context), batch)
    found = rig.columns()
    assert found["class_counts"] == [1, 0, 2]
    assert (found["target_min"], found["target_max"]) == (0, 2)


def test_only_ignored_targets() -> None:
    found = look(logits(2, 3), torch.tensor([-100, -100]))
    assert found["class_counts"] == [0, 0, 0]
    assert found["target_min"] != found["target_min"], "NaN: there is no value"


def test_token_targets_and_images_are_counted() -> None:
    prediction, target = logits(2, 4, 6, 6), classes(4, 2, 6, 6)
    found = look(prediction, target)
    assert found["class_counts"] == [Counter(target.flatten().tolist())[c] for c in range(4)]
    assert found["prediction_sum_max"] == pytest.approx(prediction.sum(1).max().item(), rel=1e-5)


def test_many_classes_are_not_counted() -> None:
    rig = Rig(nn.Linear(1, 1))
    found = look(logits(2, 1001), classes(1001, 2), rig=rig)
    assert "class_counts" not in found
    assert "target_max" in found
    assert "1000 classes" in reasons(rig)["steps.class_counts"]


def test_micro_batches_are_taken_together() -> None:
    rig = Rig(nn.Linear(1, 1))
    first, second = logits(8, 3), logits(4, 3)
    one, two = classes(3, 8), classes(3, 4)
    rig.step(
        LossInput(rig.context),
        micro(prediction=first, target=one, loss_name="cross_entropy"),
        micro(prediction=second, target=two, loss_name="cross_entropy"),
    )
    found, expected = rig.columns(), look(torch.cat((first, second)), torch.cat((one, two)))
    for column in ("class_counts", "class_hits"):
        assert found.pop(column) == expected.pop(column)
    assert found == pytest.approx(expected)


def test_losses_with_different_classes_do_not_mix() -> None:
    rig = Rig(nn.Linear(1, 1))
    heads = [micro(prediction=logits(4, c), target=classes(c, 4), loss_name="cross_entropy") for c in (3, 5)]
    rig.step(LossInput(rig.context), *heads)
    assert len(rig.columns()["class_counts"]) == 3
    assert "5 classes" in reasons(rig)["steps.class_counts"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    prediction = torch.full((2, 1000), 100.0, dtype=dtype)  # the sum is beyond the largest half
    assert look(prediction, classes(1000, 2))["prediction_sum_max"] == 100_000


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_small_integers(dtype: torch.dtype) -> None:
    found = look(logits(4, 3), torch.tensor([0, 1, 1, 2], dtype=dtype))
    assert found["class_counts"] == [1, 2, 1]
    assert found["target_max"] == 2


def test_boolean_targets_have_a_range_and_no_classes() -> None:
    found = look(logits(4), torch.tensor([True, False, False, False]), None)
    assert (found["target_min"], found["target_max"]) == (0, 1)
    assert "class_counts" not in found


def test_a_non_finite_prediction_shows() -> None:
    prediction = logits(4, 3)
    prediction[1, 2] = float("nan")
    found = look(prediction, classes(3, 4))
    assert found["prediction_max"] != found["prediction_max"]


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
        (torch.zeros(2, 3, dtype=torch.complex64), torch.zeros(2, 3, dtype=torch.complex64)),
        (torch.zeros(2, 3).to_sparse(), None),
    ],
)
def test_odd_tensors_are_null_with_a_reason(prediction: Tensor, target: Tensor | None) -> None:
    rig = Rig(nn.Linear(1, 1))
    assert look(prediction, target, "mine", rig) == {}
    assert {"steps.prediction_min", "steps.target_min", "steps.class_counts"} <= reasons(rig).keys()


def test_an_unseen_loss_is_null_with_a_reason() -> None:
    rig = Rig(nn.Linear(1, 1))
    assert look(None, None, None, rig) == {}
    assert "outputs=" in reasons(rig)["steps.prediction_min"]


def test_a_target_without_dimensions() -> None:
    found = look(logits(3), torch.tensor(2))
    assert found["class_counts"] == [0, 0, 1]
    assert found["prediction_sum_min"] == found["prediction_sum_max"]


def test_shapes_and_types_are_told_once_for_each_kind() -> None:
    rig = Rig(nn.Linear(1, 1))
    audit = LossInput(rig.context)
    for batch in (64, 64, 17, 64):
        rig.step(audit, micro(prediction=logits(batch, 10), target=classes(10, batch), loss_name="CrossEntropyLoss"))
    assert rig.events("loss-input") == [
        {
            "loss": "CrossEntropyLoss", "weighted": False, "label_smoothing": 0.0, "prediction_shape": [64, 10],
            "prediction_dtype": "float32", "target_shape": [64], "target_dtype": "int64",
        }
    ]  # fmt: skip


def test_silent_broadcasting_is_another_kind() -> None:
    rig = Rig(nn.Linear(1, 1))
    audit = LossInput(rig.context)
    for target in (logits(64, 1), logits(64), logits(64, 1), logits(64)):
        rig.step(audit, micro(prediction=logits(64, 1), target=target, loss_name="mse_loss"))
    assert [event["target_shape"] for event in rig.events("loss-input")] == [[64, 1], [64]]


def test_the_loss_input_is_left_alone() -> None:
    prediction, target, rig = logits(4, 3), classes(3, 4), Rig(nn.Linear(1, 1))
    before = (prediction.clone(), target.clone(), torch.get_rng_state())
    look(prediction, target, rig=rig)
    assert torch.equal(prediction, before[0])
    assert torch.equal(target, before[1])
    assert torch.equal(torch.get_rng_state(), before[2])
    assert prediction._version == 0 == target._version


def test_counts_work_with_deterministic_algorithms() -> None:
    torch.use_deterministic_algorithms(mode=True)
    try:
        assert look(logits(4, 3), torch.tensor([0, 0, 1, 2]))["class_counts"] == [2, 1, 1]
    finally:
        torch.use_deterministic_algorithms(mode=False)


def test_functional_names_match_what_torch_calls_them() -> None:
    for loss in (F.mse_loss, F.binary_cross_entropy, F.huber_loss, F.poisson_nll_loss):
        assert class_dim(logits(8, 3), classes(3, 8), loss.__name__) is None
    for module in (nn.MSELoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.GaussianNLLLoss, nn.CTCLoss):
        assert class_dim(logits(8, 3), classes(3, 8), module.__name__) is None


@pytest.mark.parametrize(
    ("loss", "prediction"),
    [("binary_cross_entropy_with_logits", [-1.0, 2.0, 3.0, -0.5]), ("BCELoss", [0.1, 0.8, 0.9, 0.4])],
)
def test_classes_of_a_binary_loss(loss: str, prediction: list[float]) -> None:
    found = look(torch.tensor(prediction)[:, None], torch.tensor([0.0, 1.0, 0.0, 1.0])[:, None], loss)
    assert (found["class_counts"], found["class_hits"]) == ([2, 2], [1, 1])


def test_labels_that_exclude_no_other_are_not_counted() -> None:
    rig = Rig(nn.Linear(1, 1))
    found = look(logits(8, 3), torch.zeros(8, 3), "binary_cross_entropy_with_logits", rig)
    assert not {"class_counts", "class_hits"} & found.keys()
    assert reasons(rig)["steps.class_hits"] == "the targets are not class indices"


def test_ignored_targets_and_small_integers_are_no_hits() -> None:
    prediction = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = look(prediction, torch.tensor([0, -100, 1]))
    assert (found["class_counts"], found["class_hits"]) == ([1, 1], [1, 1])
    found = look(prediction, torch.tensor([1, 0, 1], dtype=torch.uint8))
    assert (found["class_counts"], found["class_hits"]) == ([1, 2], [1, 1])
