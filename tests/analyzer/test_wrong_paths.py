"""Whatever is named in place of a run: one sentence that names it and says what would be right."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.directory import GIVE
from analyzer.run import RunError, open_run


def link(path: Path, target: str) -> Path:
    path.symlink_to(target)
    return path


def touched(path: Path) -> Path:
    path.write_text("")
    return path


def run_below(path: Path, *names: str) -> Path:
    for name in names:
        write_run(path / name, {"loss": [1.0]})
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


WRONG: dict[str, tuple[Callable[[Path], Path | str], str]] = {
    "nothing": (lambda root: "", f"'' is no path: {GIVE}."),
    "blanks": (lambda root: "  ", f"'  ' is no path: {GIVE}."),
    "zero": (lambda root: "a\0b", rf"'a\x00b' is no path: {GIVE}."),
    "absent": (lambda root: root / "gone", "{root}/gone does not exist: " + GIVE + "."),
    "too long": (lambda root: root / ("x" * 300), "{path} cannot be read (File name too long)"),
    "file": (lambda root: touched(root / "notes"), "{root}/notes is a file: " + GIVE + "."),
    "pipe": (lambda root: pipe(root / "pipe"), "{root}/pipe is a file: "),
    "empty": (lambda root: made(root / "new"), "{root}/new is empty: "),
    "link": (lambda root: link(root / "last", "gone"), "{root}/last is a link to gone, which does not exist: mend"),
    "ring": (lambda root: link(root / "ring", "ring"), "{root}/ring is a link to ring, which does not exist: mend"),
    "run file": (lambda root: run_below(root, "a") / "a" / "run-a00.json", "did you mean {root}/a?"),
    "shard": (lambda root: run_below(root, "a") / "a/steps/a00-r000-000000.parquet", "did you mean {root}/a?"),
    "table": (lambda root: run_below(root, "a") / "a" / "steps", "holds the steps of a run: did you mean {root}/a?"),
    "run": (lambda root: run_below(root, "a"), "{root} is not a run itself: did you mean {root}/a?"),
    "runs": (
        lambda root: run_below(root, *"abcd"),
        "did you mean one of the 4 below it ({root}/a, {root}/b, {root}/c, …)?",
    ),
    "run file that is none": (
        lambda root: made(root / "a" / "run-a00.json").parent,
        "{root}/a/run-a00.json is no file",
    ),
    "run file to nowhere": (
        lambda root: link(made(root / "a") / "run-a00.json", "gone").parent,
        "{root}/a/run-a00.json is no file: copy the run again",
    ),
    "something else": (lambda root: touched(made(root / "a") / "x").parent, "{root}/a is not a run (no run-a00.json"),
    "uri": (lambda root: "file://", "file:// "),
    "uri of a file": (lambda root: f"file://{touched(root / 'x')}", "{root}/x is a file: "),
}


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=list(WRONG))
def test_one_sentence_says_what_would_be_right(make: Callable[[Path], Path | str], words: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(RunError) as error:
        open_run(path)
    sentence = str(error.value)
    assert words.format(root=tmp_path, path=path) in sentence
    assert "\n" not in sentence
    assert sentence[-1] in ".?"


@pytest.mark.parametrize("inner", ["", "run"])
def test_a_directory_without_permission(inner: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    root = os.geteuid() == 0
    try:
        if root:  # who may read everything
            os.seteuid(65534)
        with pytest.raises(RunError, match=r"cannot be read \(Permission denied\): check its permissions"):
            open_run(tmp_path / "closed" / inner)
    finally:
        if root:
            os.seteuid(0)
        (tmp_path / "closed").chmod(0o700)
