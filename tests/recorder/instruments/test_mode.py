from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.audits import Rig, hooks, left_as_found, micro
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recorder.instruments.mode import Mode

X = torch.linspace(-1, 1, 48).reshape(16, 3)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def forward(model: nn.Module, *inputs: Tensor) -> Callable[[], Any]:
    return lambda: micro(sum(model(x).sum() for x in inputs))


def rows(rig: Rig, *micro_batches: Callable[[], Any]) -> dict[str, tuple[bool, int | None]]:
    step = rig.step(Mode(rig.context), *micro_batches)
    assert all(table == "modules" for table, _ in step.row.rows)
    return {row["module"]: (row["training"], row["normalized_over"]) for _, row in step.row.rows}


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
