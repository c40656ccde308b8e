"""axe-core finds no violation on any page, in either theme, with everything unfolded."""

from __future__ import annotations

import pytest
from support.visits import PAGES

KEYS_FROM_TOP = 400
"""More presses of the tab key than a page has places to go to."""


@pytest.mark.parametrize(
    ("name", "theme"), [*((name, "light") for name in PAGES), ("faulty", "dark"), ("index", "light")]
)
def test_axe_finds_no_violation(drawn, axe, name, theme):
    seen = drawn(name, theme)
    violations = axe.run(seen.page).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"][:200]) for found in violations] == []


def test_the_tab_key_alone_reaches_every_link_button_field_fold_and_chart(drawn):
    seen = drawn("healthy")
    targets = """() => [...document.querySelectorAll("a[href], button:not(:disabled), input, summary, .slot.linked")]
        .filter((one) => one.checkVisibility()).length"""
    reached = set()
    for _ in range(KEYS_FROM_TOP):
        seen.page.keyboard.press("Tab")
        number = seen.page.evaluate(
            """() => {
                const one = document.activeElement;
                if (one === document.body) return null;
                if (!one.matches("a[href], button, input, summary, .slot.linked")) return -1;
                return (one.dataset.reached ??= String(++window.reached || (window.reached = 1)));
            }"""
        )
        if number is None:
            break
        reached.add(number)
    assert len(reached - {-1}) == seen.page.evaluate(targets)
