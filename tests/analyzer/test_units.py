"""Modules and functions in forward order."""

from __future__ import annotations

from pathlib import Path

from support.runs import write_run

from analyzer.run import open_run
from analyzer.units import forward_order


def test_a_function_follows_the_layer_it_is_named_after(tmp_path: Path) -> None:
    names = ("first", "second", "act")
    modules = [{"name": name, "type": "Linear", "tensors": []} for name in names]
    run = open_run(write_run(tmp_path / "run", {"loss": [1.0]}, manifest={"modules": modules}))
    mixed = ["relu", "act", "second (relu)", "second (tanh)", "first (relu)", "second"]
    expected = ["first (relu)", "second", "second (relu)", "second (tanh)", "act", "relu"]
    assert forward_order(run, mixed) == expected
