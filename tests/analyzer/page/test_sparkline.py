from __future__ import annotations

import re

from support.pages import full_run, nan_run, one_step_run
from support.runs import write_run

from analyzer.page.sparkline import HEIGHT, WIDTH, loss_sparkline
from analyzer.run import open_run


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", path)]


def test_the_curve_stays_in_its_box_and_falls_with_the_loss(tmp_path):
    line = loss_sparkline(full_run(tmp_path))
    drawn = points(line.path)
    assert len(drawn) <= 80
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn)
    assert drawn[0][1] < drawn[-1][1], "down the page is down in the loss"
    assert (line.first, line.bad) == ("2.3", ())
    assert line.label == f"Loss from 2.3 to {line.last}"


def test_values_that_are_not_finite_are_stretches_beside_the_curve(tmp_path):
    line = loss_sparkline(nan_run(tmp_path))
    assert [round(start + width) for start, width in line.bad] == [round(WIDTH - 3)]
    assert line.label == "Loss from 1 to 1e300, then not finite"
    assert "nan" not in line.path


def test_a_single_step_is_a_dot_and_no_loss_is_no_curve(tmp_path):
    assert loss_sparkline(one_step_run(tmp_path)).path.endswith("h.1")
    assert loss_sparkline(open_run(write_run(tmp_path / "none", {"grad_norm": [1.0]}))) is None
