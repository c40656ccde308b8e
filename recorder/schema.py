"""What a run consists of: tables, columns, units, descriptions, the names of its files, the version of the format.

This is the only definition; the recorder writes by it and the analyzer reads by it. It imports neither torch nor
pyarrow, so that both sides can. Columns are added, never renamed; a column that a run lacks reads as null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

FORMAT = 1
"""Version of the run directory. It grows only when an old analyzer would misread a new run."""

DType = Literal["int64", "float64", "float32", "bool", "string", "list<float64>", "list<int64>"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """How the values that the ranks recorded for the same row become one.

    `first` is for what they share (gradients after the reduction, updates, rates): the lowest rank's that has a value.
    Lists are summed element by element. A `variance` (ddof 1) and a `deviation` (its root, ddof 0) are those of the
    samples of all ranks together, within the ranks and between their means.
    """

    rule: Literal["key", "first", "sum", "max", "min", "mean", "variance", "deviation"]
    weight: str | None = None
    """Column of the same table with the samples behind each value; without one all ranks weigh the same."""
    mean: str | None = None
    """Of a variance or deviation, the column with the mean."""


KEY, FIRST, SUM, MAX, MIN = Ranks("key"), Ranks("first"), Ranks("sum"), Ranks("max"), Ranks("min")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: null means "not measured", never zero."""

    name: str
    dtype: DType
    unit: str
    description: str
    ranks: Ranks | None = None
    """Declared by every recorded column; None for what the analyzer derives."""


@dataclass(frozen=True, slots=True)
class Table:
    """A folder of shards with the same columns. `keys` identify a row within an attempt and a rank."""

    name: str
    description: str
    keys: tuple[str, ...]
    columns: Mapping[str, Column]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


def _table(name: str, description: str, keys: tuple[str, ...], *columns: Column) -> Table:
    silent = [column.name for column in columns if column.ranks is None]
    if silent:
        raise ValueError(f"{name}.{silent[0]} does not say how the values of several ranks become one")
    return Table(name, description, keys, MappingProxyType({column.name: column for column in columns}))


_STEP = Column("step", "int64", "step", "optimizer step, counted from the start of the run", KEY)

