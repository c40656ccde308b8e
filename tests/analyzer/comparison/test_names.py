from __future__ import annotations

import pytest

from analyzer.comparison.names import LONGEST, short_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ("a", "b")),
        (["tuning/plain/seed-0", "tuning/rate-x30/seed-0"], ("plain", "rate-x30")),
        (["t/plain/seed-0", "t/plain/seed-1", "t/fast/seed-0"], ("plain/seed-0", "plain/seed-1", "fast/seed-0")),
        (["runs/a/", "./runs/b"], ("a", "b")),
        (["a", "deep/down/b"], ("a", "deep/down/b")),
        (["runs/a", "runs/a"], ("a (1)", "a (2)")),
        (["s3://bucket/a/x", "s3://bucket/b/x"], ("a", "b")),
        (["a/b", "b"], ("a/b", "b")),
        ([""], (".",)),
    ],
)
def test_names_are_what_paths_do_not_have_in_common(paths: list[str], names: tuple[str, ...]) -> None:
    assert short_names(paths) == names


def test_long_names_are_cut_and_stay_different() -> None:
    names = short_names([f"{'x' * 200}{i}{'y' * 200}" for i in range(3)])
    assert len(set(names)) == 3
    assert all(len(name) <= LONGEST + 5 for name in names)
