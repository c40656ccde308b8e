"""The rules, in the order in which they are listed."""

from __future__ import annotations

from .base import Detector

DETECTORS: tuple[Detector, ...] = ()
