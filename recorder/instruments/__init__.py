"""The instruments, and which of them each preset runs.

A new one is a file here, its class in the tuple of the least expensive preset that runs it (one of `_BUSINESS` in
`_FULL` too), and its columns in `schema.py`. A column of `steps` that totals one of `layers` is named in `tables.py`
as well, one that comes from individual gradients in `consistency.py`, which drops it where they do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping

from .alpha import Alpha
from .answer_in_features import AnswerInFeatures
from .answer_in_sequence import AnswerInSequence
from .base import Instrument
from .curvature import HessianTrace, LargestEigenvalue
from .gradient_histogram import GradientHistogram, GradientParameterHistogram
from .individual_gradients import IndividualGradients
from .layer_calls import LayerCalls
from .loss_input import LossInput
from .losses import IndividualLosses
from .mode import Mode
from .model_input import ModelInput
from .norms import GradientNorms, Updates
from .rows import Rows
from .sample_mixing import SampleMixing
from .tic import TakeuchiInformation
from .units import Units
from .wiring import Wiring

__all__ = ["INSTRUMENTS", "PRESETS", "Instrument"]

_AUDITS = (Wiring, LossInput, ModelInput, Mode, SampleMixing, AnswerInFeatures, AnswerInSequence)
_BASIC = (GradientNorms, Updates, Rows, *_AUDITS)
_ECONOMY = (*_BASIC, IndividualLosses, LayerCalls, IndividualGradients, Alpha, GradientHistogram, Units)

_BUSINESS = (*_ECONOMY, HessianTrace, TakeuchiInformation)
_FULL = (*_ECONOMY, HessianTrace, LargestEigenvalue, TakeuchiInformation, GradientParameterHistogram)

INSTRUMENTS: tuple[type[Instrument], ...] = _FULL
"""In the order in which they run: an instrument may use what an earlier one left in the context.

Individual gradients come before alpha: the parts of samples that they make are projected at once. What the criterion of
Takeuchi draws is held until the backward pass, so that Hessians come first."""

PRESETS: Mapping[str, tuple[type[Instrument], ...]] = {
    "basic": _BASIC,
    "economy": _ECONOMY,
    "business": _BUSINESS,
    "full": _FULL,
}
"""From the least to the most expensive."""
