"""Synthetic trainings, written as runs: what a rule sees of a training, each thing to be chosen on its own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from support.runs import tensor_entries, write_run

from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.detectors.base import Detector
from analyzer.engine import judge_run
from analyzer.findings import Finding, RunResult
from analyzer.run import open_run

CHANCE = math.log(10)
"""Loss of uniform predictions over ten classes."""

ByLayer = Callable[[int, int], float]
"""A value by step and layer."""


def falling(steps: int, start: float = CHANCE, floor: float = 0.05, rate: float = 0.02) -> list[float]:
    """Mean losses that decay to a floor."""
    return [floor + (start - floor) * math.exp(-rate * step) for step in range(steps)]


def flat(steps: int, level: float = CHANCE) -> list[float]:
    """Mean losses that stay."""
    return [level] * steps


def _sized(entry: dict[str, Any]) -> dict[str, Any]:
    """A weight whose norm of 10 is what PyTorch initialises it with, about."""
    return entry | {"shape": [400, 100]} if entry["name"].endswith("weight") else entry


@dataclass(frozen=True)
class Training:
    """A training by what it shows. The default is a healthy one.

    `loss`: mean losses, around which single batches scatter by a share of `noise`. `gradient`, `update`: relative to
    the weights, by step and layer. `weight`: their size by step. `straight`: distance from the start over the summed
    updates. `alpha`: by step, None where not recorded. `logits`: spread of the predictions. `loss_scale`,
    `weight_scale`: units of the losses and of the parameters, which no verdict should depend on. `every`: steps between
    probes after the first `dense`. `names`: of the tensors, one a layer. `columns`: further columns of the layers
    table; `modules`, `metrics`: those tables. `steps`, `manifest` and `events` stand in place of what would be written.
    `first_step`: where it was resumed, by `attempt`.
    """

    loss: Sequence[float] = field(default_factory=lambda: falling(300))
    noise: float = 0.02
    layers: int = 6
    names: Sequence[str] = ()
    gradient: ByLayer = lambda step, layer: 0.05
    update: ByLayer = lambda step, layer: 0.005
    weight: Callable[[int], float] = lambda step: 1.0
    straight: float = 0.2
    alpha: Callable[[int], float | None] = lambda step: -0.3
    rate: Callable[[int], float] = lambda step: 0.1
    logits: float = 0.5
    loss_scale: float = 1.0
    weight_scale: float = 1.0
    dense: int = 100
    every: int = 16
    seed: int = 0
    steps: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    shuffled: bool = False
    columns: Mapping[str, ByLayer] = field(default_factory=dict)
    modules: Mapping[str, Any] = field(default_factory=dict)
    first_step: int = 0
    attempt: int = 0

    def but(self, **changes: Any) -> Training:
        """The same training, but for these things."""
        return replace(self, **changes)

    def write(self, path: Path) -> Path:
        """Writes the run, and returns its directory."""
        names = list(self.names) or [f"{layer}.weight" for layer in range(self.layers)]
        probes = [step for step in range(len(self.loss)) if step < self.dense or step % self.every == 0]
        return write_run(
            path,
            steps=self._steps(probes) | dict(self.steps),
            layers=self._layers(names, probes),
            events=(wiring([leaf(name) for name in names]), loss_input()) if self.events is None else self.events,
            manifest={"tensors": [_sized(entry) for entry in tensor_entries(names)]} | dict(self.manifest),
            first_step=self.first_step,
            attempt=self.attempt,
            metrics=dict(self.metrics),
            modules=dict(self.modules),
        )

    def _steps(self, probes: Sequence[int]) -> dict[str, Any]:
        chance = random.Random(self.seed)
        scatter = [math.exp(self.noise * chance.gauss(0, 1) - self.noise**2 / 2) for _ in self.loss]
        losses = [mean * factor * self.loss_scale for mean, factor in zip(self.loss, scatter, strict=True)]
        probed = set(probes)
        known = [self.alpha(step) if step in probed else None for step in range(len(losses))]
        size = self.loss_scale
        return {
            "loss": losses,
            "lr": [[self.rate(step)] for step in range(len(losses))],
            "grad_norm": [self._gradient(step) * size for step in range(len(losses))],
            "probed": [step in probed for step in range(len(losses))],
            "optimizer": 0,
            "loss_var": [(8 * self.noise * loss) ** 2 for loss in losses],
            "loss_count": 64,
            # With slopes free of noise alpha is their ratio, whatever the losses are.
            "start_slope": [None if alpha is None else -0.01 * size for alpha in known],
            "start_slope_var": [None if alpha is None else 0.0 for alpha in known],
            "end_slope": [None if alpha is None else 0.01 * alpha * size for alpha in [None, *known[:-1]]],
            "end_slope_var": [None if alpha is None else 0.0 for alpha in [None, *known[:-1]]],
            "prediction_min": [-self.logits / 2 if step in probed else None for step in range(len(losses))],
            "prediction_max": [self.logits / 2 if step in probed else None for step in range(len(losses))],
        }

    def _gradient(self, step: int) -> float:
        return math.hypot(*(10 * self.gradient(step, layer) for layer in range(self.layers))) / self.weight_scale

    def _layers(self, names: Sequence[str], probes: Sequence[int]) -> dict[str, Any]:
        chance = random.Random(self.seed + 1)
        rows = []
        for layer, name in enumerate(names):
            travelled, before = 0.0, 0
            for step in probes:
                size = 10 * self.weight(step)
                travelled += (step - before) * size * self.update(step, layer)
                before = step
                jitter = math.exp(self.noise * chance.gauss(0, 1))
                rows.append(
                    {
                        "step": self.first_step + step,
                        "tensor": name,
                        "grad_norm": size * self.gradient(step, layer) * jitter * self.loss_scale / self.weight_scale,
                        "param_norm": size * self.weight_scale,
                        "update_norm": size * self.update(step, layer) * self.weight_scale,
                        "distance": self.straight * travelled * self.weight_scale,
                    }
                    | {column: value(step, layer) for column, value in self.columns.items()}
                )
        if self.shuffled:
            chance.shuffle(rows)
        return {name: [row[name] for row in rows] for name in rows[0]}


def epochs(steps: int, length: int) -> dict[str, Any]:
    """A metric that is logged at the end of each epoch, as columns of the table."""
    ends = range(length - 1, steps, length)
    count = len(ends)
    return {
        "step": list(ends),
        "epoch": [float(epoch) for epoch in range(count)],
        "split": ["valid"] * count,
        "name": ["loss"] * count,
        "value": [1.0] * count,
    }


def wiring(leaves: Sequence[Mapping[str, Any]], step: int = 0) -> dict[str, Any]:
    """An event of the wiring."""
    return {"kind": "wiring", "step": step, "detail": {"tensors": list(leaves)}}


def leaf(name: str, **changes: Any) -> dict[str, Any]:
    """A leaf tensor as the wiring event has it, wired as it should be but for the changes."""
    every = {"registered": True, "reached": True, "held": True, "requires_grad": True, "parameter": True}
    return {"name": name, "shape": [8, 8], "numel": 64} | every | changes


def validated(
    course: Callable[[float], float],
    steps: int = 300,
    every: int = 10,
    noise: float = 0.0,
    name: str = "loss",
    split: str = "valid",
    seed: int = 0,
) -> dict[str, Any]:
    """A metric of held-out data as it was logged: `course` gives its mean by the share of the run that is over."""
    chance = random.Random(seed)
    logged = range(every - 1, steps, every)
    values = [course(step / steps) * math.exp(noise * chance.gauss(0, 1)) for step in logged]
    return {"step": list(logged), "split": split, "name": name, "value": values}


def loss_input(loss: str = "CrossEntropyLoss", prediction: Sequence[int] = (64, 10)) -> dict[str, Any]:
    """An event of what the loss is given."""
    return {"kind": "loss-input", "detail": {"loss": loss, "prediction_shape": list(prediction), "target_shape": [64]}}


def found(rule: Detector, training: Training, path: Path) -> list[Finding]:
    """What one rule finds in a training."""
    return list(rule.detect(open_run(training.write(path))))


def judged(training: Training, path: Path) -> RunResult:
    """What all rules say of a training, folded."""
    return judge_run(open_run(training.write(path)), choose(DETECTORS, Settings()))


def codes(training: Training, path: Path) -> list[tuple[str, str]]:
    """Code and severity of the root findings."""
    return [(finding.code, finding.severity) for finding in judged(training, path).findings]
