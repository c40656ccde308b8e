"""The run file, which says what was recorded, and the end file, which says how it ended."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from . import __version__, schema
from .context import Context
from .instruments import Instrument

_DROPOUTS = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an attempt comes from: taken once, at its start."""

    run_id: str
    attempt: int
    first_step: int
    rank_count: int
    preset: str
    mode: str
    schedule: Mapping[str, int | None]
    hparams: Mapping[str, Any]
    target: Mapping[str, float]
    started: str
    git_commit: str | None


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_commit() -> str | None:
    """Commit checked out in the working directory; None outside a repository or without git."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()
    return None


def run_file(
    origin: Origin, context: Context, order: Sequence[nn.Module], instruments: Sequence[Instrument]
) -> dict[str, Any]:
    """Content of `run-aNN.json`. `order`: modules in the order in which the first forward pass called them."""
    return {
        "format": schema.FORMAT,
        "recorder": __version__,
        "run_id": origin.run_id,
        "attempt": origin.attempt,
        "first_step": origin.first_step,
        "started": origin.started,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "rank_count": origin.rank_count,
        "git_commit": origin.git_commit,
        "command": " ".join(sys.orig_argv),
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "device": str(context.tensors.device),
        "mode": origin.mode,
        "preset": origin.preset,
        "schedule": dict(origin.schedule),
        "parameters": sum(p.numel() for p in context.tensors.parameters if _materialised(p)),
        "model": type(context.model).__name__,
        "tensors": _tensors(context, order),
        "modules": [_module(name, module) for name, module in _called(context.model, order)],
        "groups": [_group(i, o, group) for i, o in enumerate(context.optimizers) for group in o.param_groups],
        "loss": _loss(context.loss_fn),
        "instruments": [_instrument(instrument) for instrument in instruments],
        "edges": {each.name: _plain(each.edges) for each in instruments if each.edges},
        "hparams": _plain(origin.hparams),
        "target": _plain(origin.target),
    }


def end_file(
    origin: Origin, rank: int, last_step: int | None, steps: int, error: BaseException | None
) -> dict[str, Any]:
    """Content of `end-aNN-rNNN.json`."""
    return {
        "format": schema.FORMAT,
        "run_id": origin.run_id,
        "attempt": origin.attempt,
        "rank": rank,
        "ended": now(),
        "last_step": last_step,
        "steps": steps,
        "status": "completed" if error is None else "failed",
        "exception": None if error is None else f"{type(error).__name__}: {error}".rstrip(": "),
    }


def _called(model: nn.Module, order: Sequence[nn.Module]) -> list[tuple[str, nn.Module]]:
    """Named modules in forward order; those never called come last, in the order of registration."""
    place = {id(module): i for i, module in enumerate(order)}
    return sorted(model.named_modules(), key=lambda item: place.get(id(item[1]), len(place)))


def _module(name: str, module: nn.Module) -> dict[str, Any]:
    """A module, with the share that it drops out in training, if any."""
    row: dict[str, Any] = {"name": name, "type": type(module).__name__}
    share = getattr(module, "p" if isinstance(module, _DROPOUTS) else "dropout", None)
    return row | {"dropout": share} if isinstance(share, float) and share > 0 else row


def _tensors(context: Context, order: Sequence[nn.Module]) -> list[dict[str, Any]]:
    """The parameter tensors in forward order."""
    place = {id(module): i for i, module in enumerate(order)}
    modules = dict(context.model.named_modules())
    group_of = {id(parameter): i for i, group in enumerate(context.groups()) for parameter in group["params"]}
    rows = []
    for name, parameter in zip(context.tensors.names, context.tensors.parameters, strict=True):
        owner = name.rpartition(".")[0]
        module = modules.get(owner, context.loss_fn)
        row = {
            "name": name,
            "module": owner,
            "module_type": type(module).__name__,
            "shape": list(parameter.shape) if _materialised(parameter) else None,
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "requires_grad": parameter.requires_grad,
            "group": group_of.get(id(parameter)),
        }
        rows.append((place.get(id(module), len(place)), row))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _group(position: int, optimizer: Optimizer, group: Mapping[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in group.items() if key not in ("params", "lr")}
    rate = group.get("lr")
    return {
        "optimizer": position,
        "type": type(optimizer).__name__,
        "lr": _plain(rate),
        "options": _plain(options),
    }


def _loss(loss_fn: object | None) -> dict[str, Any] | None:
    if loss_fn is None:
        return None
    name = getattr(loss_fn, "__name__", None) or type(loss_fn).__name__
    reduction = getattr(loss_fn, "reduction", None)
    return {"type": str(name), "reduction": None if reduction is None else str(reduction)}


def _instrument(instrument: Instrument) -> dict[str, Any]:
    columns = [
        {"table": schema.table_of(c), "column": c.name, "unit": c.unit, "description": c.description}
        for c in instrument.columns
    ]
    return {"name": instrument.name, "columns": columns}


def _materialised(parameter: nn.Parameter) -> bool:
    """False for a parameter of a lazy module that has not run yet."""
    return not isinstance(parameter, nn.parameter.UninitializedParameter)


def _plain(value: Any, depth: int = 8) -> Any:
    """A value as JSON has it; what JSON has no form for by its `repr`, and what has none of that by its type."""
    try:
        if isinstance(value, Mapping) and depth:
            return {str(key): _plain(item, depth - 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)) and depth:
            return [_plain(item, depth - 1) for item in value]
        if isinstance(value, (str, bool, type(None))):
            return value
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
            value = value.item()
        if isinstance(value, int) and value.bit_length() < 64:
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        return repr(value)
    except Exception:  # somebody's `__repr__`, or a number too long to print: one odd value must not cost the run file
        return f"<{type(value).__name__}>"
