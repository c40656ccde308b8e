from __future__ import annotations

import re

import pytest

from analyzer.charts import theme
from analyzer.page.palette import light, resolved


def test_every_colour_of_the_charts_has_a_value() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", f"{vars(theme)}"))
    assert len(used) > 8
    assert used <= light().keys()


def test_variables_become_colours() -> None:
    assert resolved('fill="var(--panel)" stroke="none"') == 'fill="#ffffff" stroke="none"'
    with pytest.raises(KeyError):
        resolved("var(--no-such-colour)")
