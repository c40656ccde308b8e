"""The heatmaps of layers and modules by steps: what each shows, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .grid import Colours
from .heatmap import Heatmap

_SHARE = (0.0, 1.0)

HEATMAPS: Mapping[str, Heatmap] = MappingProxyType(
    {
        heatmap.name: heatmap
        for heatmap in (
            Heatmap(
                name="gradient-heatmap",
                title="Gradient norm, layers by steps",
                section="layers",
                table="layers",
                column="grad_norm",
                colours=Colours(title="gradient norm"),
                peaks=True,
                reading=(
                    "Tensors from the input (top) to the output (bottom). Rows that darken towards the top lose their "
                    "gradient on the way back; columns that brighten throughout are moments when all gradients grew."
                ),
            ),
            Heatmap(
                name="update-heatmap",
                title="Update ratio, layers by steps",
                section="layers",
                table="layers",
                column="update_ratio",
                colours=Colours(title="update norm / parameter norm"),
                peaks=True,
                reading=(
                    "How much each update changes each tensor, relative to its size. Near 1e\u22123 is usual for "
                    "weights; a row that stands out learns much faster or slower than its neighbours. Tensors that "
                    "start at zero show large ratios at first."
                ),
            ),
            Heatmap(
                name="gsnr-heatmap",
                title="Signal-to-noise ratio of the gradient, layers by steps",
                section="layers",
                table="layers",
                column="mean_gsnr",
                colours=Colours(title="mean GSNR"),
                reading=(
                    "How far the samples agree on each tensor's gradient. A dark row is pulled at random, and a bright "
                    "one still learns what all samples share."
                ),
            ),
            Heatmap(
                name="trace-heatmap",
                title="Hessian trace by layer",
                section="curvature",
                table="layers",
                column="hess_trace",
                colours=Colours(title="trace of the tensor's block"),
                reading=(
                    "Where the curvature sits. A layer that is far brighter than the others limits the learning rate "
                    "of all of them; negative means that the loss curves downwards on average along its directions."
                ),
            ),
            Heatmap(
                name="dead-units",
                title="Dead units",
                section="units",
                table="modules",
                column="dead_share",
                colours=Colours(title="share of the units", log=False, domain=_SHARE),
                reading=(
                    "Share of the units of each activation that pass nothing on for any sample of a batch, from the "
                    "input (top) to the output. A row that turns bright and stays so has lost these units."
                ),
                dull=(0.0, "No unit was dead on a whole batch at any probed step."),
            ),
            Heatmap(
                name="saturated-units",
                title="Saturated units",
                section="units",
                table="modules",
                column="saturated_share",
                colours=Colours(title="share of the units", log=False, domain=_SHARE),
                reading=(
                    "Share of the units at the flat end of their range for every sample of a batch: hardly any "
                    "gradient passes them."
                ),
                dull=(0.0, "No unit was saturated on a whole batch at any probed step."),
            ),
            Heatmap(
                name="flat-values",
                title="Values at a flat end",
                section="units",
                table="modules",
                column="flat_share",
                colours=Colours(title="share of the values", log=False, domain=_SHARE),
                reading=(
                    "Share of the values of each bounded activation, over units and samples, at which it is flat. A "
                    "row that is bright throughout lets little gradient pass, whichever end the samples are at."
                ),
                dull=(0.0, "No value was at a flat end at any probed step."),
            ),
            Heatmap(
                name="silent-rows",
                title="Rows without a gradient",
                section="units",
                table="layers",
                column="silent_rows",
                colours=Colours(title="share of the rows", log=False, domain=_SHARE),
                reading=(
                    "Share of the rows of each weight whose gradient is exactly zero, a row being what makes one unit. "
                    "Of an embedding these are the words that a batch lacks; elsewhere they are units that are dead."
                ),
                dull=(0.0, "Every row of every weight had a gradient at each probed step."),
            ),
        )
    }
)
"""By name."""
