"""How gradients and updates compare from the first layer to the last, free of the scale of loss and parameters."""

from __future__ import annotations

import polars as pl

from .manifest import TensorInfo
from .memo import per_run
from .run import Run

FLOOR = 1e-12
"""Smallest gradient, relative to the largest of the step, that is told from zero: 12 decades."""

NEARLY_ZERO = 1e-3
"""Root mean square of a tensor's elements, relative to the median over tensors, below which it began at zero."""

_SPARSE = ("Embedding", "EmbeddingBag")


def weights(run: Run) -> tuple[TensorInfo, ...]:
    """The trained tensors whose relative size means something by depth, in forward order.

    Matrices and kernels: no biases and scales of norms, which begin at zero or one, and no frozen tensors. Embeddings,
    of which a batch touches a few rows, only where there is nothing else.
    """
    trained = tuple(tensor for tensor in run.tensors if len(tensor.shape) >= 2 and tensor.requires_grad)
    return tuple(tensor for tensor in trained if tensor.module_type not in _SPARSE) or trained


def embeddings_only(run: Run) -> bool:
    """Whether the model has no other weights, and so no depth."""
    return all(tensor.module_type in _SPARSE for tensor in weights(run))


def of_weights(run: Run, *columns: str) -> pl.DataFrame:
    """`step`, `tensor`, `depth` (position among `weights`) and these columns of the layers table.

    Where several optimizers take turns, only the rows of the tensors whose turn it was.
    """
    rows = _rows_of_weights(run)
    frame = run.frame("layers", *columns)[rows["row"]].with_columns(rows["depth"].cast(pl.Int64))
    return frame.select(pl.col("step").set_sorted(), "tensor", "depth", *columns)


@per_run
def _rows_of_weights(run: Run) -> pl.DataFrame:
    """`row` and `depth` of the rows of the layers table that `of_weights` returns, in its order."""
    chosen = weights(run)
    names = [tensor.name for tensor in chosen]
    depth = pl.DataFrame(
        {"tensor": names, "depth": range(len(chosen)), "turn": [_optimizer(run, tensor) for tensor in chosen]},
        schema={"tensor": pl.String, "depth": pl.Int32, "turn": pl.Int64},
    )
    frame = run.frame("layers").with_row_index("row").filter(pl.col("tensor").is_in(names)).join(depth, on="tensor")
    if run.has("steps", "optimizer") and len({group.optimizer for group in run.groups}) > 1:
        turns = run.frame("steps", "optimizer")
        frame = frame.join(turns, on="step", how="left").filter(
            pl.col("optimizer").is_null() | pl.col("turn").is_null() | (pl.col("turn") == pl.col("optimizer"))
        )
    return frame.select("row", "step", "depth").sort("step", "depth").drop("step")


def _optimizer(run: Run, tensor: TensorInfo) -> int | None:
    known = tensor.group is not None and tensor.group < len(run.groups)
    return run.groups[tensor.group].optimizer if known and tensor.group is not None else None


