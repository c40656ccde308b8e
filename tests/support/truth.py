"""What a recorder must have written of a loop, computed the slow way: one sample, one backward pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from support.loops import Log, Moment
from support.trainings import read
from torch import Tensor, nn

from recorder.instruments.curvature import HessianTrace

INDIVIDUAL = ("start_slope", "end_slope", "grad_var", "gsnr_sum", "inner_mean", "inner_var")
"""Columns of `steps` that come from the gradients of the samples."""


@dataclass(frozen=True)
class Truth:
    """Of one step: losses of the samples (n,), gradients (n, *shape) by tensor; their means are the step's."""

    losses: Tensor
    gradients: list[Tensor]

    @property
    def flat(self) -> Tensor:
        """(n, entries of all tensors)."""
        return torch.cat([g.reshape(len(g), -1) for g in self.gradients], 1)

    @property
    def mean(self) -> Tensor:
        return self.flat.mean(0)

    def along(self, direction: Sequence[Tensor]) -> Tensor:
        """(n,) g_i.d"""
        return self.flat @ torch.cat([d.reshape(-1) for d in direction]).to(self.flat.dtype)


def truth(model: nn.Module, moment: Moment) -> Truth:
    """Losses and gradients of the samples of all passes of a step, scaled so that their mean is the step's."""
    restore(model, moment)
    passes = []
    for each, random in zip(moment.passes, moment.random, strict=False):
        assert each is not None
        torch.set_rng_state(random)
        passes.append([(loss.detach(), gradients_of(model, loss)) for loss in each(model)])
    samples = sum(len(one) for one in passes)
    losses = torch.stack([loss * (samples / len(one)) for one in passes for loss, _ in one])
    columns = zip(*[[g * (samples / len(one)) for g in found] for one in passes for _, found in one], strict=True)
    return Truth(losses, [torch.stack(column) for column in columns])


