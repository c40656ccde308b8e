"""The audit of a pass outside training: once, unnoticed by the model, and never the reason that it fails."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.audits import Rig, left_as_found
from support.nosync import no_sync
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from recorder.evaluation import audited_evaluation

X = torch.linspace(-1, 1, 48).reshape(16, 3)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def evaluated(model: nn.Module, *inputs: Any, **named: Any) -> dict[str, Any]:
    rig = Rig(model)
    with left_as_found(model), audited_evaluation(rig.context, "valid"), no_sync(), torch.no_grad():
        model.eval()
        for _ in range(2):
            model(*inputs, **named)
        model.train()
    (event,) = rig.events("evaluation")
    return event


def test_an_evaluation_is_audited_once() -> None:
    found = evaluated(small(), X)
    assert found == {
        "split": "valid", "training_share": 0, "input_mean": pytest.approx(0, abs=1e-6), "input_nonfinite": 0,
        "input_std": pytest.approx(X.double().std(correction=0).item()), "input_absmax": 1,
        "input_spread": pytest.approx(1),
    }  # fmt: skip


def test_an_evaluation_in_training_mode_says_so() -> None:
    model = small()
    model[1].eval()
    rig = Rig(model)
    with audited_evaluation(rig.context, "test"):
        model(X)
    assert rig.events("evaluation")[0]["training_share"] == 4 / 5


def test_an_evaluation_of_tokens_has_no_statistics() -> None:
    assert set(evaluated(nn.Embedding(5, 2), torch.tensor([1, 2]))) == {"split", "training_share"}


def test_an_evaluation_with_nested_arguments() -> None:
    class Nested(nn.Module):
        def forward(self, batch: dict[str, Any]) -> Tensor:
            return batch["x"][0].sum()

    assert evaluated(Nested(), batch={"ids": torch.tensor([1]), "x": (X,)})["input_absmax"] == 1


def test_an_evaluation_that_never_calls_the_model_or_fails_leaves_nothing() -> None:
    model = small()
    rig = Rig(model)
    with left_as_found(model), audited_evaluation(rig.context, "valid"):
        pass
    with pytest.raises(RuntimeError, match="shapes"), left_as_found(model), audited_evaluation(rig.context, "valid"):
        model(torch.zeros(2, 5))
    assert len(rig.events("evaluation")) == 1


def test_the_audit_of_an_evaluation_does_not_change_its_result() -> None:
    """A transformer layer takes another path, with other rounding, while it has hooks."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    rig = Rig(layer)
    with torch.inference_mode():
        plain = layer(x)
        with audited_evaluation(rig.context, "valid"):
            assert torch.equal(layer(x), plain)
    assert rig.events("evaluation")[0]["input_nonfinite"] == 0


@pytest.mark.parametrize("inner", [True, False])
def test_the_audit_of_a_compiled_model_is_not_traced(inner: bool) -> None:
    """Where the recorder has the module and the user a compiled copy that it cannot know of, nothing is seen."""
    counter = CompileCounter()
    model = small().eval()
    compiled = torch.compile(model, backend=counter)
    rig = Rig(model if inner else compiled)
    for _ in range(3):
        with audited_evaluation(rig.context, "valid"), torch.no_grad():
            compiled(X)
        with torch.no_grad():
            compiled(X)
    assert counter.frame_count <= 2, "once more than without the hook at most"
    assert len(rig.events("evaluation")) == (0 if inner else 3)


def test_an_error_of_the_audit_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("recorder.evaluation.evaluation", failing)
    model = small()
    rig = Rig(model)
    with left_as_found(model), audited_evaluation(rig.context, "valid"):
        model.eval()(X)
        model.train()
    assert "broken" in rig.events("error")[0]["exception"]
