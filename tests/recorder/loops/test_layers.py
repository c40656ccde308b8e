"""Every kind of layer in a plain loop: values equal a loop over samples, and the training is the same without us."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.layers import CASES
from support.loops import Case, fly_both
from support.trainings import read
from support.truth import check_curvature, check_null, check_values, reasons

SMALL = 130
"""Parameters of a model whose Hessian is computed as a whole."""


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_a_loop_over_samples(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "run")


def check(chosen: Case, run: Path) -> None:
    log = fly_both(run, chosen.model, lambda net: chosen.optimizer(list(net.parameters())), chosen.train)
    if chosen.null:
        check_null(run, chosen.null)
    else:
        check_values(run, log, chosen.tolerance)
    size = sum(p.numel() for p in log.model.parameters())
    if chosen.no_curvature:
        assert read(run, "steps")["hess_trace"].is_null().all()
        assert read(run, "steps")["hess_max_ev"].is_null().all()
        assert any("hess" in reason for reason in reasons(run))
    elif size <= SMALL:
        torch.manual_seed(0)
        batch = (chosen.model(), chosen.batch())[1]
        check_curvature(run, log, 0, lambda net: chosen.loss(net, batch))
    assert [row for row in read(run, "events").to_dicts() if row["kind"] in ("error", "lost")] == []


@pytest.mark.parametrize("name", ["linear", "conv 2d", "lstm, last state", "gru, last state", "transformer"])
@pytest.mark.parametrize("n", [2, 4, 10])
def test_whatever_the_number_of_samples(name: str, n: int, tmp_path: Path) -> None:
    """Also where it is that of the channels, of the steps in time, or a divisor of them."""
    chosen = CASES[name]

    def batch() -> Any:
        x = chosen.batch()[0]
        return torch.randn(n, *x.shape[1:], dtype=x.dtype), torch.randint(3, (n,))

    check(replace(chosen, batch=batch, steps=2), tmp_path / "run")
