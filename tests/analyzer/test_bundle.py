"""The script of the pages is made once and found again; nothing that befalls the cache reaches a page."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from analyzer import bundle
from analyzer.bundle import cache_folder, javascript, kept

MADE = "const vega = 'é';"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry each time that the bundle is made."""
    times: list[str] = []
    monkeypatch.setattr(bundle, "bundled", lambda: times.append("made") or MADE)
    return times


def test_it_is_made_once(tmp_path: Path, made: list[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert [kept(folder), kept(folder)] == [MADE, MADE]
    assert made == ["made"]
    (path,) = folder.iterdir()
    assert gzip.decompress(path.read_bytes()).decode() == MADE


def test_another_version_is_another_file(tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path)
    monkeypatch.setattr(bundle, "version", lambda name: "99.0")
    kept(tmp_path)
    monkeypatch.setattr(bundle, "EXPORT", "window.vega = vega;")
    kept(tmp_path)
    assert len(made) == len(list(tmp_path.iterdir())) == 3


DAMAGED = {"empty": b"", "other": b"no gzip", "torn": gzip.compress(b"x" * 99)[:-9], "no text": gzip.compress(b"\xff")}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_one_is_made_again(tmp_path: Path, made: list[str], damaged: bytes) -> None:
    kept(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damaged)
    assert [kept(tmp_path), kept(tmp_path)] == [MADE, MADE]
    assert len(made) == 2


def test_a_folder_that_cannot_be_is_no_harm(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "file").write_text("x")
    assert kept(tmp_path / "file" / "glideslope") == MADE


def test_it_lies_in_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "glideslope"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "glideslope"


def test_without_a_home_nothing_is_kept(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None
    assert MADE in javascript.__wrapped__()


def test_the_real_one_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    first = kept(tmp_path)
    assert "vegaEmbed" in first
    assert kept(tmp_path) == first
