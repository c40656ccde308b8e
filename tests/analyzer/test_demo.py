"""`glideslope demo`: what it does around the recording, and once for real."""

from __future__ import annotations

import sys
from pathlib import Path

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
        write_run(Path(directory) / name, {"loss": [2.0, 1.0, 0.5]})
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
    demo.fly(tmp_path, lambda text: None)
    assert recordings == ["healthy", "faulty"]
    assert (tmp_path / "index.html").stat().st_mtime_ns > first


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
    assert (tmp_path / "out" / "healthy" / "report.html").stat().st_size > 100_000