@per_run
def gradient_profile(run: Run) -> pl.DataFrame:
    """Relative gradients by depth, a row per probe: `decades` and `trend`.

    `decades` is log10 of the relative gradient (its norm over the tensor's) of the first layers, less that of the
    last: the mean over a quarter of the layers at either end. `trend` is the correlation of log10 with the depth.
    A step at which no gradient reaches any weight counts as twelve decades. Steps with non-finite values are left out,
    and so are weights without a gradient whose bias has one: their input is zero, and nothing was lost above them.
    """
    frame = _with_input(run, of_weights(run, "grad_norm", "grad_ratio").drop_nulls("grad_norm"))
    count = frame["depth"].n_unique()
    if count < 3:
        return pl.DataFrame(schema={"step": pl.Int64, "decades": pl.Float64, "trend": pl.Float64})
    end = max(1, count // 4)
    largest = pl.col("grad_ratio").max().over("step")
    relative = pl.when(largest > 0).then((pl.col("grad_ratio").fill_null(0.0) / largest).clip(FLOOR)).otherwise(FLOOR)
    # A tensor that is zero and gets a gradient has no relative gradient; one that is zero and gets none is dead.
    told = pl.col("grad_ratio").is_not_null() | (pl.col("grad_norm") == 0)
    finite = frame.filter(pl.col("grad_norm").is_finite().all().over("step") & told)
    return (
        finite.with_columns(relative.cast(pl.Float64).log10().alias("log"))
        .group_by("step", maintain_order=True)
        .agg(
            pl.col("log").head(end).mean().alias("head"),
            pl.col("log").tail(end).mean().alias("tail"),
            pl.corr("depth", "log").fill_nan(0.0).alias("trend"),
            (pl.col("grad_norm") == 0).all().alias("none"),
        )
        .select(
            "step",
            pl.when("none").then(pl.lit(-12.0)).otherwise(pl.col("head") - pl.col("tail")).alias("decades"),
            pl.when("none").then(pl.lit(1.0)).otherwise(pl.col("trend")).alias("trend"),
        )
    )


def _with_input(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of weights without those that get no gradient although their bias does."""
    biases = {tensor.module: tensor.name for tensor in run.tensors if tensor.name.endswith("bias")}
    pairs = {biases[tensor.module]: tensor.name for tensor in weights(run) if tensor.module in biases}
    reached = run.frame("layers", "grad_norm").filter(pl.col("tensor").is_in(list(pairs)) & (pl.col("grad_norm") > 0))
    if reached.is_empty() or not (frame["grad_norm"] == 0).any():
        return frame
    theirs = reached.select("step", pl.col("tensor").replace_strict(pairs, return_dtype=pl.String), reached=True)
    joined = frame.join(theirs, on=["step", "tensor"], how="left", maintain_order="left")
    return joined.filter((pl.col("grad_norm") > 0) | pl.col("reached").is_null()).drop("reached")


def amplification(run: Run, step: int | None = None) -> pl.DataFrame:
    """`step` and `amplification`: the largest gradient of a weight over that of the last layer's bias.

    At each probe, or at one step.
    That bias gets the gradient of the output; the weights get it times the signals that reach them from below. Without
    such a bias, or at steps with a value that is not finite, there is no row.
    """
    chosen = weights(run)
    biases = [
        tensor.name
        for tensor in run.tensors
        if chosen and tensor.module == chosen[-1].module and tensor.name.endswith("bias") and tensor.requires_grad
    ]
    names = [tensor.name for tensor in chosen]
    is_bias, is_weight = pl.col("tensor").is_in(biases), pl.col("tensor").is_in(names)
    kind = pl.when(is_bias).then(pl.lit("bias")).when(is_weight).then(pl.lit("weight"))
    rows = run.frame("layers", "grad_norm")
    rows = rows if step is None else rows.filter(pl.col("step") == step)
    rows = rows.with_columns(kind.alias("kind")).drop_nulls()
    norm = pl.col("grad_norm").cast(pl.Float64)
    return (
        rows.group_by("step", maintain_order=True)
        .agg(
            norm.filter(pl.col("kind") == "weight").max().alias("weight"),
            norm.filter(pl.col("kind") == "bias").sum().alias("bias"),
        )
        .filter((pl.col("bias") > 0) & pl.col("bias").is_finite() & pl.col("weight").is_finite())
        .select("step", (pl.col("weight") / pl.col("bias")).alias("amplification"))
        .sort("step")
    )


@per_run
def update_ratios(run: Run, optimizer: int | None = None) -> pl.DataFrame:
    """Updates relative to the weights, a row per probe: `median`, `largest` and `smallest` over the trained tensors.

    Tensors that no optimizer holds are left out, or that others hold than the one at that position, and those that
    began at zero or nearly so, whose ratio says nothing.
    """
    held = {
        tensor.name: tensor.numel
        for tensor in weights(run)
        if tensor.group is not None and (optimizer is None or _optimizer(run, tensor) == optimizer)
    }
    frame = of_weights(run, "update_ratio", "param_norm").filter(pl.col("tensor").is_in(list(held)))
    sizes = pl.DataFrame({"tensor": list(held), "numel": list(held.values())}, {"tensor": pl.String, "numel": pl.Int64})
    began = frame.group_by("tensor").agg(pl.col("param_norm").first()).join(sizes, on="tensor")
    spread = pl.col("param_norm") / pl.col("numel").sqrt()
    sound = began.filter(spread > NEARLY_ZERO * spread.median()).select("tensor")
    ratio = pl.col("update_ratio")
    return (
        frame.join(sound, on="tensor", how="semi", maintain_order="left")
        .filter(ratio.is_finite())
        .group_by("step", maintain_order=True)
        .agg(ratio.median().alias("median"), ratio.max().alias("largest"), ratio.min().alias("smallest"))
    )
