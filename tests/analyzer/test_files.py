"""Files are written whole, and never over what is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzer.errors import GlideslopeError
from analyzer.files import GENERATOR, write_page, write_text

OURS = f'<!doctype html><head>{GENERATOR} 0.1.0"></head>'


def test_a_page_of_ours_is_replaced_and_another_is_not(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_page(path, OURS)
    write_page(path, OURS + "2")
    assert path.read_text() == OURS + "2"
    path.write_text("<html>precious</html>")
    with pytest.raises(
        GlideslopeError, match="was not written by glideslope: name another file with -o, or use --force"
    ):
        write_page(path, OURS)
    assert path.read_text() == "<html>precious</html>"
    write_page(path, OURS, force=True)
    assert path.read_text() == OURS


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(GlideslopeError, match="is a directory"):
        write_page(tmp_path, OURS, force=True)


def test_what_cannot_be_written_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(GlideslopeError, match="cannot be written"):
        write_text(tmp_path / "file" / "report.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_permissions_are_those_of_a_new_file_and_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "target").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_is_written_to(tmp_path: Path) -> None:
    write_text(Path(os.devnull), "x")
    assert not Path(os.devnull).is_file()
