"""Calls the instruments at the moments of a step, and switches off those that fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch

from .context import Context
from .instruments import Instrument
from .step import Step

logger = logging.getLogger("glideslope")

MOMENTS = ("begin", "before_backward", "after_backward", "leave", "before_update", "after_update", "collect", "end")
"""Methods of an instrument, in the order of a step; `leave` may come after `end` where the optimizer steps inside."""
_Calls = dict[str, list[tuple[Instrument, Callable[[Step], None]]]]


class Moments:
    """The instruments of a run. `choose` before each step, then `call` at each of its moments."""

    def __init__(
        self, context: Context, instruments: Iterable[Instrument], strict: bool, own: Iterable[str] = ()
    ) -> None:
        self._context = context
        self._strict = strict
        obstacles = {i: _obstacle(context, i) for i in instruments}
        self.instruments = [i for i, obstacle in obstacles.items() if not obstacle]
        for left_out, obstacle in obstacles.items():
            if obstacle:
                left_out.explain(obstacle)
        self._own = frozenset(own)
        self._probing: dict[tuple[bool, frozenset[str]], frozenset[str]] = {}
        self._calls_of: dict[tuple[object, ...], _Calls] = {}
        self._calls: _Calls = {}
        self._forget()

    def choose(self, index: int, probed: bool, due: frozenset[str]) -> tuple[frozenset[str], bool]:
        """Decide which instruments look at a step: names of those that probe, and whether any but the cheap ones looks.

        `probed`: whether those without an interval of their own probe; `due`: those with one that do.
        """
        probing = self._probing.get((probed, due))
        if probing is None:
            probing = self._probing[probed, due] = frozenset(
                i.name for i in self.instruments if self._probes(i, probed, due)
            )
        wanted = [instrument.wants(index, instrument.name in probing) for instrument in self._asked]
        key = (probing, *wanted)
        if key not in self._calls_of:
            self._calls_of[key] = self._grouped([i for i in self.instruments if i.wants(index, i.name in probing)])
        self._calls = self._calls_of[key]
        return probing, bool(probing) or any(wanted)

    def _probes(self, instrument: Instrument, probed: bool, due: frozenset[str]) -> bool:
        if instrument.serves:
            return probed or bool(due)
        return instrument.name in due if instrument.name in self._own else probed

    def _forget(self) -> None:
        """Start anew after the instruments changed. Only those with a `wants` of their own are asked at each step."""
        self._asked = [i for i in self.instruments if type(i).wants is not Instrument.wants]
        self._calls_of.clear()
        self._probing.clear()

    def call(self, moment: str, step: Step) -> None:
        """Call the chosen instruments that care about this moment."""
        with torch._C.DisableTorchFunction():  # what watches the user's functions need not see ours
            for instrument, method in self._calls[moment]:
                try:
                    method(step)
                except Exception as error:
                    self._switch_off(instrument, step, error)

    def report(self, doing: str, error: Exception, instrument: str | None = None) -> None:
        """Log and record, once, something that went wrong inside the recorder; raise it in strict mode."""
        if self._strict:
            raise error
        first = str(error).partition("\n")[0][:200]
        what = f"{type(error).__name__}: {first}"
        if self._context.once("error", f"{doing}: {what}", instrument=instrument, exception=what):
            logger.warning("glideslope failed while %s: %s", doing, what)

    def _switch_off(self, instrument: Instrument, step: Step, error: Exception) -> None:
        with suppress(Exception):  # it fails already; this only removes its hooks
            instrument.end(step)
        self.report(f"measuring {instrument.name}, which is switched off", error, instrument.name)
        self.instruments = [i for i in self.instruments if i is not instrument]
        self._forget()
        self._calls = {m: [c for c in calls if c[0] is not instrument] for m, calls in self._calls.items()}

    @staticmethod
    def _grouped(instruments: Iterable[Instrument]) -> _Calls:
        """Bound methods by moment, leaving out those that a class did not override."""
        return {
            moment: [
                (i, getattr(i, moment))
                for i in instruments
                if getattr(type(i), moment) is not getattr(Instrument, moment)
            ]
            for moment in MOMENTS
        }


def _obstacle(context: Context, instrument: Instrument) -> str:
    """Why an instrument cannot look at a model at all; empty if it can."""
    if context.sharded and (instrument.needs_layers or instrument.needs_whole):
        return "sharded: each rank holds a part of the parameters"
    return "compiled" if instrument.needs_layers and not context.hooks else ""
