"""The charts of the report, in the order of the page: what came of it, Cockpit's instruments, then layer by layer."""

from __future__ import annotations

from .alpha import Alpha
from .alpha_distribution import AlphaDistribution
from .base import Chart
from .class_heatmaps import CLASS_HEATMAPS
from .clipping import Clipping
from .distance import Distance
from .error_decomposition import ErrorDecomposition
from .gradient_by_depth import GradientByDepth
from .gradient_histogram import GradientHistogram
from .gradient_parameter_histogram import GradientParameterHistogram
from .heatmaps import HEATMAPS
from .learning_rate import LearningRate
from .loss import Loss
from .metrics import Metrics
from .quantities import QUANTITIES
from .sharpness import Sharpness
from .step_time import StepTime
from .tensor_history import TensorHistory

CHARTS: tuple[Chart, ...] = (
    Loss(),
    Metrics(),
    ErrorDecomposition(),
    QUANTITIES["loss-noise"],
    QUANTITIES["loss-beside"],
    Alpha(),
    AlphaDistribution(),
    Distance(),
    QUANTITIES["update-size"],
    QUANTITIES["gradient-norm"],
    QUANTITIES["gradient-tests"],
    QUANTITIES["noise-scale"],
    QUANTITIES["mean-gsnr"],
    QUANTITIES["early-stopping"],
    GradientHistogram(),
    GradientParameterHistogram(),
    GradientByDepth(),
    Clipping(),
    QUANTITIES["stale-gradients"],
    Sharpness(),
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
    CLASS_HEATMAPS["class-balance"],
    CLASS_HEATMAPS["class-recall"],
    QUANTITIES["training-mode"],
    HEATMAPS["dead-units"],
    HEATMAPS["saturated-units"],
    HEATMAPS["flat-values"],
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
