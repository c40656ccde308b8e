"""What broke a run: its steps, or the data that it was fed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.overshoot import broken, fed_nonfinite, harm
from analyzer.phases import phases
from analyzer.progress import measured
from analyzer.run import open_run


@pytest.mark.parametrize("fed", [0.0, 3.0, None])
def test_data_that_are_not_finite_are_no_harm_of_the_steps(tmp_path: Path, fed: float | None) -> None:
    losses = [2.0 - step / 100 for step in range(60)] + [math.nan] * 40
    inputs = [0.0] * 60 + [fed] + [0.0] * 39
    columns = {"loss": losses, "lr": [[0.1]] * 100, "input_nonfinite": inputs}
    run = open_run(write_run(tmp_path / "run", columns))
    progress, phase = measured(run), phases(run)
    assert progress is not None
    assert phase is not None
    assert broken(run) == 60
    assert fed_nonfinite(run, 60) is bool(fed)
    damage = harm(run, progress, phase)
    assert (damage is None) is bool(fed)
