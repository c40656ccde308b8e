"""A hostile or broken run file: one sentence that names the file and the remedy, or a run that every rule can take."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.runs import run_file, tensor_entries, write_run

from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.engine import judge_run
from analyzer.info import as_json, describe
from analyzer.jsonfile import REMEDY
from analyzer.run import RunError, open_run

NAMES = ["0.weight", "0.bias", "2.weight"]
STEPS = 120
Place = tuple[str | int, ...]


def content() -> dict[str, Any]:
    """A run file in which nothing is empty."""
    filled = {"hparams": {"lr": 0.1, "nested": {"x": [1]}}, "target": {"accuracy": 0.9}, "git_commit": "0f1e2d3"}
    return run_file(tensors=tensor_entries(NAMES)) | filled


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Where values stand, of a list the first alone."""
    yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*above, key))


def changed(place: Place, value: Any) -> Any:
    """The content with another value at a place."""
    document = copy.deepcopy(content())
    holder: Any = document
    for key in place[:-1]:
        holder = holder[key]
    if not place:
        return value
    holder[place[-1]] = value
    return document


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    series = {"grad_norm": [1.0] * STEPS, "param_norm": 1.0, "update_norm": 0.1, "distance": 0.1}
    steps = {"loss": [1 / (i + 1) for i in range(STEPS)], "lr": [[0.1]] * STEPS, "optimizer": 0, "probed": True}
    return write_run(tmp_path_factory.mktemp("odd") / "run", steps, dict.fromkeys(NAMES, series))


def one_sentence(complaint: str, path: Path) -> str:
    assert complaint.startswith(str(path))
    assert "\n" not in complaint
    assert REMEDY in complaint or "install a newer one" in complaint
    assert len(complaint) < 1000
    return complaint


def survived(run_dir: Path, document: Any) -> str | None:
    """Opens and judges the run with this run file; the complaint, if it is refused."""
    path = run_dir / "run-a00.json"
    path.write_text(json.dumps(document))
    try:
        run = open_run(run_dir)
    except RunError as error:
        return one_sentence(str(error), path)
    states = judge_run(run, choose(DETECTORS, Settings())).detectors
    assert [state for state in states if state.state == "failed"] == []
    describe(run)
    as_json(run)
    return None


NUMBER = st.integers(-3, 3) | st.sampled_from([2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**70, -(2**70), 10**400])
SCALAR = st.none() | st.booleans() | NUMBER | st.floats() | st.text(max_size=5) | st.sampled_from(NAMES)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(list(places(content()))), value=JSON)
@example(("tensors", 0, "shape"), [2**40, 2**40])
@example(("tensors", 0, "shape"), [2**70, 0])
@example(("tensors", 0, "group"), 2**62)
@example(("groups", 0, "lr"), 10**400)
@example(("groups", 0, "lr"), float("nan"))
@example(("tensors",), tensor_entries([NAMES[0]] * 3))
@example(("groups",), [])
def test_any_value_at_any_place(recorded: Path, place: Place, value: Any) -> None:
    survived(recorded, changed(place, value))


WHOLE = [place for place in places(content()) if place and place[-1] in ("attempt", "first_step", "rank_count")]
WHOLE += [("parameters",), ("pid",), ("tensors", 0, "group"), ("tensors", 0, "shape", 0), ("groups", 0, "optimizer")]


@pytest.mark.parametrize("place", WHOLE, ids=str)
@pytest.mark.parametrize("value", [2**63, 2**70, -(2**70), 10**400])
def test_a_number_beyond_64_bits_is_refused(recorded: Path, place: Place, value: int) -> None:
    complaint = survived(recorded, changed(place, value))
    assert complaint is not None
    assert str(place[-1] if isinstance(place[-1], str) else place[-2]) in complaint


@pytest.mark.parametrize(
    "place", [("attempt",), ("rank_count",), ("tensors", 0, "group"), ("tensors", 0, "shape", 0)], ids=str
)
def test_a_count_or_a_position_is_not_negative(recorded: Path, place: Place) -> None:
    assert "should be at least" in (survived(recorded, changed(place, -1)) or "")