STEPS = _table(
    "steps",
    "a row per optimizer step",
    ("step",),
    _STEP,
    Column("optimizer", "int64", "", "position of the optimizer whose step it was", FIRST),
    Column("time", "float64", "s", "when the step began, since the start of the attempt", FIRST),
    Column(
        "duration", "float64", "s", "from the start of the step to the end of the optimizer's step, host clock", MAX
    ),
    Column("probed", "bool", "", "whether the instruments beyond the cheap ones looked at this step", MAX),
    Column("batch_size", "int64", "samples", "samples in the step, summed over its micro-batches", SUM),
    Column("micro_batches", "int64", "", "backward passes accumulated into the step", FIRST),
    Column(
        "evaluations", "int64", "", "forward and backward passes that a closure made within the optimizer's step", FIRST
    ),
    Column(
        "loss",
        "float64",
        "",
        "loss of the step's batch before the update: the sum of what was differentiated",
        Ranks("mean", "batch_size"),
    ),
    Column(
        "loss_part",
        "float64",
        "",
        "part of the loss that the losses seen being called make; what is left are terms of the user's own",
        Ranks("mean", "batch_size"),
    ),
    Column("lr", "list<float64>", "", "learning rate of each parameter group, all optimizers in order", FIRST),
    Column("grad_norm", "float64", "", "Euclidean norm of the gradient of all tensors after the backward pass", FIRST),
    Column("grad_norm_clipped", "float64", "", "the same when the optimizer steps; null if nothing changed it", FIRST),
    Column(
        "stale_grad_norm",
        "float64",
        "",
        "norm of what `.grad` held just before the step's first backward pass; null if it held nothing",
        MAX,
    ),
    Column("loss_scale", "float64", "", "factor by which a gradient scaler multiplied the loss", FIRST),
    Column("skipped", "bool", "", "whether a gradient scaler skipped the optimizer's step", MAX),
    Column("update_norm", "float64", "", "norm of the update that the optimizer made, all tensors", FIRST),
    Column(
        "loss_var",
        "float64",
        "",
        "variance of the individual losses over the samples (ddof 1)",
        Ranks("variance", "loss_count", "loss"),
    ),
    Column("loss_count", "int64", "samples", "individual losses behind loss_var", SUM),
    Column(
        "start_slope",
        "float64",
        "",
        "mean over samples of g_i.d, d the update of this step, g_i before it",
        Ranks("mean", "slope_count"),
    ),
    Column(
        "start_slope_var",
        "float64",
        "",
        "variance over samples of g_i.d (ddof 1), at the start of the update",
        Ranks("variance", "slope_count", "start_slope"),
    ),
    Column(
        "end_slope",
        "float64",
        "",
        "mean over samples of g_i.d, d the update of the previous step, g_i after it",
        Ranks("mean", "slope_count"),
    ),
    Column(
        "end_slope_var",
        "float64",
        "",
        "variance over samples of g_i.d (ddof 1), at the end of the previous update",
        Ranks("variance", "slope_count", "end_slope"),
    ),
    Column("slope_count", "int64", "samples", "individual gradients behind the slopes", SUM),
    Column(
        "end_slope_total", "float64", "", "g.d of the previous update from the batch gradient: checks end_slope", FIRST
    ),
    Column(
        "grad_var",
        "float64",
        "",
        "trace of the covariance of the individual gradients (ddof 1), all tensors",
        Ranks("mean", "individual_count"),
    ),
    Column(
        "gsnr_sum",
        "float64",
        "",
        "sum over entries of squared mean over variance (ddof 0) of the individual gradients",
        SUM,
    ),
    Column("gsnr_count", "float64", "entries", "entries in gsnr_sum: those whose individual gradients differ", SUM),
    Column(
        "inner_mean",
        "float64",
        "",
        "mean over samples of g_i.g, g the gradient: its squared norm",
        Ranks("mean", "individual_count"),
    ),
    Column(
        "inner_var",
        "float64",
        "",
        "variance over samples of g_i.g (ddof 1)",
        Ranks("variance", "individual_count", "inner_mean"),
    ),
    Column("individual_count", "int64", "samples", "individual gradients behind inner_mean and inner_var", SUM),
    Column(
        "hess_trace",
        "float64",
        "",
        "trace of the Hessian of the batch's loss, by Hutchinson's estimate, all tensors",
        Ranks("mean", "batch_size"),
    ),
    Column(
        "ggn_trace",
        "float64",
        "",
        "trace of the generalized Gauss-Newton matrix of the batch's loss, from random gradients, all tensors",
        Ranks("mean", "batch_size"),
    ),
    Column(
        "tic_sum",
        "float64",
        "",
        "sum over entries of the mean squared individual gradient over the diagonal of that matrix, all tensors",
        Ranks("mean", "batch_size"),
    ),
    Column(
        "tic_count",
        "float64",
        "entries",
        "entries in tic_sum: those whose curvature is more than rounding",
        Ranks("mean", "batch_size"),
    ),
    Column(
        "hess_max_ev",
        "float64",
        "",
        "largest (algebraic) eigenvalue of the Hessian of the batch's loss, by Lanczos",
        FIRST,
    ),
    Column(
        "hess_max_ev_residual",
        "float64",
        "",
        "norm of H v - hess_max_ev v: an eigenvalue is at most this far away",
        FIRST,
    ),
    Column("training_share", "float64", "share", "share of the modules that are in training mode", MIN),
    Column(
        "mixing_share",
        "float64",
        "share",
        "share of the gradient of one sample's output, in the first layer's output, that falls on other samples",
        MAX,
    ),
    Column(
        "sequence_here",
        "float64",
        "share",
        "share of the targets of sequences that equal an input at their own position",
        MAX,
    ),
    Column(
        "sequence_next",
        "float64",
        "share",
        "share of the targets of sequences that equal an input at the position after theirs",
        MAX,
    ),
    Column(
        "sequence_later",
        "float64",
        "share",
        "share of the gradient of one output, in the layer that is given that input, that falls on later positions",
        MAX,
    ),
    Column(
        "sequence_mixing",
        "float64",
        "share",
        "share of the gradient of one output, in the layer that is given that input, that falls on other samples",
        MAX,
    ),
    Column(
        "copied_share",
        "float64",
        "share",
        "largest share of the variance of a feature of the input that the target explains, over all probes so far",
        MIN,
    ),
    Column("copied_feature", "float64", "", "position of that feature in the flattened input of a sample", FIRST),
    Column("copied_samples", "float64", "samples", "samples over which copied_share was taken", MIN),
    Column("input_mean", "float64", "", "mean of the model's input", Ranks("mean", "batch_size")),
    Column(
        "input_std",
        "float64",
        "",
        "standard deviation of the model's input",
        Ranks("deviation", "batch_size", "input_mean"),
    ),
    Column("input_absmax", "float64", "", "largest magnitude in the model's input", MAX),
    Column(
        "input_spread",
        "float64",
        "",
        "largest over smallest non-zero standard deviation among the input's features",
        MAX,
    ),
    Column("input_nonfinite", "float64", "", "non-finite values in the model's input", SUM),
    Column("prediction_min", "float64", "", "smallest value of the prediction handed to the loss", MIN),
    Column("prediction_max", "float64", "", "largest value of the prediction handed to the loss", MAX),
    Column("prediction_sum_min", "float64", "", "smallest sum of a prediction over its classes", MIN),
    Column("prediction_sum_max", "float64", "", "largest sum of a prediction over its classes", MAX),
    Column("target_min", "float64", "", "smallest value of the target", MIN),
    Column("target_max", "float64", "", "largest value of the target", MAX),
    Column(
        "class_counts",
        "list<float64>",
        "samples",
        "how often each class occurs among integer targets, or the targets of a binary loss",
        SUM,
    ),
    Column("class_hits", "list<float64>", "samples", "how often each class was predicted where it is the target", SUM),
)

