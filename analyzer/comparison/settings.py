"""How runs were set up, and in what they differ: hyperparameters, optimizers, model, loss, recorder, surroundings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..memo import per_run
from ..wording import count, number

if TYPE_CHECKING:
    from ..manifest import GroupInfo, TensorInfo
    from ..run import Run

ABSENT = "\u2013"
"""In place of a setting that a run does not have."""

HYPERPARAMETERS, OPTIMIZER, SURROUNDINGS = "Hyperparameters", "Optimizer", "Surroundings"

COURSE = "learning rate over the run"

Key = tuple[str, str]
"""Group and name of a setting."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not the same in all runs, with what each has, as words, in the order of the runs."""

    group: str
    name: str
    values: tuple[str, ...]

    @property
    def shares(self) -> list[tuple[str, int]]:
        """Each value with how many runs have it, the most frequent first."""
        return Counter(self.values).most_common(12)


def differences(runs: Sequence[Run]) -> tuple[Difference, ...]:
    """The settings in which the runs differ, by group; those that no two runs ever share (times, ids) are left out."""
    known = [settings(run) for run in runs]
    keys = list(dict.fromkeys(key for each in known for key in each))
    order = list(dict.fromkeys(group for group, _ in keys))
    found = [Difference(*key, tuple(words(each.get(key)) for each in known)) for key in keys]
    differing = [item for item in found if len(set(item.values)) > 1]
    return tuple(sorted(differing, key=lambda item: order.index(item.group)))


@per_run
def settings(run: Run) -> dict[Key, Any]:
    """Every setting of a run as it was recorded, by group and name; lists and words among them."""
    return {
        (group, name): value
        for group, named in (
            (HYPERPARAMETERS, flat(run.manifest.hparams)),
            (OPTIMIZER, _optimizers(run)),
            ("Loss", _loss(run)),
            ("Model", _model(run)),
            ("Training", _training(run)),
            ("Recorder", _recorder(run)),
            (SURROUNDINGS, _surroundings(run)),
        )
        for name, value in named
        if value is not None
    }


def numeric_settings(run: Run) -> dict[Key, float]:
    """What can be tuned as a number; no switches."""
    return {key: float(value) for key, value in settings(run).items() if is_tunable(key) and _is_number(value)}


def is_tunable(key: Key) -> bool:
    """Whether a setting is one that people tune: a hyperparameter, an option of an optimizer, the batch size."""
    return (key[0] in (HYPERPARAMETERS, OPTIMIZER) or key == ("Training", "batch size")) and key[1] != COURSE


_SEED = re.compile(r"(^|[._ -])(seed|random_?state|trial|replicate)([._ -]|$)", re.IGNORECASE)


def is_seed(key: Key) -> bool:
    """Whether a setting only tells repetitions apart."""
    return _SEED.search(key[1]) is not None


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings with dotted names; short lists of numbers one by one, so that each can be compared."""
    for name, value in values.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{full}.")
        elif isinstance(value, (list, tuple)) and 0 < len(value) <= 4 and all(_is_number(item) for item in value):
            yield from ((f"{full}[{i}]", item) for i, item in enumerate(value))
        else:
            yield full, value


def words(value: Any) -> str:
    """A setting as people read it; a dash where there is none."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value) if abs(value) < 10**15 else str(value)
    if isinstance(value, float):
        return number(value, 6)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _optimizers(run: Run) -> Iterator[tuple[str, Any]]:
    """Kind, rate at the start and options of the parameter groups; those in which the groups differ one by one."""
    groups = [dict(_group(group)) for group in run.groups[:40]]
    for name in dict.fromkeys(name for group in groups for name in group):
        values = [group.get(name) for group in groups]
        if all(value == values[0] for value in values):
            yield name, values[0]
        else:
            yield from ((f"{name} of group {i}", value) for i, value in enumerate(values))
    yield "groups", len(run.groups) or None
    yield COURSE, _rates(run)


def _group(group: GroupInfo) -> Iterator[tuple[str, Any]]:
    yield "type", group.type or None
    yield "lr", group.lr
    yield from flat({name: value for name, value in group.options.items() if name not in ("lr", "initial_lr")})


def _rates(run: Run) -> str | None:
    """The course of the largest learning rate: `0.1 throughout`, or from what to what, and its largest value."""
    rates = run.frame("steps", "lr_max")["lr_max"].drop_nulls()
    if rates.is_empty():
        return None
    first, last, peak = float(rates[0]), float(rates[-1]), rates.max()
    if rates.n_unique() == 1:
        return f"{number(first)} throughout"
    top = f", at most {number(peak)}" if isinstance(peak, float) and peak > max(first, last) else ""
    return f"{number(first)} to {number(last)}{top}"


def _loss(run: Run) -> Iterator[tuple[str, Any]]:
    if run.manifest.loss:
        yield "type", run.manifest.loss.type
        yield "reduction", run.manifest.loss.reduction
    yield from (("recorded as", event.detail.get("loss")) for event in run.events_of("loss-input")[:1])


def _model(run: Run) -> Iterator[tuple[str, Any]]:
    yield "class", run.manifest.model
    yield "parameters", run.manifest.parameters
    yield "tensors", len(run.tensors)
    yield "frozen tensors", sum(not tensor.requires_grad for tensor in run.tensors)
    yield "shapes", _shapes(run.tensors)
    yield "layers without parameters", _others(run)


def _shapes(tensors: Sequence[TensorInfo]) -> str:
    """The kinds and widths of the layers in order, as one word each, so that a changed layer shows."""
    layers = [f"{item.module_type}({' × '.join(map(str, item.shape))})" for item in tensors if len(item.shape) > 1]
    return ", ".join(layers[:12]) + (f" and {len(layers) - 12} more" if len(layers) > 12 else "")


def _others(run: Run) -> str | None:
    """The modules without parameters by kind, so that another activation or another dropout shows."""
    own = {tensor.module for tensor in run.tensors}
    parents = {item.name.rpartition(".")[0] for item in run.manifest.modules}
    kinds = Counter(
        item.type if item.dropout is None else f"{item.type}({number(item.dropout)})"
        for item in run.manifest.modules
        if item.name not in own | parents and item.type != "Identity"
    )
    return ", ".join(f"{kind} \u00d7 {times}" for kind, times in kinds.items()) or None


def _training(run: Run) -> Iterator[tuple[str, Any]]:
    yield "steps", run.step_count
    sizes = run.frame("steps", "batch_size")["batch_size"].drop_nulls()
    yield "batch size", None if sizes.is_empty() else sizes.mode().min()
    pieces = run.frame("steps", "micro_batches")["micro_batches"].drop_nulls()
    yield "micro-batches", None if pieces.is_empty() else pieces.mode().min()
    yield "ranks", run.manifest.rank_count
    yield "attempts", len(run.attempts)
    yield "purpose", "one repeated batch" if run.manifest.mode == "overfit-batch" else None


def _recorder(run: Run) -> Iterator[tuple[str, Any]]:
    yield "preset", run.manifest.preset
    yield from flat(run.manifest.schedule)
    yield "instruments", ", ".join(sorted(item.name for item in run.instruments)) or None
    yield "version", run.manifest.recorder


def _surroundings(run: Run) -> Iterator[tuple[str, Any]]:
    manifest = run.manifest
    yield "git commit", (manifest.git_commit or "")[:12] or None
    yield "command", manifest.command
    yield "device", manifest.device
    yield "host", manifest.host
    yield from manifest.versions.items()
