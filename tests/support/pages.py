"""Runs and judgements for the tests of charts and pages: one that has everything, and those that lack something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analyzer.findings import ChartRef, DetectorState, Evidence, Finding, RunResult
from analyzer.run import Run, open_run

from .runs import tensor_entries, write_run

TENSORS = ("0.weight", "0.bias", "2.weight", "2.bias")

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "'];alert(1);//\"`${document.title='owned'}`",
    "datum.step\\'] + (1)",
    "\u202eevil\u202c \U0001f525 \u00e9 \x00 \ud800",
    "n" * 300,
    "{{ 7 * 7 }} {% raw %}",
    "-->",
)
"""Names as no one would give them: markup, script, template syntax, odd characters, great length."""

EDGES = {
    "gradient-histogram": ["-inf", -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, "inf"],
    "gradient-parameter-histogram": {
        "gradient": ["-inf", -0.5, 0.5, "inf"],
        "parameter": ["-inf", -1.0, 1.0, "inf"],
    },
}
SHARES = (0.01, 0.04, 0.15, 0.6, 0.15, 0.04, 0.01)

INSTRUMENTS = [
    {"name": "loss", "columns": [{"table": "steps", "column": "loss", "unit": "", "description": ""}]},
    {"name": "gradient-norm", "columns": [{"table": "layers", "column": "grad_norm", "unit": "", "description": ""}]},
]


def full_run(
    path: Path, steps: int = 200, tensors: Sequence[str] = TENSORS, *, every: int = 1, name: str = "", **changes: Any
) -> Run:
    """A run with a value in every column that a chart reads; `changes` override columns of the table of steps."""
    rng = np.random.default_rng(0)
    at = np.arange(steps)
    noise = rng.standard_normal(steps)
    columns: dict[str, Any] = {
        **_individual(rng, noise),
        **_curvature(at),
        "step": range(steps),
        "optimizer": 0,
        "time": at * 0.01,
        "duration": 0.01 * np.exp(0.1 * noise),
        "probed": at % every == 0,
        "batch_size": 64,
        "loss": 0.1 + 2.2 * np.exp(-at / max(1, steps / 5)) + 0.01 * noise**2,
        "loss_part": 0.1 + 2 * np.exp(-at / max(1, steps / 5)),
        "lr": [[0.1 * (1 - s / steps), 0.01] for s in range(steps)],
        "grad_norm": np.exp(0.5 * noise),
        "grad_norm_clipped": [1.0 if value > 0 else None for value in noise],
        "stale_grad_norm": 0.0,
        "update_norm": 0.1 * np.exp(0.5 * noise),
        "loss_var": 0.1,
        "loss_count": 64,
        "start_slope": -0.01 * np.exp(0.3 * noise),
        "start_slope_var": 1e-4,
        "end_slope": 0.01 * rng.standard_normal(steps),
        "end_slope_var": 1e-4,
        "slope_count": 64,
        "training_share": 1.0,
        "input_mean": 0.1,
        "input_std": 1.0,
        "input_absmax": 3.0,
        "input_spread": 2.0,
        "input_nonfinite": 0.0,
        "prediction_min": -4.0,
        "prediction_max": 4.0,
        "target_min": 0.0,
        "target_max": 9.0,
        "class_counts": [[6.0, 58.0]] * steps,
        "class_hits": [[3.0, 50.0 + 8 * s / steps] for s in range(steps)],
    }
    write_run(
        path / (name or "full"),
        columns | changes,
        _layers(rng, tensors, at[:: max(1, every)]),
        EVENTS,
        _metrics(steps),
        _modules(rng, at[:: max(1, every)]),
        _histograms(rng, tensors, at[:: max(1, every)]),
        manifest={
            "tensors": tensor_entries(tensors),
            "parameters": 1234,
            "instruments": INSTRUMENTS,
            "edges": EDGES,
            "target": {"accuracy": 0.99},
        },
    )
    return open_run(path / (name or "full"))


def nan_run(path: Path) -> Run:
    """A run that is nothing but NaN and infinities after the third step."""
    steps = 60
    broken = [1.0, 1e30, 1e300, *([float("nan"), float("inf"), float("-inf")] * 19)]
    nothing = dict.fromkeys(("loss", "grad_norm", "update_norm", "loss_var", "start_slope", "end_slope"), broken)
    changes = nothing | {
        "input_mean": broken,
        "prediction_min": broken,
        "duration": broken,
        "lr": [[v] for v in broken],
    }
    run = full_run(path, steps, name="nan", **changes)
    rows = {
        name: {"grad_norm": broken, "param_norm": broken, "update_norm": broken, "distance": broken} for name in TENSORS
    }
    write_run(
        path / "nan-layers", {"loss": broken} | nothing, rows, end="failed", exception="ValueError: the loss is NaN"
    )
    assert run.step_count == steps
    return open_run(path / "nan-layers")


def one_step_run(path: Path) -> Run:
    """A run of a single step."""
    return full_run(path, 1, name="one-step")


def long_run(path: Path, steps: int = 1_000_000, every: int = 16) -> Run:
    """A run of a million steps with a loss of 99 at one of them, and two tensors."""
    rng = np.random.default_rng(0)
    loss = 0.1 + np.exp(-np.arange(steps) / (steps / 5)) * np.exp(0.1 * rng.standard_normal(steps))
    loss[steps // 3] = 99.0
    probes = np.repeat(np.arange(0, steps, every), 2)
    columns = {
        "loss": loss,
        "grad_norm": np.exp(rng.standard_normal(steps)),
        "time": 0.01 * np.arange(steps),
        "duration": np.full(steps, 0.01),
        "batch_size": np.full(steps, 64),
    }
    names = ["0.weight", "0.bias"]
    tensors = names * (len(probes) // 2)
    layers = {"step": probes, "tensor": tensors, "grad_norm": np.exp(rng.standard_normal(len(probes)))}
    write_run(path / "long", columns, layers, manifest={"tensors": tensor_entries(names)})
    return open_run(path / "long")


def bare_run(path: Path) -> Run:
    """A run that was killed, with the loss and nothing else: no tensor, no layer, no alpha, no optimizer."""
    manifest = {
        "tensors": [],
        "modules": [],
        "groups": [],
        "loss": None,
        "instruments": [],
        "parameters": 0,
        "versions": {},
    }
    for key in ("model", "host", "device", "preset", "started", "command"):
        manifest[key] = None
    write_run(path / "bare", {"loss": [2.0, 1.0, 0.5]}, manifest=manifest | {"schedule": {}}, end=None)
    return open_run(path / "bare")


def hostile_run(path: Path) -> Run:
    """A run whose every name is hostile, the name of its directory among them."""
    manifest: dict[str, Any] = dict.fromkeys(("host", "device", "command", "model", "preset", "git_commit"), HOSTILE[0])
    manifest["groups"] = [{"optimizer": 0, "type": HOSTILE[1], "lr": 0.1, "options": {HOSTILE[2]: HOSTILE[0]}}] * 2
    manifest["loss"] = {"type": HOSTILE[0], "reduction": HOSTILE[1]}
    manifest["hparams"] = {HOSTILE[0]: HOSTILE[1], HOSTILE[6]: [HOSTILE[2]]}
    manifest["versions"] = {HOSTILE[0]: HOSTILE[1]}
    manifest["tensors"] = tensor_entries(HOSTILE, module_type=HOSTILE[0])
    columns = {"loss": np.linspace(2, 1, 20), "lr": [[0.1, 0.2 + s / 100] for s in range(20)], "grad_norm": 1.0}
    safe = [name.replace("\ud800", "") for name in HOSTILE]
    layers = {name: {"grad_norm": 1.0, "param_norm": 2.0, "update_norm": 0.1, "distance": 0.2} for name in safe}
    rows = {name: {key: np.full(20, value) for key, value in values.items()} for name, values in layers.items()}
    metrics = {"step": range(8), "split": safe, "name": safe[::-1], "value": 0.5}
    events = [{"kind": "error", "message": HOSTILE[0], "detail": {"instrument": HOSTILE[1]}}, _wiring(safe)]
    name = "<b>&'\"run"
    write_run(path / name, columns, rows, events, metrics, manifest=manifest, end="failed", exception=HOSTILE[0])
    return open_run(path / name)


def hostile_finding() -> Finding:
    """A finding made of hostile words."""
    return finding(
        name=HOSTILE[0],
        message=HOSTILE[1],
        tensors=HOSTILE,
        evidence=Evidence((HOSTILE[0],), (HOSTILE[1],)),
        causes=HOSTILE,
        advice=HOSTILE,
        chart=ChartRef("layers", "grad_norm", tuple(HOSTILE)),
    )


def finding(code: str = "STP001", **changes: Any) -> Finding:
    """A finding with all its parts."""
    return Finding(
        **{
            "code": code,
            "name": "learning-rate-too-large",
            "severity": "error",
            "message": "The 90 % quantile of alpha is 1.6 in steps 5 to 24.",
            "confidence": 0.9,
            "first_step": 5,
            "last_step": 24,
            "value": 1.6,
            "threshold": 1.0,
            "evidence": Evidence(("the loss rose sixfold",), ("the loss stayed finite",)),
            "causes": ("the learning rate, 0.1, is too large",),
            "advice": ("divide it by 3",),
            "chart": ChartRef("steps", "alpha", (), 1.0),
        }
        | changes
    )


def judged(run: Run, *findings: Finding, states: Sequence[DetectorState] | None = None) -> RunResult:
    """The judgement of a run with these findings, and rules in each state."""
    rules = (
        DetectorState("WIR001", "wiring", "passed"),
        DetectorState("LOS001", "stalled-loss", "not-applicable", "the run is too short"),
        *(DetectorState(item.code, item.name, "fired") for item in findings),
    )
    failing = any(item.severity == "error" for item in findings)
    return RunResult(
        run=run.path,
        status=run.status,
        steps=run.step_count,
        verdict="fail" if failing else "pass",
        findings=findings,
        detectors=tuple(rules if states is None else states),
        problems=run.problems,
    )


def _layers(rng: np.random.Generator, tensors: Sequence[str], steps: np.ndarray) -> Mapping[str, Any]:
    rows = len(steps) * len(tensors)
    return {
        "step": np.repeat(steps, len(tensors)),
        "tensor": list(tensors) * len(steps),
        "grad_norm": np.exp(rng.standard_normal(rows)),
        "gsnr_sum": 3.0 * np.exp(rng.standard_normal(rows)),
        "gsnr_count": 64.0,
        "hess_trace": [
            float(v) if step % 16 == 0 else None
            for step, v in zip(np.repeat(steps, len(tensors)), 10 * rng.standard_normal(rows), strict=True)
        ],
        "silent_rows": rng.random(rows) / 8,
        "param_norm": np.full(rows, 4.0),
        "update_norm": 1e-3 * np.exp(rng.standard_normal(rows)),
        "distance": np.repeat(np.sqrt(steps * 1.0), len(tensors)),
    }


def _individual(rng: np.random.Generator, noise: np.ndarray) -> dict[str, Any]:
    """Statistics of the individual gradients that fit a gradient whose norm is exp(noise / 2)."""
    square = np.exp(noise)
    return {
        "individual_count": 64,
        "inner_mean": square,
        "inner_var": 9.0 * square**2,
        "grad_var": 30.0 * square * np.exp(0.2 * rng.standard_normal(len(noise))),
        "gsnr_sum": 40.0 * np.exp(0.2 * rng.standard_normal(len(noise))),
        "gsnr_count": 1234.0,
    }


def _curvature(at: np.ndarray) -> dict[str, Any]:
    """What is looked at every 16th step."""
    known = at % 16 == 0
    values = {
        "hess_trace": -30.0 + at,
        "ggn_trace": 50.0 + at,
        "tic_sum": 7.0 + 0 * at,
        "tic_count": 1234.0 + 0 * at,
        "hess_max_ev": 5.0 + 0.1 * at,
        "hess_max_ev_residual": 0.1 + 0 * at,
    }
    return {
        name: [float(v) if seen else None for v, seen in zip(column, known, strict=True)]
        for name, column in values.items()
    }


def _modules(rng: np.random.Generator, steps: np.ndarray) -> Mapping[str, Any]:
    names, rows = ("1", "3"), 2 * len(steps)
    return {
        "step": np.repeat(steps, 2),
        "module": names * len(steps),
        "training": True,
        "dead_share": rng.random(rows) / 4,
        "saturated_share": rng.random(rows) / 2,
        "flat_share": rng.random(rows) / 3,
        "unit_count": 128,
        "normalized_over": 64,
    }


def _histograms(rng: np.random.Generator, tensors: Sequence[str], steps: np.ndarray) -> Mapping[str, Any]:
    """Counts of 16 samples in the bins of `EDGES`; of both kinds at the first and the last of the steps."""
    some = tensors[:8]
    counts = rng.multinomial(1024, SHARES, size=len(steps) * len(some)).tolist()
    joint = rng.multinomial(1024, np.full(9, 1 / 9)).tolist()
    ends = {int(steps[0]), int(steps[-1])}
    return {
        "step": np.repeat(steps, len(some)),
        "tensor": list(some) * len(steps),
        "counts": counts,
        "joint_counts": [joint if int(step) in ends else None for step in steps for _ in some],
        "samples": 16,
    }


def _metrics(steps: int) -> Mapping[str, Any]:
    logged = range(0, steps, 10)
    rows = [
        (s, split, name, 1 / (s + 1)) for s in logged for split in ("train", "valid") for name in ("loss", "accuracy")
    ]
    return {
        "step": [row[0] for row in rows],
        "epoch": [row[0] / 10 for row in rows],
        "split": [row[1] for row in rows],
        "name": [row[2] for row in rows],
        "value": [row[3] for row in rows],
    }


def _wiring(names: Sequence[str], **changes: Any) -> dict[str, Any]:
    tensor = {"registered": True, "reached": True, "held": True, "requires_grad": True, "parameter": True} | changes
    return {"kind": "wiring", "detail": {"tensors": [tensor | {"name": name} for name in names]}}


EVENTS = [
    {"kind": "start", "message": "attempt 0 began"},
    _wiring(TENSORS),
    {
        "kind": "loss-input",
        "detail": {
            "loss": "CrossEntropyLoss",
            "prediction_shape": [64, 10],
            "prediction_dtype": "float32",
            "target_shape": [64],
            "target_dtype": "int64",
        },
    },
    {
        "kind": "evaluation",
        "step": 9,
        "detail": {"split": "valid", "training_share": 0.0, "input_mean": 0.1, "input_std": 1.0},
    },
    {"kind": "coverage", "detail": {"share": 0.98, "uncovered": [{"tensor": "2.bias", "reason": "no rule for Odd"}]}},
]