LAYERS = _table(
    "layers",
    "a row per step and parameter tensor: at probes, and at every step around an incident",
    ("step", "tensor"),
    _STEP,
    Column("tensor", "string", "", "name of the parameter tensor", KEY),
    Column("grad_norm", "float32", "", "Euclidean norm of the gradient after the backward pass", FIRST),
    Column("grad_norm_clipped", "float32", "", "the same when the optimizer steps; null if nothing changed it", FIRST),
    Column("param_norm", "float32", "", "Euclidean norm of the tensor before the update", FIRST),
    Column("update_norm", "float32", "", "Euclidean norm of the update", FIRST),
    Column("grad_var", "float32", "", "trace of the covariance of the individual gradients (ddof 1)", Ranks("mean")),
    Column(
        "gsnr_sum",
        "float32",
        "",
        "sum over entries of squared mean over variance (ddof 0) of the individual gradients",
        SUM,
    ),
    Column("gsnr_count", "float32", "entries", "entries in gsnr_sum: those whose individual gradients differ", SUM),
    Column(
        "hess_trace",
        "float32",
        "",
        "trace of the tensor's block of the Hessian, by Hutchinson's estimate",
        Ranks("mean"),
    ),
    Column(
        "grad_square",
        "float32",
        "",
        "mean over samples of the squared norm of the individual gradients",
        Ranks("mean"),
    ),
    Column(
        "ggn_trace",
        "float32",
        "",
        "trace of the tensor's block of the generalized Gauss-Newton matrix, from random gradients",
        Ranks("mean"),
    ),
    Column(
        "tic_sum",
        "float32",
        "",
        "sum over entries of the mean squared individual gradient over the diagonal of that matrix",
        Ranks("mean"),
    ),
    Column(
        "tic_count",
        "float32",
        "entries",
        "entries in tic_sum: those whose curvature is more than rounding",
        Ranks("mean"),
    ),
    Column(
        "distance", "float32", "", "Euclidean distance from the tensor's first recorded value, before the update", FIRST
    ),
    Column(
        "silent_rows",
        "float32",
        "share",
        "share of the rows of a weight (its first dimension) whose gradient is exactly zero when the optimizer steps",
        FIRST,
    ),
    Column(
        "mean_row_norm",
        "float32",
        "",
        "norm that a weight would have if each of its rows were their mean: param_norm if all rows are alike",
        FIRST,
    ),
)

MODULES = _table(
    "modules",
    "a row per step and module that has something to tell about itself",
    ("step", "module"),
    _STEP,
    Column("module", "string", "", "name of the module, or of the layer before a function: layer (function)", KEY),
    Column("training", "bool", "", "whether the module was in training mode", MIN),
    Column(
        "dead_share", "float64", "share", "share of the units that pass nothing on for any sample of the batch", MIN
    ),
    Column(
        "saturated_share", "float64", "share", "share of the units at the flat end of their range for every sample", MIN
    ),
    Column(
        "flat_share",
        "float64",
        "share",
        "share of the values of a tanh, a sigmoid and the like, over units and samples, that are at a flat end",
        Ranks("mean"),
    ),
    Column("unit_count", "int64", "units", "units of the module", FIRST),
    Column("normalized_over", "int64", "values", "values that a batch norm averaged over for each channel", MIN),
)

