"""Forms of a result against files that were read and approved; text and JSON have tests of their own."""

from __future__ import annotations

import pytest
from support import golden

from analyzer.outputs import OUTPUTS


@pytest.mark.parametrize("name", golden.FORMATS)
def test_the_example_looks_as_it_did(name: str) -> None:
    assert golden.rendered(name) == golden.path(name).read_text(encoding="utf-8")


def test_every_form_has_its_golden_file() -> None:
    assert {output.name for output in OUTPUTS} == {"text", "json", *golden.FORMATS}
    assert {path.stem for path in golden.FOLDER.iterdir()} == set(golden.FORMATS)
