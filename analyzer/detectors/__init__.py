"""The rules, in the order in which they are listed. A rule is a file of this folder, and a line here."""

from __future__ import annotations

from .answer_given import AnswerGiven
from .base import Detector
from .bias_before_norm import BiasBeforeNorm
from .class_imbalance import ClassImbalance
from .clipping_before_unscaling import ClippingBeforeUnscaling
from .clipping_too_tight import ClippingTooTight
from .dead_units import DeadUnits
from .diverged import Diverged
from .does_not_fit_one_batch import DoesNotFitOneBatch
from .early_stopping import EarlyStopping
from .edge_of_stability import EdgeOfStability
from .exploding_gradients import ExplodingGradients
from .flipped_sign import FlippedSign
from .frozen_parameters import FrozenParameters
from .leaked_answer import LeakedAnswer
from .loss_spike import LossSpike
from .mixed_samples import MixedSamples
from .noise_dominated import NoiseDominated
from .nonfinite import NonFinite
from .oscillating_loss import OscillatingLoss
from .overfitting import Overfitting
from .rate_decayed import RateDecayed
from .rate_too_large import RateTooLarge
from .rate_too_small import RateTooSmall
from .recorder_degraded import RecorderDegraded
from .run_not_finished import RunNotFinished
from .saturated_units import SaturatedUnits
from .schedule_rhythm import ScheduleRhythm
from .shards_missing import ShardsMissing
from .silent_broadcast import SilentBroadcast
from .small_batch_norm import SmallBatchNorm
from .softmax_twice import SoftmaxTwice
from .stale_gradients import StaleGradients
from .stalled_loss import StalledLoss
from .stuck_at_chance import StuckAtChance
from .symmetric_start import SymmetricStart
from .throughput_stalls import ThroughputStalls
from .too_much_regularisation import TooMuchRegularisation
from .training_mode import TrainingMode
from .unnormalised_inputs import UnnormalisedInputs
from .unnormalised_targets import UnnormalisedTargets
from .unshuffled import Unshuffled
from .update_outlier import UpdateOutlier
from .validation_in_train_mode import ValidationInTrainMode
from .vanishing_gradients import VanishingGradients
from .wide_start import WideInitialisation
from .wiring import Wiring
from .wrong_dimension import WrongDimension
from .wrong_labels import WrongLabels

DETECTORS: tuple[Detector, ...] = (
    Wiring(),
    FrozenParameters(),
    StaleGradients(),
    NonFinite(),
    SymmetricStart(),
    WideInitialisation(),
    DeadUnits(),
    SaturatedUnits(),
    SmallBatchNorm(),
    TrainingMode(),
    ExplodingGradients(),
    VanishingGradients(),
    RateTooLarge(),
    RateTooSmall(),
    RateDecayed(),
    ScheduleRhythm(),
    ClippingTooTight(),
    ClippingBeforeUnscaling(),
    UpdateOutlier(),
    NoiseDominated(),
    StalledLoss(),
    UnnormalisedInputs(),
    UnnormalisedTargets(),
    SoftmaxTwice(),
    WrongDimension(),
    SilentBroadcast(),
    FlippedSign(),
    WrongLabels(),
    LeakedAnswer(),
    Unshuffled(),
    ClassImbalance(),
    MixedSamples(),
    AnswerGiven(),
    StuckAtChance(),
    Diverged(),
    LossSpike(),
    OscillatingLoss(),
    DoesNotFitOneBatch(),
    TooMuchRegularisation(),
    Overfitting(),
    ValidationInTrainMode(),
    RunNotFinished(),
    RecorderDegraded(),
    ShardsMissing(),
    ThroughputStalls(),
    BiasBeforeNorm(),
    EdgeOfStability(),
    EarlyStopping(),
)
"""Every rule, with its defaults."""
