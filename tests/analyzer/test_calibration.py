"""What was measured for the rules, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyzer import calibration, rules
from analyzer.calibration import at_most, calibrated, sentences
from analyzer.detectors import DETECTORS
from analyzer.outputs.style import Style
from analyzer.wording import plain

ROW = {"healthy": 251, "errors": 0, "warnings": 0, "notes": 0, "faulty": 12, "named": 11}


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, dict[str, int]]]:
    code = DETECTORS[0].code
    content = {"tuning": {code: ROW, "GRD001": ROW | {"healthy": 40, "errors": 1, "notes": 2, "faulty": 0}}}
    monkeypatch.setattr(calibration, "FILE", tmp_path / "calibration.json")
    calibration.FILE.write_text(json.dumps(content))
    monkeypatch.setattr(calibration, "_content", lambda: json.loads(calibration.FILE.read_text()))
    return content


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    assert at_most(0, 150) == pytest.approx(1 - 0.05 ** (1 / 150))
    assert at_most(1, 100) == pytest.approx(0.0465598, abs=1e-6)
    assert at_most(10, 20) == pytest.approx(0.698046, abs=1e-6)
    assert at_most(3, 3) == 1
    assert at_most(0, 0) == 1


def test_a_rule_says_how_often_it_erred(content: object) -> None:
    (said,) = sentences(DETECTORS[0].code)
    assert plain(said) == (
        "Measured on the programs it was tuned on: 0 alarms in 251 healthy runs: at most 1.2 % with 95 % confidence; "
        "fired in 11 of 12 runs with such a fault."
    )
    (said,) = sentences("GRD001")
    assert plain(said) == (
        "Measured on the programs it was tuned on: 3 alarms (1 error, 2 notes) in 40 healthy runs: at most 18.3 % with "
        "95 % confidence."
    )
    assert sentences("ZZZ999") == ("False alarms: not measured.",)


def test_what_was_held_out_is_told_first(content: dict[str, dict[str, dict[str, int]]]) -> None:
    content["heldout"] = {"GRD001": ROW | {"healthy": 0}}
    calibration.FILE.write_text(json.dumps(content))
    first, second = sentences("GRD001")
    assert first.startswith("Measured on programs of the last test: false alarms not measured; fired in 11 of 12")
    assert second.startswith("Measured on the programs it was tuned on: 3 alarms")


def test_a_confidence_is_the_share_that_was_right_once_there_are_enough_of_them(
    content: dict[str, dict[str, dict[str, int]]],
) -> None:
    content["tuning"]["GRD001"] = ROW | {"fired": 100, "true": 48}
    content["heldout"] = {"GRD001": ROW | {"fired": 500, "true": 500}}  # the test has no say
    calibration.FILE.write_text(json.dumps(content))
    assert calibrated("GRD001", 0.9) == pytest.approx((48 + 9) / 110, abs=1e-3)
    assert calibrated(DETECTORS[0].code, 0.9) == 0.9  # never fired
    assert calibrated("USR001", 0.9) == 0.9


def test_the_page_of_a_rule_tells_it(content: object) -> None:
    page = rules.page(DETECTORS[0], Style())
    assert "0 alarms in 251 healthy runs: at most 1.2 % with 95 % confidence" in page


def test_what_ships_is_about_rules_that_there_are() -> None:
    if calibration.FILE.exists():
        parts = json.loads(calibration.FILE.read_text())
        assert set(parts) <= set(calibration.PARTS)
        for part, codes in parts.items():
            assert set(codes) <= {detector.code for detector in DETECTORS}
            assert all(calibration.measured(code, part) is not None for code in codes)
