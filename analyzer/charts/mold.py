"""Charts that differ only in their numbers: one is drawn, the others are cast after it, in a fraction of the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt
import polars as pl


@dataclass(frozen=True)
class Mold:
    """A chart that others are like. Its layers draw one and the same data."""

    chart: alt.LayerChart

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite."""
        return self.chart.to_dict(validate=False)


@dataclass(frozen=True)
class Cast:
    """The chart of a mold with other data, other values of its parameters, and another description."""

    mold: Mold
    data: pl.DataFrame
    parameters: Mapping[str, Any]
    description: str

    def __getitem__(self, name: str) -> Any:
        """A property of the chart."""
        return self.mold.chart[name]

    def to_dict(self, *, validate: bool = True) -> dict[str, Any]:
        """The chart as Vega-Lite; what there is to validate is the mold's."""
        spec = self.mold.chart.to_dict() if validate else self.mold.spec
        (name,) = spec["datasets"]
        params = [{**item, "value": self.parameters[item["name"]]} for item in spec["params"]]
        cast = {"description": self.description, "params": params, "datasets": {name: self.data.to_dicts()}}
        return spec | cast
