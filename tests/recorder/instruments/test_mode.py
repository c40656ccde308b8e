from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.audits import Rig, micro
from support.nosync import no_sync
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recorder.instruments.mode import Mode, audited_evaluation

X = torch.linspace(-1, 1, 48).reshape(16, 3)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def forward(model: nn.Module, *inputs: Tensor) -> Callable[[], Any]:
    return lambda: micro(sum(model(x).sum() for x in inputs))


def rows(rig: Rig, *micro_batches: Callable[[], Any]) -> dict[str, tuple[bool, int | None]]:
    step = rig.step(Mode(rig.context), *micro_batches)
    assert all(table == "modules" for table, _ in step.row.rows)
    return {row["module"]: (row["training"], row["normalized_over"]) for _, row in step.row.rows}


def hooks(model: nn.Module) -> list[int]:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
    return [len(getattr(module, kind)) for module in model.modules() for kind in kinds]


@contextmanager
def left_as_found(model: nn.Module) -> Iterator[None]:
    """The attributes, hooks and random numbers after are those before."""
    before = [dict(vars(module)) for module in model.modules()], hooks(model), torch.get_rng_state()
    yield
    assert [dict(vars(module)) for module in model.modules()] == before[0]
    assert hooks(model) == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_share_of_the_modules_in_training_mode() -> None:
    model = small()
    model[1].eval()
    rig = Rig(model)
    rig.step(Mode(rig.context), forward(model, X))
    assert rig.columns() == {"training_share": 4 / 5}


def test_a_batch_norm_in_training_averages_over_samples_and_positions() -> None:
    model = nn.ModuleDict({"flat": nn.BatchNorm1d(3), "image": nn.BatchNorm2d(3)})
    rig = Rig(model)
    image = torch.zeros(2, 3, 5, 7)
    found = rows(rig, lambda: micro(model["flat"](X).sum() + model["image"](image).sum()))
    assert found == {"flat": (True, 16), "image": (True, 2 * 5 * 7)}


def test_running_statistics_average_over_nothing() -> None:
    model = nn.ModuleList([nn.BatchNorm1d(3).eval(), nn.BatchNorm1d(3, track_running_stats=False).eval()])
    found = rows(Rig(model), lambda: micro(sum(norm(X).sum() for norm in model)))
    assert found == {"0": (False, None), "1": (False, 16)}


def test_the_fewest_values_of_several_passes() -> None:
    model = small()
    assert rows(Rig(model), forward(model, X, X[:4]), forward(model, X[:2]), forward(model, X)) == {"1": (True, 2)}


def test_a_batch_norm_that_does_not_run_has_no_row() -> None:
    model = small()
    assert rows(Rig(model), lambda: micro(model[0](X).sum())) == {}


def test_keyword_arguments_and_no_batch_norm() -> None:
    norm = nn.BatchNorm1d(3)
    assert rows(Rig(norm), lambda: micro(norm(input=X).sum())) == {"": (True, 16)}
    linear = nn.Linear(3, 1)
    assert rows(Rig(linear), forward(linear, X)) == {}


def test_passes_without_gradients_do_not_count() -> None:
    model = small()

    def validated() -> Any:
        loss = model(X).sum()
        with torch.no_grad():
            model(X[:2])
        return micro(loss)

    assert rows(Rig(model), validated) == {"1": (True, 16)}


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_batch_norm(reentrant: bool) -> None:
    model = small()
    start = X.clone().requires_grad_()
    assert rows(Rig(model), lambda: micro(checkpoint(model, start, use_reentrant=reentrant).sum())) == {"1": (True, 16)}


def test_hooks_are_gone_and_nothing_else_changed() -> None:
    model = small()
    rig = Rig(model)
    audit = Mode(rig.context)
    with left_as_found(model):
        rig.step(audit, lambda: micro())
    seen = []
    rig.step(audit, lambda: micro(torch.zeros(()), samples=seen.append(hooks(model))))
    assert sum(seen[0]) == 1, "while the step runs, one hook on the one batch norm"


def test_a_failing_hook_shows_outside_the_forward_pass() -> None:
    class Odd(nn.BatchNorm1d):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).sum()  # no channels left to count

    model = Odd(3)
    rig = Rig(model)
    with pytest.raises(IndexError), left_as_found(model):
        rig.step(Mode(rig.context), forward(model, X))


def test_a_compiled_model_has_its_share_and_no_hooks() -> None:
    model = small()
    model.compile(backend="eager")
    rig = Rig(model)
    step = rig.step(Mode(rig.context), lambda: micro(torch.zeros((), requires_grad=True), samples=sum(hooks(model))))
    assert step.micro_batches[0].samples == 0
    assert rig.columns()["training_share"] == 1
    assert rig.events("not-measured")[0]["reason"] == "compiled"


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
    counter = torch._dynamo.testing.CompileCounter()
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

    monkeypatch.setattr("recorder.instruments.mode.evaluation", failing)
    model = small()
    rig = Rig(model)
    with left_as_found(model), audited_evaluation(rig.context, "valid"):
        model.eval()(X)
        model.train()
    assert "broken" in rig.events("error")[0]["exception"]
