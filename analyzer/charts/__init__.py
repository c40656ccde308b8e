"""The charts of the report, in the order of the page: Cockpit's instruments first, then layer by layer."""

from __future__ import annotations

from .alpha import Alpha
from .alpha_distribution import AlphaDistribution
from .base import Chart
from .batch_size import BatchSize
from .clipping import Clipping
from .distance import Distance
from .gradient_by_depth import GradientByDepth
from .gradient_heatmap import GradientHeatmap
from .gradient_norm import GradientNorm
from .learning_rate import LearningRate
from .loss import Loss
from .metrics import Metrics
from .step_time import StepTime
from .tensor_history import TensorHistory
from .update_heatmap import UpdateHeatmap
from .update_size import UpdateSize

CHARTS: tuple[type[Chart], ...] = (
    Alpha,
    AlphaDistribution,
    Distance,
    UpdateSize,
    GradientNorm,
    GradientByDepth,
    Clipping,
    LearningRate,
    BatchSize,
    Loss,
    Metrics,
    StepTime,
    GradientHeatmap,
    UpdateHeatmap,
    TensorHistory,
)
"""Every chart of the report, by section; a new chart is a new file and a line here."""

__all__ = ["CHARTS", "Chart"]
