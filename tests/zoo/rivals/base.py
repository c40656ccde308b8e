"""What the rules of other tools share when they judge our recordings.

Only norms of tensors are recorded, not their entries. Where a rule asks for the mean magnitude of entries, their root
mean square stands in, which is never smaller and for random entries a quarter larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from zoo.judging import Contender, Named, Said

from analyzer.findings import NotApplicable
from analyzer.run import Run

NOT_RECORDED = "needs what is not recorded: "


@dataclass(frozen=True)
class Rule:
    """A rule of another tool. `fires` gives the step at which it first does, None where it is content.

    It raises NotApplicable where the recording lacks what it needs. `kinds`: what it counts as naming.
    """

    name: str
    kinds: tuple[str, ...]
    fires: Callable[[Run], int | None]


def contender(rules: Sequence[Rule], missing: Mapping[str, str], *, ranked: bool = False) -> Contender:
    """A tool. `missing`: its rules that cannot judge any recording, with what they need.

    `ranked`: its rules stand in its own order of precedence, of which only the first is told. Others rank nothing: what
    fires first is taken to be named first.
    """

    def judge(run: Run) -> Said:
        named, silent = [], {name: f"needs {need}" for name, need in missing.items()}
        for rule in rules:
            try:
                step = rule.fires(run)
            except NotApplicable as reason:
                silent[rule.name] = str(reason)
                continue
            if step is not None:
                named.append(Named(rule.name, "error", first_step=step, kinds=rule.kinds))
        ordered = named[:1] if ranked else sorted(named, key=lambda item: item.first_step or 0)
        return Said(tuple(ordered), silent)

    return judge


def first(frame: pl.DataFrame, condition: pl.Expr) -> int | None:
    """The first step at which the condition holds."""
    step = frame.filter(condition)["step"].min()
    return int(step) if isinstance(step, int) else None


def needed(run: Run, table: str, *columns: str) -> pl.DataFrame:
    """The columns; raises NotApplicable if one holds no value."""
    for column in columns:
        if not run.has(table, column):
            raise NotApplicable(f"{NOT_RECORDED}{table}.{column}")
    return run.frame(table, *columns)


def entries(run: Run, *columns: str) -> pl.DataFrame:
    """Per step and tensor these norms as root mean squares of the entries, and `dimensions` of the tensor."""
    frame = needed(run, "layers", *columns).with_columns(pl.col("tensor").cast(pl.String))
    sizes = pl.DataFrame(
        {
            "tensor": [item.name for item in run.tensors],
            "numel": [float(max(item.numel, 1)) for item in run.tensors],
            "dimensions": [len(item.shape) for item in run.tensors],
        }
    )
    joined = frame.join(sizes, on="tensor", maintain_order="left")
    return joined.with_columns(pl.col(name) / pl.col("numel").sqrt() for name in columns)


def weights(run: Run, column: str) -> pl.DataFrame:
    """A column of `layers` for tensors of more than one dimension: biases start at zero, where ratios mean nothing."""
    names = [item.name for item in run.tensors if len(item.shape) > 1]
    return needed(run, "layers", column).filter(pl.col("tensor").cast(pl.String).is_in(names))


def loss(run: Run) -> pl.DataFrame:
    """The loss of every step."""
    return needed(run, "steps", "loss").drop_nulls()


def logged(run: Run, split: str, *names: str) -> pl.Series:
    """The values of the first of these metrics that was logged for a split; raises NotApplicable if none was."""
    frame = run.frame("metrics", "value").filter(pl.col("split").cast(pl.String) == split)
    for name in names:
        values = frame.filter(pl.col("name").cast(pl.String) == name)["value"].drop_nulls()
        if len(values):
            return values
    raise NotApplicable(f"{NOT_RECORDED}the {names[0]} of the split {split}")


def nonfinite(run: Run) -> int | None:
    """The first step with a loss or a norm that is not finite."""
    frame = run.frame("steps", "loss", "grad_norm", "update_norm")
    return first(frame, pl.any_horizontal(~pl.col("loss", "grad_norm", "update_norm").is_finite()))


def layer_share(column: str, most: float) -> Callable[[Run], int | None]:
    """Fires when more than this share of the units of a module are dead or saturated, by a column of `modules`."""
    return lambda run: first(needed(run, "modules", column), pl.col(column) > most)


def ratio_beyond(threshold: float) -> Callable[[Run], int | None]:
    """Fires when the update of a weight is this large relative to the weight."""
    return lambda run: first(weights(run, "update_ratio"), pl.col("update_ratio") > threshold)


def gradient_below(threshold: float) -> Callable[[Run], int | None]:
    """Fires when the entries of a gradient are below the threshold in the mean."""
    return lambda run: first(entries(run, "grad_norm"), pl.col("grad_norm") < threshold)


def classes(run: Run) -> list[float]:
    """How often each class occurred among the targets that were looked at."""
    counts = needed(run, "steps", "class_counts")["class_counts"].drop_nulls()
    width = counts.list.len().max()
    if not isinstance(width, int) or width < 2:
        raise NotApplicable(f"{NOT_RECORDED}classes")
    return [float(counts.list.get(k, null_on_oob=True).sum()) for k in range(width)]
