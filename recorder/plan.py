"""Which module answers for which parameter when individual gradients are projected.

A parameter belongs to the smallest module around it whose call was seen with an output gradient that runs over samples:
its own module as a rule, an enclosing one where the own module is never called (attention reads its output projection's
weight directly) or has no batch dimension (a learned position table).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn

from .call import Call, time_first
from .projection import is_linear
from .tensors import Tensors

NO_UNIT = "no module around it has outputs that run over the samples and are not made of each other"


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A module and the parameters it answers for: names within the module, and positions among the run's tensors."""

    module: nn.Module
    parameters: Mapping[str, int]
    within: Mapping[str, int]
    """The same of all the run's tensors within the module."""

    @property
    def own(self) -> bool:
        """Whether all of its parameters are its module's own, not those of a module within."""
        return self.module._parameters.keys() >= set(self.parameters)

    @property
    def linear(self) -> bool:
        """Whether its own forward operation projects it; otherwise the module runs again."""
        return is_linear(self.module, tuple(self.parameters))

    def values(self, before: list[Tensor]) -> dict[str, Tensor]:
        """The parameters that the module runs again with, given the run's at its call; none if it need not run."""
        if self.linear:
            return {}
        return {name: before[i] for name, i in self.within.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The units of a model, and why the remaining tensors have none (position to reason)."""

    units: tuple[Unit, ...]
    uncovered: Mapping[int, str]
    by_time: bool = False
    """Whether some calls run over time first."""

    @property
    def known(self) -> set[int]:
        """Positions of all tensors that the plan speaks of."""
        return {i for unit in self.units for i in unit.parameters.values()} | set(self.uncovered)

    @property
    def modules(self) -> list[nn.Module]:
        """Modules to watch."""
        return [unit.module for unit in self.units]

    @property
    def replayed(self) -> list[nn.Module]:
        """Modules that run again, whose random state must be kept."""
        return [unit.module for unit in self.units if not unit.linear]

    @property
    def groups(self) -> list[list[Unit]]:
        """The units, together where they share a tensor (tied weights)."""
        found: list[list[Unit]] = []
        for unit in self.units:
            mine = set(unit.parameters.values())
            sharing = [g for g in found if any(mine & set(other.parameters.values()) for other in g)]
            found = [g for g in found if g not in sharing]
            found.append([other for g in sharing for other in g] + [unit])
        return found

    def without(self, unit: Unit, reason: str) -> Plan:
        """The plan after the parts of a module turned out not to be had."""
        left = tuple(each for each in self.units if each is not unit)
        uncovered = {**self.uncovered, **dict.fromkeys(unit.parameters.values(), reason)}
        return replace(self, units=left, uncovered=uncovered)

    def moving(self, frozen: set[int]) -> Plan:
        """The plan once some tensors no longer move: they have no part in the gradient of a sample."""
        if not frozen & self.known:
            return self
        left = [replace(unit, parameters=_others(unit.parameters, frozen)) for unit in self.units]
        uncovered = {i: reason for i, reason in self.uncovered.items() if i not in frozen}
        return replace(self, units=tuple(unit for unit in left if unit.parameters), uncovered=uncovered)

    def in_doubt(self, calls: Iterable[Call], samples: int) -> Call | None:
        """A call of a unit that may or may not run over the samples as it seems to, None if all do."""
        watched = set(self.modules)
        return next((c for c in calls if c.module in watched and c.in_doubt(samples, self.by_time)), None)


def _others(parameters: Mapping[str, int], positions: set[int]) -> dict[str, int]:
    return {name: i for name, i in parameters.items() if i not in positions}


def make_plan(model: nn.Module, tensors: Tensors, wanted: Iterable[int], calls: Iterable[Call], samples: int) -> Plan:
    """Assign the tensors at the positions `wanted`, given the calls of all modules in one forward and backward pass."""
    modules = dict(model.named_modules())
    calls = list(calls)
    by_time = any(c.packed or time_first(c.module) or c.sample_dimension(samples) == 1 for c in calls)
    usable = _usable(modules, calls, samples, by_time)
    owners = _owners(modules, tensors)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    uncovered: dict[int, str] = {}
    for position in wanted:
        places = _places(owners.get(position, ()), usable)
        if tensors.parameters[position].is_complex():
            uncovered[position], places = "it is complex", []
        elif not places:
            uncovered[position] = NO_UNIT
        for unit, name in places:
            found[unit][name] = position
    units = (Unit(modules[name], own, _within(modules[name], tensors)) for name, own in found.items())
    return Plan(tuple(units), uncovered, by_time)


def _within(module: nn.Module, tensors: Tensors) -> dict[str, int]:
    """Positions of the run's tensors in a module, by name within it."""
    named = module.named_parameters(remove_duplicate=False)
    return {name: tensors.position_of[id(p)] for name, p in named if id(p) in tensors.position_of}


def _usable(modules: Mapping[str, nn.Module], calls: Iterable[Call], samples: int, by_time: bool) -> set[str]:
    """Names of the modules all of whose calls run over the samples, beyond doubt."""
    verdicts: dict[nn.Module, bool] = {}
    for call in calls:
        runs = call.sample_dimension(samples) is not None and not call.in_doubt(samples, by_time) and not call.nested
        verdicts[call.module] = verdicts.get(call.module, True) and runs
    return {name for name, module in modules.items() if verdicts.get(module, False)}


def _owners(modules: Mapping[str, nn.Module], tensors: Tensors) -> dict[int, list[tuple[str, str]]]:
    """By position, the modules that hold a tensor directly, with its name there; several where weights are tied."""
    position_of = tensors.position_of
    owners: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for module_name, module in modules.items():
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) in position_of:
                owners[position_of[id(parameter)]].append((module_name, name))
    return owners


def _places(owners: Iterable[tuple[str, str]], usable: set[str]) -> list[tuple[str, str]]:
    """The units of one tensor as (module, name within it).

    A unit inside another one would count twice and is dropped.
    """
    places = {}
    for module, name in owners:
        unit = next((each for each in _outwards(module) if each in usable), None)
        if unit is not None:
            places[unit] = f"{module}.{name}"[len(unit) + 1 if unit else 0 :] if module else name
    enclosing = {unit for unit, name in places.items() if "." in name}
    return [(u, name) for u, name in places.items() if not any(o != u and _inside(u, o) for o in enclosing)]


def _outwards(module: str) -> Iterator[str]:
    """The module itself, then those around it, the model ("") last."""
    yield module
    while module:
        module = module.rpartition(".")[0]
        yield module


def _inside(module: str, other: str) -> bool:
    return other == "" or module.startswith(f"{other}.")
