"""What the files of a run are called: one definition, by which both packages write and read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder import schema

ROOT = Path(__file__).parents[1]
NUMBER = st.integers(0, 999_999_999)


@given(NUMBER, NUMBER, NUMBER)
def test_names_are_read_as_they_were_written(attempt: int, rank: int, sequence: int) -> None:
    run, end, claim = (
        schema.run_file_name(attempt),
        *(f(attempt, rank) for f in (schema.end_file_name, schema.claim_file_name)),
    )
    shard = schema.shard_name("steps", attempt, rank, sequence).removeprefix("steps/")
    wanted = {"attempt": attempt, "rank": rank, "sequence": sequence}
    for pattern, name in (
        (schema.RUN_FILE, run),
        (schema.END_FILE, end),
        (schema.CLAIM_FILE, claim),
        (schema.SHARD, shard),
    ):
        found = pattern.fullmatch(name)
        assert found is not None
        assert {key: int(number) for key, number in found.groupdict().items()}.items() <= wanted.items()
        assert pattern.fullmatch(name + schema.UNFINISHED) is None


def test_names_by_the_design() -> None:
    names = schema.run_file_name(0), schema.end_file_name(0, 0), schema.shard_name("layers", 1, 23, 456)
    assert names == ("run-a00.json", "end-a00-r000.json", "layers/a01-r023-000456.parquet")


@pytest.mark.parametrize("package", ["recorder", "analyzer"])
def test_no_name_is_spelt_elsewhere(package: str) -> None:
    spelt = re.compile(r"""f?["'].*(run-a|end-a|-r\{|-r\\d|\.parquet)""")
    code = [path for path in (ROOT / package).rglob("*.py") if path != ROOT / "recorder" / "schema.py"]
    lines = [line for path in code for line in path.read_text().splitlines() if spelt.search(line)]
    assert [line for line in lines if '"""' not in line] == []
