"""The charts of the report, in the order of the page: what came of it, Cockpit's instruments, then layer by layer."""

from __future__ import annotations

from .alpha import Alpha
from .alpha_distribution import AlphaDistribution
from .base import Chart
from .clipping import Clipping
from .distance import Distance
from .gradient_by_depth import GradientByDepth
from .heatmaps import HEATMAPS
from .learning_rate import LearningRate
from .loss import Loss
from .metrics import Metrics
from .quantities import QUANTITIES
from .step_time import StepTime
from .tensor_history import TensorHistory

CHARTS: tuple[Chart, ...] = (
    Loss(),
    Metrics(),
    QUANTITIES["loss-noise"],
    Alpha(),
    AlphaDistribution(),
    Distance(),
    QUANTITIES["update-size"],
    QUANTITIES["gradient-norm"],
    QUANTITIES["gradient-tests"],
    QUANTITIES["noise-scale"],
    QUANTITIES["mean-gsnr"],
    QUANTITIES["early-stopping"],
    GradientByDepth(),
    Clipping(),
    QUANTITIES["stale-gradients"],
    QUANTITIES["hessian-trace"],
    HEATMAPS["trace-heatmap"],
    QUANTITIES["takeuchi"],
    LearningRate(),
    QUANTITIES["batch-size"],
    QUANTITIES["micro-batches"],
    QUANTITIES["evaluations"],
    QUANTITIES["loss-scale"],
    QUANTITIES["model-input"],
    QUANTITIES["predictions"],
    QUANTITIES["training-mode"],
    HEATMAPS["dead-units"],
    HEATMAPS["saturated-units"],
    HEATMAPS["silent-rows"],
    StepTime(),
    QUANTITIES["throughput"],
    HEATMAPS["gradient-heatmap"],
    HEATMAPS["update-heatmap"],
    HEATMAPS["gsnr-heatmap"],
    TensorHistory(),
)
"""Every chart of the report, by section; a new chart is a new file, or a declaration in the table of its kind, and a
line here."""

__all__ = ["CHARTS", "Chart"]
