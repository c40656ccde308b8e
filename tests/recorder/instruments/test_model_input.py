from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.audits import Rig, micro
from torch import Tensor, nn

from recorder.instruments import model_input
from recorder.instruments.model_input import COLUMNS, ModelInput, thinned

RANDOM = torch.Generator().manual_seed(0)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=RANDOM) * 3 + 1


def look(*inputs: Tensor, rig: Rig | None = None) -> dict[str, float]:
    rig = rig or Rig(nn.Linear(1, 1))
    rig.step(ModelInput(rig.context), micro(inputs=inputs))
    return rig.columns()


def reasons(rig: Rig) -> dict[str, str]:
    return {column: event["reason"] for event in rig.events("not-measured") for column in event["columns"]}


def by_numpy(x: Tensor, axes: tuple[int, ...] | None) -> dict[str, float]:
    """The columns by numpy; `axes`: what a feature's standard deviation runs over, None without features."""
    values = x.double().numpy()
    values = np.where(np.isfinite(values), values, np.nan)
    found = {
        "input_mean": np.nanmean(values), "input_std": np.nanstd(values), "input_absmax": np.nanmax(np.abs(values)),
        "input_nonfinite": np.isnan(values).sum(),
    }  # fmt: skip
    if axes is not None:
        deviations = np.nanstd(values, axis=axes)
        found["input_spread"] = deviations.max() / deviations[deviations > 0].min()
    return found


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((64, 7), (0,)),
        ((8, 3, 5, 6), (0, 2, 3)),
        ((4, 2, 3, 4, 5), (0, 2, 3, 4)),
        ((64,), None),
        ((8, 5, 7), None),
        ((64, 1), (0,)),
    ],
)
def test_against_numpy(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    x = normal(*shape)
    assert look(x) == pytest.approx(by_numpy(x, axes), rel=1e-9)


def test_a_scalar_input() -> None:
    assert look(torch.tensor(2.0)) == {"input_mean": 2, "input_std": 0, "input_absmax": 2, "input_nonfinite": 0}


def test_non_finite_values_are_counted_and_left_out() -> None:
    x = normal(16, 3)
    x[0, 0], x[1, 2], x[2, 2] = math.nan, math.inf, -math.inf
    assert look(x) == pytest.approx(by_numpy(x, (0,)), rel=1e-9)
    assert look(x)["input_nonfinite"] == 3


def test_without_a_finite_value() -> None:
    found = look(torch.full((2, 2), math.nan))
    assert found.pop("input_nonfinite") == 4
    assert all(math.isnan(value) for value in found.values())


def test_features_of_different_scale_and_a_constant_one() -> None:
    x = torch.stack((normal(50), normal(50) * 1000, torch.full((50,), 0.1)), dim=1)
    assert look(x)["input_spread"] == pytest.approx(by_numpy(x[:, :2], (0,))["input_spread"], rel=1e-9)


def test_no_feature_varies() -> None:
    assert math.isnan(look(torch.full((50, 3), 0.1))["input_spread"])
    assert math.isnan(look(normal(1, 3))["input_spread"]), "one sample"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_other_precisions(dtype: torch.dtype) -> None:
    x = (normal(64, 4) * 20).to(dtype)
    assert look(x) == pytest.approx(by_numpy(x.float() if dtype != torch.float64 else x, (0,)), rel=1e-9)


def test_large_magnitudes_do_not_overflow() -> None:
    assert look(torch.tensor([[1e30], [-1e30]]))["input_std"] == pytest.approx(1e30)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.ones(4, dtype=torch.int64),), "int64"),
        ((torch.ones(4, dtype=torch.complex64),), "complex64"),
        ((torch.ones(4, 2).to_sparse(),), "not a dense tensor"),
        ((torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),), "not a dense tensor"),
        ((torch.ones(0, 2),), "empty"),
        ((), "was seen"),
    ],
)
def test_odd_inputs_are_null_with_the_reason(inputs: tuple[Tensor, ...], reason: str) -> None:
    rig = Rig(nn.Linear(1, 1))
    assert look(*inputs, rig=rig) == {}
    found = reasons(rig)
    assert all(reason in told for told in found.values())
    assert found.keys() == {f"steps.{column}" for column in COLUMNS}


def test_the_first_floating_point_input_counts() -> None:
    x = normal(8, 3)
    assert look(torch.ones(8, dtype=torch.int64), x, normal(8, 3)) == look(x)


def test_sequences_have_no_spread_and_say_why() -> None:
    rig = Rig(nn.Linear(1, 1))
    assert "input_spread" not in look(normal(4, 5, 6), rig=rig)
    assert "3-d input" in reasons(rig)["steps.input_spread"]


def test_micro_batches_are_taken_together() -> None:
    rig = Rig(nn.Linear(1, 1))
    first, second = normal(8, 3), normal(5, 3) * 10
    first[0, 0] = math.nan
    rig.step(ModelInput(rig.context), micro(inputs=(first,)), micro(inputs=(second,)))
    assert rig.columns() == pytest.approx(by_numpy(torch.cat((first, second)), (0,)), rel=1e-9)


def test_the_next_step_starts_anew() -> None:
    rig = Rig(nn.Linear(1, 1))
    audit = ModelInput(rig.context)
    rig.step(audit, micro(inputs=(normal(8, 3),)))
    x = normal(8, 3)
    rig.step(audit, micro(inputs=(x,)))
    assert rig.columns() == pytest.approx(by_numpy(x, (0,)), rel=1e-9)


def test_a_large_input_is_thinned_out_but_each_value_is_tested_for_finiteness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_input, "LIMIT", 1000)
    x = normal(64, 3, 32, 32)
    x.view(-1)[12_345] = math.nan
    found = look(x)
    assert found["input_nonfinite"] == 1
    assert found["input_mean"] == pytest.approx(1, abs=0.5)
    assert found["input_std"] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("shape", [(5000,), (100, 70), (1, 9000), (64, 3, 32, 32), (1, 1, 9000), (2, 3, 1, 1, 4000)])
def test_thinning_keeps_the_limit_and_every_channel(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    monkeypatch.setattr(model_input, "LIMIT", 1000)
    kept = thinned(torch.zeros(shape))
    assert 300 <= kept.numel() <= 1000
    assert kept.ndim == len(shape)
    assert len(shape) < 4 or kept.shape[1] == shape[1]


def test_the_input_is_left_alone() -> None:
    x = normal(8, 3).requires_grad_()
    rig = Rig(nn.Linear(1, 1))
    before, state = x.detach().clone(), torch.get_rng_state()
    look(x, rig=rig)
    assert torch.equal(x, before)
    assert x._version == 0
    assert torch.equal(torch.get_rng_state(), state)
