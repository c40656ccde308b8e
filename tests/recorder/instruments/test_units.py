"""Dead and saturated units against a loop over units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.trainings import read, train
from torch import Tensor, nn
from torch.nn import functional

from recorder.activations import ACTIVATIONS
from recorder.instruments.units import stuck


@given(st.integers(0, 10_000), st.sampled_from([(5, 7), (4, 6, 3, 2), (3, 2, 8)]))
def test_a_unit_is_stuck_only_if_it_is_on_every_sample(seed: int, shape: tuple[int, ...]) -> None:
    output = torch.tanh(3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 2)
    unit = len(shape) - 1 if len(shape) == 3 else 1
    found = stuck(output, ACTIVATIONS[nn.Tanh])
    values = output.movedim(unit, -1).reshape(-1, shape[unit]).T.tolist()
    assert found.saturated.tolist() == [all(v <= -0.99 for v in u) or all(v >= 0.99 for v in u) for u in values]
    assert not found.dead.any()
    assert found.flat is not None
    assert (int(found.flat), found.values) == (sum(abs(v) >= 0.99 for u in values for v in u), output.numel())


def test_an_activation_without_a_dimension_of_units_is_one_unit() -> None:
    reach = ACTIVATIONS[nn.Sigmoid]
    for values, saturated in (([0.999, 0.995], True), ([0.999, 0.5], False)):
        found = stuck(torch.tensor(values), reach)
        assert (found.dead.tolist(), found.saturated.tolist()) == ([False], [saturated])


def modules(path: Path) -> dict[str, list[tuple[float, float, int]]]:
    rows = read(path, "modules").to_dicts()
    found: dict[str, list[tuple[float, float, int]]] = {}
    for row in rows:
        found.setdefault(row["module"], []).append((row["dead_share"], row["saturated_share"], row["unit_count"]))
    return found


@pytest.mark.parametrize("inplace", [False, True])
def test_dead_units_of_a_training(inplace: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=inplace), nn.Linear(8, 4), nn.Sigmoid(), nn.Linear(4, 3))
    with torch.no_grad():
        model[0].bias[:6] = -100.0
        model[2].bias[1] = 50.0
    batch = (torch.randn(32, 6), torch.randint(0, 3, (32,)))
    path = train(tmp_path / "run", model, [batch] * 2, nn.CrossEntropyLoss()).path
    assert modules(path) == {"1": [(0.75, 0.0, 8)] * 2, "3": [(0.0, 0.25, 4)] * 2}


def test_a_module_called_twice_is_stuck_only_if_it_is_in_both_calls(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.layer = nn.ReLU(), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.act(x) + self.act(-x))

    batch = (torch.ones(8, 4) * torch.tensor([1.0, -1.0, 0.0, 2.0]), torch.randint(0, 4, (8,)))
    path = train(tmp_path / "run", Twice(), [batch], nn.CrossEntropyLoss()).path
    assert modules(path) == {"act": [(0.25, 0.0, 4)]}


def test_passes_without_gradient_do_not_count(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def look(net: nn.Module) -> None:
        with torch.no_grad():
            net(torch.full((4, 6), -1e6))

    batch = (torch.randn(64, 6), torch.randint(0, 3, (64,)))
    path = train(tmp_path / "run", model, [batch], nn.CrossEntropyLoss(), between=look).path
    assert modules(path)["1"][0][0] < 0.5


def test_units_after_a_convolution_over_a_sequence_are_its_channels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))
    with torch.no_grad():
        model[0].bias[1] = -100.0
    path = train(
        tmp_path / "run", model, [(torch.randn(8, 2, 8), torch.randint(0, 3, (8,)))], nn.CrossEntropyLoss()
    ).path
    assert modules(path) == {"1": [(0.25, 0.0, 4)]}


class Functional(nn.Module):
    """The activations of a network, called as functions in one of their spellings."""

    def __init__(self, first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(4, 3)
        self.first, self.second = first, second
        with torch.no_grad():
            self.one.bias[:6] = -100.0
            self.two.bias[1] = 50.0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.second(self.two(self.first(self.one(x)))))
        return out


@pytest.mark.parametrize("relu", [functional.relu, torch.relu, lambda x: x.relu(), lambda x: functional.relu(x, True)])
@pytest.mark.parametrize("squash", [torch.sigmoid, lambda x: x.sigmoid(), functional.sigmoid])
def test_functions_count_as_modules_do(
    relu: Callable[[Tensor], Tensor], squash: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(0)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets) + 0 * torch.relu(outputs).sum()

    batch = (torch.randn(32, 6), torch.randint(0, 3, (32,)))
    path = train(tmp_path / "run", Functional(relu, squash), [batch] * 2, loss).path
    assert modules(path) == {"one (relu)": [(0.75, 0.0, 8)] * 2, "two (sigmoid)": [(0.0, 0.25, 4)] * 2}


def test_values_that_are_flat_without_a_unit_that_is(tmp_path: Path) -> None:
    """Weights that are far too large throw every unit to one end or the other, by the sample."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].weight.mul_(100.0)
    path = train(
        tmp_path / "run", model, [(torch.randn(64, 6), torch.randint(0, 3, (64,)))], nn.CrossEntropyLoss()
    ).path
    (row,) = read(path, "modules").to_dicts()
    assert row["saturated_share"] == 0
    assert row["flat_share"] > 0.8


class Partly(nn.Module):
    """Functions before any layer, under no_grad, in a part that fails, and a module that is called from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.gate = nn.Linear(6, 4), nn.Linear(4, 3), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        with torch.no_grad():
            torch.sigmoid(self.one(x))
        return self.two(self.one(x).relu())


def test_only_what_is_differentiated_within_the_forward_pass_counts(tmp_path: Path) -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets) + 0 * torch.sigmoid(model.gate(outputs)).sum()

    model = Partly()
    batch = (torch.randn(32, 6), torch.randint(0, 3, (32,)))
    path = train(tmp_path / "run", model, [batch] * 3, loss).path
    assert {name: len(rows) for name, rows in modules(path).items()} == {"tanh": 3, "one (relu)": 3, "gate": 3}


def test_complex_values_have_no_flat_ends(tmp_path: Path) -> None:
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.act = nn.Linear(6, 3), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(torch.view_as_complex(torch.stack([self.layer(x), self.layer(-x).relu()], -1))).abs()

    batch = (torch.randn(8, 6), torch.randint(0, 3, (8,)))
    path = train(tmp_path / "run", Waves(), [batch], nn.CrossEntropyLoss()).path
    assert set(modules(path)) == {"layer (relu)"}
