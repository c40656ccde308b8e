"""WIR001."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import ByLayer, Training, codes, found, leaf, loss_input, wiring

from analyzer.detectors.wiring import Wiring
from analyzer.findings import Finding, NotApplicable

RULE = Wiring()
NAMES = [f"{layer}.weight" for layer in range(6)]


def wired(**changes: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The leaves of the model, with changes by name; names that the model lacks are added."""
    names = [*NAMES, *(name for name in changes if name not in NAMES)]
    return [leaf(name, **changes.get(name, {})) for name in names]


def with_leaves(
    path: Path, *leaves: Sequence[Mapping[str, Any]], gradient: ByLayer = lambda step, layer: 0.05
) -> list[Finding]:
    events = tuple(wiring(rows, step) for step, rows in enumerate(leaves))
    return found(RULE, Training(events=events, gradient=gradient), path)


def test_all_wired(tmp_path: Path) -> None:
    assert with_leaves(tmp_path, wired()) == []


def test_forgotten(tmp_path: Path) -> None:
    (finding,) = with_leaves(tmp_path, wired(**{"2.weight": {"held": False}}))
    assert (finding.severity, finding.tensors) == ("error", ("2.weight",))
    assert "forgotten" in finding.message


def test_frozen_on_purpose_is_silent(tmp_path: Path) -> None:
    frozen = {"requires_grad": False, "held": False, "reached": False}
    assert with_leaves(tmp_path, wired(**{"0.weight": frozen, "1.weight": frozen | {"held": True}})) == []


def test_held_later_is_silent(tmp_path: Path) -> None:
    """Layers that are unfrozen one by one are added to the optimizer later."""
    assert with_leaves(tmp_path, wired(**{"2.weight": {"held": False}}), wired()) == []


def unreached(*layers: int) -> dict[str, Any]:
    return {f"{layer}.weight": {"reached": False} for layer in layers}


def test_detached_from_the_loss(tmp_path: Path) -> None:
    (finding,) = with_leaves(tmp_path, wired(**unreached(0, 1, 2)), gradient=lambda step, layer: 0.05 * (layer > 2))
    assert (finding.severity, finding.tensors) == ("error", tuple(NAMES[:3]))
    assert "detached" in finding.message


def test_a_branch_that_is_detached_in_the_middle(tmp_path: Path) -> None:
    (finding,) = with_leaves(tmp_path, wired(**unreached(3)), gradient=lambda step, layer: 0.05 * (layer != 3))
    assert (finding.severity, finding.tensors) == ("error", ("3.weight",))


def test_an_unused_head_is_a_note(tmp_path: Path) -> None:
    """Modules that were never called come last in forward order."""
    (finding,) = with_leaves(tmp_path, wired(**unreached(5)), gradient=lambda step, layer: 0.05 * (layer < 5))
    assert (finding.severity, finding.tensors) == ("note", ("5.weight",))
    assert "unused" in finding.message


def test_a_loss_that_reaches_nothing(tmp_path: Path) -> None:
    (finding,) = with_leaves(tmp_path, wired(**unreached(*range(6))), gradient=lambda step, layer: 0.0)
    assert (finding.severity, len(finding.tensors)) == ("error", 6)


def test_reached_later_is_silent(tmp_path: Path) -> None:
    unused: ByLayer = lambda step, layer: 0.05 * (layer < 5)  # noqa: E731
    assert with_leaves(tmp_path, wired(**unreached(5)), wired(), gradient=unused) == []


def test_a_gradient_later_on_counts_as_reached(tmp_path: Path) -> None:
    late: ByLayer = lambda step, layer: 0.05 * (layer < 5 or step > 50)  # noqa: E731
    assert with_leaves(tmp_path, wired(**unreached(5)), gradient=late) == []


def test_stale(tmp_path: Path) -> None:
    rest = {"registered": False, "reached": False}
    (finding,) = with_leaves(tmp_path, wired(**{"unregistered #0 (8, 8)": rest}))
    assert (finding.severity, finding.tensors) == ("error", ("unregistered #0 (8, 8)",))
    assert "stale" in finding.message


def test_a_layer_replaced_after_the_optimizer_was_built(tmp_path: Path) -> None:
    """Two sides of one fault: the old layer is stale, the new one forgotten."""
    rest = {"registered": False, "reached": False}
    first, second = with_leaves(tmp_path, wired(**{"5.weight": {"held": False}, "unregistered #0 (8, 8)": rest}))
    assert "forgotten" in first.message
    assert "replaced" in first.causes[0]
    assert "stale" in second.message


@pytest.mark.parametrize(
    ("changes", "severities"),
    [
        ({"held": False}, ["warning"]),  # layers in a list; or a network that is not trained here
        ({}, ["note"]),  # a temperature of its own: trained, but in no checkpoint
        ({"held": False, "parameter": False}, []),  # an input whose gradient is asked for
        ({"held": False, "requires_grad": False}, []),
    ],
)
def test_unregistered(tmp_path: Path, changes: Mapping[str, Any], severities: list[str]) -> None:
    outside = {"unregistered #0 (8, 8)": {"registered": False} | dict(changes)}
    assert [finding.severity for finding in with_leaves(tmp_path, wired(**outside))] == severities


def test_it_explains_a_stalled_loss(tmp_path: Path) -> None:
    training = Training(
        loss=[2.3026] * 300,
        events=(wiring(wired(**unreached(0, 1, 2, 3))), loss_input()),
        gradient=lambda step, layer: 0.05 * (layer > 3),
    )
    assert codes(training, tmp_path) == [("WIR001", "error")]


def test_without_a_record_it_does_not_judge(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="not recorded"):
        found(RULE, Training(events=()), tmp_path)


def test_odd_records_do_not_crash(tmp_path: Path) -> None:
    odd = ({"kind": "wiring", "detail": {"tensors": None}}, {"kind": "wiring", "detail": {"tensors": ["odd", 3, {}]}})
    assert found(RULE, Training(events=odd), tmp_path) == []