HISTOGRAMS = _table(
    "histograms",
    "a row per probed step and parameter tensor: how the entries of the individual gradients are distributed",
    ("step", "tensor"),
    _STEP,
    Column("tensor", "string", "", "name of the parameter tensor", KEY),
    Column(
        "counts",
        "list<int64>",
        "entries",
        "entries of the individual gradients in each bin; edges in the run file",
        SUM,
    ),
    Column(
        "joint_counts",
        "list<int64>",
        "entries",
        "the same by bin of the entry and bin of the parameter's element, which runs fastest; edges in the run file",
        SUM,
    ),
    Column("samples", "int64", "samples", "samples whose gradients were counted", SUM),
)

METRICS = _table(
    "metrics",
    "a row per logged metric",
    ("step", "split", "name"),
    _STEP,
    Column("epoch", "float64", "epoch", "epoch, where the caller gave one", FIRST),
    Column("split", "string", "", "train, valid, test, test-valid, or a name of the caller's", KEY),
    Column("name", "string", "", "name of the metric", KEY),
    Column("value", "float64", "", "value of the metric", FIRST),
)

EVENTS = _table(
    "events",
    "a row per thing that happened",
    (),
    _STEP,
    Column("time", "float64", "s", "since the start of the attempt", FIRST),
    Column("kind", "string", "", "one of EVENT_KINDS", FIRST),
    Column("message", "string", "", "a sentence for people", FIRST),
    Column("detail", "string", "", "a JSON object for programs", FIRST),
)

TABLES: Mapping[str, Table] = MappingProxyType(
    {t.name: t for t in (STEPS, LAYERS, MODULES, HISTOGRAMS, METRICS, EVENTS)}
)

_TABLE_OF = {id(column): table.name for table in TABLES.values() for column in table.columns.values()}


def table_of(column: Column) -> str:
    """Name of the table that a column object belongs to; raises KeyError for one that is not of this module."""
    return _TABLE_OF[id(column)]


EVENT_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "start": "an attempt began",
        "wiring": "which leaf tensors the loss reaches, the model registers and an optimizer holds",
        "loss-input": "shapes and types of the prediction and the target",
        "evaluation": "modes and input of a pass outside training",
        "coverage": "share of the parameters whose individual gradients are seen, and why not the rest",
        "not-measured": "a column is null, with the reason",
        "incident": "a non-finite value or a jump: the steps around it are kept in full",
        "skipped-step": "a gradient scaler skipped the optimizer's step",
        "signal": "the process was asked to stop",
        "error": "an instrument failed and was switched off",
        "lost": "rows could not be written",
    }
)

STATUSES = ("completed", "failed")
"""What an end file can say. A run without one was killed, or is still running."""

RUN_FILE = re.compile(r"run-a(?P<attempt>\d{1,9})\.json")
"""What the run file of an attempt is called, within the run directory."""
END_FILE = re.compile(r"end-a(?P<attempt>\d{1,9})-r(?P<rank>\d{1,9})\.json")
"""What the end file of an attempt and rank is called, within the run directory."""
CLAIM_FILE = re.compile(r"claim-a(?P<attempt>\d{1,9})-r(?P<rank>\d{1,9})\.json")
"""What a process that writes an attempt and rank puts into the run directory while it does."""
SHARD = re.compile(r"a(?P<attempt>\d{1,9})-r(?P<rank>\d{1,9})-(?P<sequence>\d{1,9})\.parquet")
"""What a shard is called, within the folder of its table."""
SHARD_SUFFIX = ".parquet"
UNFINISHED = ".tmp"
"""What the name of a file ends in until it is whole."""


def run_file_name(attempt: int) -> str:
    """`run-a00.json`."""
    return f"run-a{attempt:02}.json"


def end_file_name(attempt: int, rank: int) -> str:
    """`end-a00-r000.json`."""
    return f"end-a{attempt:02}-r{rank:03}.json"


def claim_file_name(attempt: int, rank: int) -> str:
    """`claim-a00-r000.json`."""
    return f"claim-a{attempt:02}-r{rank:03}.json"


def shard_name(table: str, attempt: int, rank: int, sequence: int) -> str:
    """`steps/a00-r000-000000.parquet`: the path within the run directory."""
    return f"{table}/a{attempt:02}-r{rank:03}-{sequence:06}{SHARD_SUFFIX}"