def restore(model: nn.Module, moment: Moment) -> None:
    """Set parameters and buffers to what they were."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name in moment.state:
                tensor.copy_(moment.state[name])


def gradients_of(model: nn.Module, loss: Tensor) -> list[Tensor]:
    """Of every parameter of the model, zeros for those that do not move."""
    moving = [p for p in model.parameters() if p.requires_grad]
    found = iter(torch.autograd.grad(loss, moving, retain_graph=True, allow_unused=True, materialize_grads=True))
    rows = [next(found).detach() if p.requires_grad else torch.zeros_like(p) for p in model.parameters()]
    return [row.to_dense() if row.is_sparse else row.clone() for row in rows]


def reasons(path: Path) -> list[str]:
    """Why columns are null."""
    return read(path, "events").filter(pl.col("kind") == "not-measured")["message"].to_list()


def check_null(path: Path, because: str) -> None:
    """No individual gradient was measured at any step, and it says why; what needs none was."""
    steps = read(path, "steps")
    for column in INDIVIDUAL:
        assert steps[column].is_null().all(), f"{column} is not null: {steps[column].to_list()}"
    if (path / "histograms").exists():  # of the first step those of the layers that could be measured
        assert not read(path, "histograms").filter(pl.col("step") > 0).height
    assert any(because in reason for reason in reasons(path)), reasons(path)
    assert steps["loss"].is_not_null().all()
    assert steps["grad_norm"].is_not_null().all()


def check_values(
    path: Path,
    log: Log,
    rel: float = 1e-9,
    only: Sequence[int] | None = None,
    losses: bool = True,
    exact: bool = True,
) -> None:
    """Every value of every step is that of the loop over samples.

    Without `losses`, theirs are not looked at; if not `exact`, neither is what rounding errors may change altogether.
    """
    steps = read(path, "steps").to_dicts()
    assert [row["step"] for row in steps] == list(range(len(log.moments)))
    for index in range(len(log.moments)) if only is None else only:
        check_step(path, log, index, rel, losses, exact=exact)


def check_step(
    path: Path, log: Log, index: int, rel: float, losses: bool = True, gradients: bool = True, exact: bool = True
) -> None:
    """The values of one step: losses of the samples, and what comes from their gradients."""
    row = read(path, "steps").row(index, named=True)
    moment = log.moments[index]
    found = truth(log.model, moment)
    each, samples = found.losses, len(found.losses)
    squared = found.mean.square().sum().item()
    same = same_by(rel)
    assert row["loss"] == same(each.mean())
    assert row["batch_size"] == samples
    if losses and samples > 1:
        assert (row["loss_count"], row["loss_var"]) == (samples, same(each.var()))
    if not gradients:
        return
    assert row["slope_count"] == row["individual_count"] == samples
    if row["stale_grad_norm"] in (None, 0.0):
        assert row["grad_norm"] ** 2 == same(squared)
    slopes = {"start": moment.update, "end": log.moments[index - 1].update if index else None}
    for end, update in slopes.items():
        if update is not None:
            check_scatter(row, f"{end}_slope", f"{end}_slope_var", found.along(update), same)
    check_scatter(row, "inner_mean", "inner_var", found.along([g.mean(0) for g in found.gradients]), same)
    if slopes["end"] is not None:
        assert row["end_slope_total"] == same(row["end_slope"], abs(row["end_slope"]) + 1e-12)
    if samples == 1:
        assert row["grad_var"] is None
        return
    assert row["grad_var"] == same(found.flat.var(0).sum(), squared)
    if exact:
        check_signal(row, found, same)
        check_histograms(path, log, index, found)
    check_layers(path, log, index, found, max(rel, 1e-5), norms=row["stale_grad_norm"] in (None, 0.0))


Same = Callable[..., Any]


def same_by(rel: float) -> Same:
    """What equals a value up to a relative error, of the value or of a larger number it was computed from."""

    def same(value: Any, scale: Any = 0.0) -> Any:
        return pytest.approx(float(value), rel=rel, abs=rel * abs(float(scale)) + 1e-25)

    return same


def check_scatter(row: dict[str, Any], mean: str, var: str, each: Tensor, same: Same) -> None:
    """Mean and variance of one number a sample."""
    largest = each.abs().max()
    assert row[mean] == same(each.mean(), largest), mean
    if len(each) == 1:
        assert row[var] is None
    else:
        assert row[var] == same(each.var(), largest**2), var


def check_signal(row: dict[str, Any], found: Truth, same: Same) -> None:
    """Signal to noise, of the entries whose gradients differ."""
    differ = torch.cat([stands_out(g.reshape(len(g), -1)) for g in found.gradients if g.numel()])
    ratio = found.mean[differ].square() / found.flat.var(0, unbiased=False)[differ]
    assert row["gsnr_count"] == differ.sum().item()
    assert row["gsnr_sum"] == pytest.approx(ratio.sum().item(), rel=1e-7)


def stands_out(each: Tensor) -> Tensor:
    """Entries of one tensor (samples, entries) that are more than rounding errors and not all equal."""
    size = each.abs().amax(0)
    return (size > 1e-13 * size.max()) & (each.std(0) > 1e-7 * size)


def check_layers(path: Path, log: Log, index: int, found: Truth, rel: float, norms: bool) -> None:
    """Scatter of each tensor, and its norm where `.grad` held nothing else."""
    rows = {row["tensor"]: row for row in read(path, "layers").filter(pl.col("step") == index).to_dicts()}
    for (name, p), each in zip(log.model.named_parameters(), found.gradients, strict=True):
        row, flat = rows[name], each.reshape(len(each), -1)
        if p.requires_grad and row["grad_norm"] is not None:
            scale = flat.square().sum().item()
            assert row["grad_var"] == pytest.approx(flat.var(0).sum().item(), rel=rel, abs=1e-12 * scale + 1e-30), name
            assert not norms or row["grad_norm"] == pytest.approx(
                flat.mean(0).norm().item(), rel=rel, abs=1e-7 * scale**0.5
            ), name


def check_histograms(path: Path, log: Log, index: int, found: Truth) -> None:
    """Exact counts of the first samples; entries within rounding of an edge may fall to either side."""
    file = next(file for file in sorted(path.glob("run-a*.json"), reverse=True))
    edges = json.loads(file.read_text())["edges"]
    rows = read(path, "histograms").filter(pl.col("step") == index).to_dicts()
    named = dict(zip([name for name, _ in log.model.named_parameters()], found.gradients, strict=True))
    at_calls = dict(zip(named, log.moments[index].parameters, strict=True))
    assert rows
    for row in rows:
        values = named[row["tensor"]][: row["samples"]]
        places = at_calls[row["tensor"]].expand_as(values)
        joint = edges["gradient-parameter-histogram"]
        counted = [(row["counts"], [(values, edges["gradient-histogram"])])]
        counted.append((row["joint_counts"], [(values, joint["gradient"]), (places, joint["parameter"])]))
        for counts, axes in counted:
            expected, doubtful = counts_in(axes)
            assert sum(counts) == values.numel()
            assert sum(abs(a - b) for a, b in zip(counts, expected, strict=True)) <= 2 * doubtful, row["tensor"]


def counts_in(axes: Sequence[tuple[Tensor, Sequence[Any]]]) -> tuple[list[int], int]:
    """Counts of the entries of some tensors in bins (the last runs fastest), and how many are within rounding of edges.

    A magnitude on an edge belongs to the bin further out.
    """
    bins, doubtful = torch.zeros(axes[0][0].numel(), dtype=torch.int64), torch.zeros(axes[0][0].numel()).bool()
    size = 1
    for values, edges in axes:
        flat = values.double().flatten()
        inner = torch.tensor([float(edge) for edge in edges[1:-1]], dtype=torch.float64)
        above, below = (torch.bucketize(flat, inner, right=right) for right in (True, False))
        bins = bins * (len(inner) + 1) + torch.where(flat >= 0, above, below)
        size *= len(inner) + 1
        doubtful |= (flat.unsqueeze(1) / inner - 1).abs().amin(1) < 1e-9
    return torch.bincount(bins, minlength=size).tolist(), int(doubtful.sum())


def check_curvature(path: Path, log: Log, index: int, loss: Callable[[nn.Module], Tensor], rel: float = 1e-6) -> None:
    """The trace within five standard errors of the estimate, the eigenvalue within its residual of an exact one."""
    row = read(path, "steps").row(index, named=True)
    restore(log.model, log.moments[index])
    torch.set_rng_state(log.moments[index].random[0])
    matrix = hessian(loss(log.model), [p for p in log.model.parameters() if p.requires_grad])
    beside = matrix - torch.diag(matrix.diagonal())
    error = math.sqrt(2 * beside.square().sum().item() / HessianTrace.VECTORS)
    scale = matrix.norm().item() + 1e-12
    assert row["hess_trace"] == pytest.approx(matrix.trace().item(), abs=5 * error + rel * scale)
    nearest = (torch.linalg.eigvalsh(matrix) - row["hess_max_ev"]).abs().min().item()
    assert nearest <= row["hess_max_ev_residual"] + rel * scale


def hessian(loss: Tensor, parameters: list[Tensor]) -> Tensor:
    """(entries, entries), a backward pass a row."""
    first = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True, materialize_grads=True)
    flat = torch.cat([g.reshape(-1) for g in first])
    rows = []
    for entry in flat:
        if not entry.requires_grad:
            rows.append(torch.zeros_like(flat))
            continue
        second = torch.autograd.grad(entry, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([g.reshape(-1) for g in second]))
    matrix = torch.stack(rows).detach()
    return (matrix + matrix.T) / 2
