"""The audits as sentences: what was seen of modes, inputs, the loss's input and the wiring. They judge nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ..detectors.mixed_samples import ROUNDING
from ..own_terms import own_terms
from ..wording import count, listed, number, percent, plural

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Audit:
    """A row of the table: what was looked at, and sentences on what was seen; none if nothing was recorded."""

    name: str
    question: str
    seen: tuple[str, ...]


def audits(run: Run) -> tuple[Audit, ...]:
    """Every audit, also those without a recording."""
    return tuple(Audit(name, question, tuple(look(run))) for name, question, look in _AUDITS)


def _mode(run: Run) -> Iterable[str]:
    share = _values(run, "training_share")
    if len(share):
        yield f"{_between(share, percent)} of the modules in training mode at {plural(len(share), 'probed step')}."
    for split, details in _evaluations(run).items():
        shares = _numbers(details, "training_share")
        if shares:
            yield f"{split}: at most {percent(max(shares))} in training mode over {plural(len(details), 'evaluation')}."
    smallest = run.frame("modules", "normalized_over")["normalized_over"].min()
    if isinstance(smallest, int):
        yield f"Batch norms averaged over at least {plural(smallest, 'value')}."


def _model_input(run: Run) -> Iterable[str]:
    mean, deviation, largest = (_values(run, f"input_{name}") for name in ("mean", "std", "absmax"))
    if len(mean) and len(deviation):
        yield f"Mean {_between(mean)}, standard deviation {_between(deviation)}."
    if len(largest):
        yield f"Largest magnitude {_between(largest)}."
    spread = _values(run, "input_spread")
    if len(spread):
        yield _spread(spread)
    odd = _values(run, "input_nonfinite")
    if len(odd):
        yield f"{plural(int(odd.sum()), 'value')} not finite in {plural(len(odd), 'probed step')}."
    for split, details in _evaluations(run).items():
        means, deviations = _numbers(details, "input_mean"), _numbers(details, "input_std")
        if means and deviations:
            yield f"{split}: mean {number(means[-1])}, standard deviation {number(deviations[-1])}."


def _spread(spread: pl.Series) -> str:
    """How much more the widest feature of the input varies than the narrowest."""
    told = _between(spread)
    if told == "1":
        return "All features that vary do so equally."
    return f"The standard deviation of the widest feature is {told} times that of the narrowest."


def _loss_input(run: Run) -> Iterable[str]:
    for event in run.events_of("loss-input")[:1]:
        detail = event.detail
        prediction = f"{_shape(detail.get('prediction_shape'))} {detail.get('prediction_dtype', '')}".strip()
        target = f"{_shape(detail.get('target_shape'))} {detail.get('target_dtype', '')}".strip()
        yield f"{detail.get('loss') or 'The loss'} compared a prediction {prediction} with a target {target}."
    low, high = _values(run, "prediction_min"), _values(run, "prediction_max")
    if len(low) and len(high):
        yield f"Predictions from {number(_least(low))} to {number(_most(high))}."
    low, high = _values(run, "prediction_sum_min"), _values(run, "prediction_sum_max")
    if len(low) and len(high):
        yield f"Their sums over the classes from {number(_least(low))} to {number(_most(high))}."

    terms = own_terms(run)
    if terms is not None:
        part, own = number(terms.part[-1]), number(terms.own[-1])
        yield f"At the end {part} of the loss is of the loss that was called, {own} of terms beside it."


def _mixing(run: Run) -> Iterable[str]:
    looked = [*_values(run, "mixing_share"), *_values(run, "sequence_mixing").drop_nans()]
    for share in [max(looked)] if looked else []:
        if share > ROUNDING:
            yield f"{percent(share)} of the gradient of one sample's output falls on other samples."
        else:
            yield "The output for one sample depends on no other."


def _answers(run: Run) -> Iterable[str]:
    copied = _values(run, "copied_share")
    if len(copied):
        yield f"The target explains at most {percent(_most(copied.tail(1)))} of the variance of a feature of the input."
    looked = run.frame("steps", "sequence_here", "sequence_next", "sequence_later").drop_nulls("sequence_here")
    if looked.height:
        here, following = percent(_most(looked["sequence_here"])), percent(_most(looked["sequence_next"]))
        yield f"Targets of sequences that are inputs of their own position: {here}; of the next: {following}."
    later = looked["sequence_later"].drop_nans().drop_nulls()
    if len(later):
        yield f"{percent(_most(later))} of the gradient of an output falls on later positions."


def _targets(run: Run) -> Iterable[str]:
    low, high = _values(run, "target_min"), _values(run, "target_max")
    if len(low) and len(high):
        yield f"Targets from {number(_least(low))} to {number(_most(high))}."
    counts = run.frame("steps", "class_counts")["class_counts"].drop_nulls()
    if len(counts):
        totals = (
            counts.to_frame()
            .select(pl.col("class_counts").list.to_struct(fields=_fields(counts)))
            .unnest("class_counts")
            .sum()
        )
        shares = [float(value or 0) for value in totals.row(0)]
        if sum(shares) > 0:
            rarest, commonest = percent(min(shares) / sum(shares)), percent(max(shares) / sum(shares))
            yield f"{plural(len(shares), 'class')}: the rarest {rarest}, the commonest {commonest} of the targets."


def _gradients(run: Run) -> Iterable[str]:
    stale = _values(run, "stale_grad_norm")
    if len(stale):
        left = len(stale.filter(stale > 0))
        yield (
            f"Gradients were left over before the backward pass at {plural(left, 'step')} of {count(len(stale))}."
            if left
            else f"No gradient was left over before the backward pass at any of {plural(len(stale), 'step')}."
        )
    norms, clipped = run.count("steps", "grad_norm"), run.count("steps", "grad_norm_clipped")
    if norms:
        yield f"Changed before the optimizer's step (clipping) at {percent(clipped / norms)} of the steps."
    skipped = _values(run, "skipped")
    if len(skipped):
        yield f"A gradient scaler skipped {plural(int(skipped.sum()), 'step')} of {count(len(skipped))}."


def _wiring(run: Run) -> Iterable[str]:
    events = run.events_of("wiring")
    tensors = _objects(events[-1].detail.get("tensors")) if events else []
    if not tensors:
        return
    yield f"{plural(len(tensors), 'leaf tensor')} looked at."
    for sentence, chosen in _GAPS:
        names = [str(tensor.get("name")) for tensor in tensors if chosen(tensor)]
        if names:
            yield f"{sentence}: {listed(names, most=4)}."
    if not any(chosen(tensor) for tensor in tensors for _, chosen in _GAPS):
        yield "The loss reaches, the model registers and an optimizer holds every one of them."


def _coverage(run: Run) -> Iterable[str]:
    for event in run.events_of("coverage")[-1:]:
        share = _number(event.detail.get("share"))
        if share is not None:
            yield f"Individual gradients are seen for {percent(share)} of the parameters."
        missing = [f"{item.get('tensor')} ({item.get('reason')})" for item in _objects(event.detail.get("uncovered"))]
        if missing:
            yield f"Not for {listed(missing, most=3)}."


_GAPS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("Held by an optimizer but not reached by the loss", lambda t: bool(t.get("held")) and not t.get("reached")),
    ("Reached by the loss but held by no optimizer", lambda t: bool(t.get("reached")) and not t.get("held")),
    ("Not registered in the model", lambda t: not t.get("registered")),
    ("Frozen (requires no gradient)", lambda t: t.get("requires_grad") is False),
)

_AUDITS: tuple[tuple[str, str, Callable[[Run], Iterable[str]]], ...] = (
    ("Mode", "Was the model in training mode while training, and not while evaluated?", _mode),
    ("Model input", "Is the input scaled, and finite?", _model_input),
    ("Loss input", "Do prediction and target fit the loss?", _loss_input),
    ("Samples", "Is what is said of a sample its own?", _mixing),
    ("Answers", "Is the target among the inputs, or what is to come?", _answers),
    ("Targets", "Are the classes balanced?", _targets),
    ("Gradients", "Were they zeroed between steps, clipped, or skipped?", _gradients),
    ("Wiring", "Does each tensor get a gradient and an update?", _wiring),
    ("Coverage", "Whose individual gradients are behind alpha?", _coverage),
)


def _values(run: Run, column: str) -> pl.Series:
    return run.frame("steps", column)[column].drop_nulls()


def _between(values: pl.Series, show: Callable[[float], str] = number) -> str:
    low, high = show(_least(values)), show(_most(values))
    return low if low == high else f"{low} to {high}"


def _least(values: pl.Series) -> float:
    """The smallest value; NaN if there is no other."""
    return _float(values.cast(pl.Float64).fill_nan(None).min())


def _most(values: pl.Series) -> float:
    return _float(values.cast(pl.Float64).fill_nan(None).max())


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _numbers(details: list[Mapping[str, Any]], key: str) -> list[float]:
    found = (_number(detail.get(key)) for detail in details)
    return [value for value in found if value is not None]


def _evaluations(run: Run) -> dict[str, list[Mapping[str, Any]]]:
    """Details of the evaluation events by split."""
    splits: dict[str, list[Mapping[str, Any]]] = {}
    for event in run.events_of("evaluation"):
        splits.setdefault(str(event.detail.get("split") or "evaluation"), []).append(event.detail)
    return splits


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _shape(value: object) -> str:
    return f"({', '.join(str(size) for size in value)})" if isinstance(value, list) else ""


def _fields(counts: pl.Series) -> list[str]:
    width = counts.list.len().max()
    return [str(i) for i in range(width if isinstance(width, int) else 0)]
