"""The tools whose documented rules judge the same recordings as ours."""

from __future__ import annotations

from collections.abc import Mapping

from zoo.judging import Contender
from zoo.rivals.autotrainer import AUTOTRAINER
from zoo.rivals.mindinsight import MINDINSIGHT
from zoo.rivals.sagemaker import SAGEMAKER
from zoo.rivals.spikes import KILL_LOSS_SPIKE, LIGHTNING, OLMO, TRAINSCOPE
from zoo.rivals.thedeepchecker import THEDEEPCHECKER

RIVALS: Mapping[str, Contender] = {
    "SageMaker Debugger, every step": SAGEMAKER,
    "MindInsight": MINDINSIGHT,
    "AUTOTRAINER": AUTOTRAINER,
    "TheDeepChecker": THEDEEPCHECKER,
    "OLMo": OLMO,
    "Lightning": LIGHTNING,
    "KillLossSpike": KILL_LOSS_SPIKE,
    "trainscope z": TRAINSCOPE,
}
