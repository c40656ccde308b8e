"""Markdown: what it renders to is what was said, in paragraphs, lists and tables."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support import golden
from support.markup import Element, parse
from support.pages import HOSTILE
from support.rules import finding

from analyzer.engine import combine
from analyzer.findings import DetectorState, RunResult
from analyzer.outputs import named
from analyzer.outputs.markdown import code, escaped
from analyzer.outputs.style import Style
from analyzer.wording import visible

GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
PLACES = {
    "paragraph": "{}",
    "list": "- {}",
    "numbers": "1. {}",
    "quote": "> - {}",
    "heading": "### {}",
    "cell": "| a | b |\n| --- | --- |\n| {} | x |",
}
TRICKS = [
    *("- x", "1. x", "2) x", "# x", "+ x", "> x", "===", "---", "    x", "a|b", "\\|", "`x`", "``", "*x*", "__init__"),
    *("~~x~~", "[x](y)", "![x](y)", "<b>", "&amp;", "a\\", "[x]: y", "$x$", "1.", "0.weight", "head.2.*"),
]


def html(markdown: str) -> Element:
    return parse(GITHUB.render(markdown))


def read(element: Element) -> str:
    """What a reader sees: all text inside, white space joined."""
    pieces = (child if isinstance(child, str) else read(child) for child in element.children)
    return words("".join(pieces))


def words(text: str) -> str:
    """The text with white space joined, and without what UTF-8 lacks."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [*TRICKS, *HOSTILE])
def test_names_render_as_they_are_everywhere(place: str, text: str) -> None:
    for written in (escaped(text), code(text)):
        tree = html(PLACES[place].format(written))
        assert read(tree.all(HOLDERS[place])[0]) == words(visible(text))
        assert {element.tag for element in tree.walk()} <= TAGS


HOLDERS = {"paragraph": "p", "list": "li", "numbers": "li", "quote": "li", "heading": "h3", "cell": "td"}
TAGS = {
    *HOLDERS.values(),
    *("#document", "ul", "ol", "blockquote", "p", "span", "code", "table", "thead", "tbody", "tr", "th"),
}


@given(st.text(alphabet=list("ab1 .)-+*_`~#>|\\[](){}<&!$@=:/\n\t")), st.sampled_from(list(PLACES)))
def test_any_text_renders_as_it_is(text: str, place: str) -> None:
    tree = html(PLACES[place].format(escaped(f"a{text}b")))
    assert read(tree.all(HOLDERS[place])[0]) == words(visible(f"a{text}b"))


@pytest.mark.parametrize("text", ["@someone", "see #12", "mail me@example.org"])
def test_nobody_is_mentioned_and_no_issue_linked(text: str) -> None:
    assert not re.search(r"[@#]\w", escaped(text))
    assert read(html(escaped(text))) == text


def test_the_example_renders_to_tables_lists_and_folds() -> None:
    tree = html(golden.rendered("markdown"))
    assert [len(table.all("tr")) for table in tree.all("table")] == [6, 4, 2, 2, 3]
    widths = [{len(row.all("td")) or len(row.all("th")) for row in table.all("tr")} for table in tree.all("table")]
    assert all(len(width) == 1 for width in widths)
    assert [heading.text for heading in tree.all("h3")] == [
        "runs/too large, 1:1",
        "runs/healthy",
        "runs/odd",
        "runs/tonight",
        "runs/gone",
    ]
    assert len(tree.all("details")) == 5
    assert len(tree.all("ol")) == 2


def test_a_hostile_run_brings_no_markup_of_its_own() -> None:
    def tags(word: str) -> list[str]:
        states = (DetectorState("AAA001", word, "failed", word),)
        found = replace(finding(tensors=(word,) * 3, advice=(word,), causes=(word,), unit=word, value=1.0), name=word)
        run = RunResult(word, "failed", 1, "fail", (found,), states, (word,), failure=word)
        tree = html(named("markdown").render(combine([run], "error"), Style()))
        return [element.tag for element in tree.walk() if element.tag not in ("span", "code")]

    assert [word for word in (*HOSTILE, *TRICKS) if tags(word) != tags("plain")] == []
