"""Real trainings to try glideslope on: one that is fine, and five that each have a fault.

    python -m recorder.demo --list
    python -m recorder.demo healthy runs

They train small networks on the handwritten digits that scikit-learn ships: eight by eight pixels, ten classes, about a
second each. `trainings.py` reads from top to bottom; the loop in it is the one that a user's own script would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "healthy": "a convolutional network that learns the digits",
        "exploding-gradients": "a deep tanh network whose weights start eight times too wide",
        "vanishing-gradients": "a deep network of sigmoid layers",
        "rate-too-large": "the healthy network, its learning rate fifty times larger",
        "stalled-loss": "the healthy network, its learning rate ten thousand times smaller",
        "forgotten-parameters": "the healthy network, whose convolutions the optimizer was never given",
    }
)
"""Names of the trainings, and what each is. Here, so that they can be listed without importing torch."""
