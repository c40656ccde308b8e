"""`glideslope demo`: what it does around the recording, and once for real."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run

from analyzer import demo
from analyzer.errors import GlideslopeError


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for `python -m recorder.demo`; holds the names of what was recorded."""
    recorded: list[str] = []

    def fake(*arguments: str) -> str:
        if arguments == ("--list",):
            return "healthy\tlearns\nfaulty\tdoes not\n"
        name, directory = arguments
        marks = {"command": f"python -m recorder.demo {name} {directory}", "hparams": {"training": name, "seed": 0}}
        write_run(Path(directory) / name, {"loss": [2.0, 1.0, 0.5]}, manifest=marks)
        recorded.append(name)
        if name == "broken":
            raise GlideslopeError("it broke")
        return ""

    monkeypatch.setattr(demo, "_recorder_demo", fake)
    return recorded


def test_each_training_gets_a_report_and_all_an_index(recordings: list[str], tmp_path: Path) -> None:
    shown: list[str] = []
    closing = demo.fly(tmp_path / "out", shown.append)
    assert recordings == ["healthy", "faulty"]
    assert shown == ["[1/2] healthy: learns", "[2/2] faulty: does not"]
    index = tmp_path / "out" / "index.html"
    assert f"Open {index} in a browser" in closing
    assert 'href="faulty/report.html' in index.read_text()
    assert (tmp_path / "out" / "healthy" / "report.html").is_file()


def test_a_second_time_nothing_is_recorded_again(recordings: list[str], tmp_path: Path) -> None:
    demo.fly(tmp_path, lambda text: None)
    first = (tmp_path / "index.html").stat().st_mtime_ns
    shown: list[str] = []
    closing = demo.fly(tmp_path, shown.append)
    assert recordings == ["healthy", "faulty"]
    assert (tmp_path / "index.html").stat().st_mtime_ns > first
    assert shown[1] == "[2/2] faulty: does not (recorded before: judged again)"
    assert "Recorded before, and only judged again: faulty, healthy. Remove them to record anew." in closing


STRANGERS: dict[str, dict[str, Any]] = {
    "another program": {"manifest": {"command": "python train.py"}},
    "the same hyperparameters": {"manifest": {"command": "python train.py", "hparams": {"training": "faulty"}}},
    "another training": {"manifest": {"command": "python -m recorder.demo x y", "hparams": {"training": "healthy"}}},
    "an odd one": {"manifest": {"command": "python -m recorder.demo", "hparams": {"training": ["faulty"]}}},
    "no command": {"manifest": {"command": None, "hparams": {"training": "faulty"}}},
}


@pytest.mark.parametrize("arguments", STRANGERS.values(), ids=list(STRANGERS))
def test_a_run_of_somebody_else_is_refused_before_anything_is_written(
    arguments: dict[str, Any], recordings: list[str], tmp_path: Path
) -> None:
    write_run(tmp_path / "faulty", {"loss": [1.0]}, **arguments)
    with pytest.raises(GlideslopeError, match=r"faulty holds a run that the demo did not record: name another"):
        demo.fly(tmp_path, lambda text: None)
    assert recordings == []
    assert [path.name for path in tmp_path.iterdir()] == ["faulty"]
    assert not (tmp_path / "faulty" / "report.html").exists()


@pytest.mark.parametrize("end", [None, "failed"])
def test_a_recording_that_did_not_get_to_its_end_is_told(end: str, recordings: list[str], tmp_path: Path) -> None:
    demo.fly(tmp_path, lambda text: None)
    (tmp_path / "faulty" / "end-a00-r000.json").unlink()
    if end:
        write_run(tmp_path / "faulty", {}, end=end, manifest=demo.open_run(tmp_path / "faulty").manifest.raw)
    with pytest.raises(GlideslopeError, match="faulty holds a recording of the demo that did not get to its end"):
        demo.fly(tmp_path, lambda text: None)


def test_what_a_failed_recording_left_is_removed_if_it_began_here(recordings: list[str], tmp_path: Path) -> None:
    with pytest.raises(GlideslopeError, match="it broke"):
        demo.record(demo.Training("broken", ""), tmp_path)
    assert not (tmp_path / "broken").exists()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "mine.txt").write_text("precious")
    with pytest.raises(GlideslopeError, match="it broke"):
        demo.record(demo.Training("broken", ""), tmp_path)
    assert (tmp_path / "broken" / "mine.txt").read_text() == "precious"


def test_an_index_of_another_program_is_not_overwritten(recordings: list[str], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html>precious</html>")
    with pytest.raises(GlideslopeError, match=r"index\.html exists and was not written by glideslope"):
        demo.fly(tmp_path, lambda text: None)
    assert (tmp_path / "index.html").read_text() == "<html>precious</html>"


def test_without_torch_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(GlideslopeError, match=r"needs torch, pyarrow, scikit-learn: pip install 'glideslope\[demo\]'"):
        demo.trainings()


def test_the_words_of_a_recorder_that_fails_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(GlideslopeError, match=r'recorder\.demo nonsense .*failed: .*no training "nonsense"'):
        demo.record(demo.Training("nonsense", ""), tmp_path)


def test_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    everything = demo.trainings()
    assert everything[0].name == "healthy"
    monkeypatch.setattr(demo, "trainings", lambda: everything[:1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(Path(demo.__file__).parents[1]), *sys.path])
    closing = demo.fly(Path("out"), lambda text: None)
    assert "healthy" in closing
    assert demo.recorded_before(everything[0], Path("out"))
    assert (tmp_path / "out" / "healthy" / "report.html").stat().st_size > 100_000
