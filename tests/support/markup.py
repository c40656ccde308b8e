"""A page as a tree of elements, for tests that ask what is on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "wbr"})


@dataclass
class Element:
    """An element with its attributes, its children, and the text directly and deeply inside."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """The element and all below it, in document order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Elements below with this tag and these attributes; `class_` matches one of the classes."""
        return [element for element in self.walk() if element.matches(tag, attributes)]

    def one(self, tag: str = "", **attributes: str) -> Element:
        """The only such element."""
        (found,) = self.all(tag, **attributes)
        return found

    def matches(self, tag: str, attributes: dict[str, str]) -> bool:
        """Whether the tag and all attributes are as asked."""
        if tag and self.tag != tag:
            return False
        wanted = dict(attributes)
        kind = wanted.pop("class_", None)
        if kind is not None and kind not in self.attributes.get("class", "").split():
            return False
        return all(self.attributes.get(name) == value for name, value in wanted.items())

    @property
    def text(self) -> str:
        """All text inside, white space joined."""
        return " ".join("".join(self._pieces()).split())

    def _pieces(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._pieces()
                yield " "


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#document", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Element:
    """The page as a tree. Raises AssertionError where an element is not closed in order."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert [element.tag for element in builder.open] == ["#document"], "not all elements are closed"
    return builder.root
