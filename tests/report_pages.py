"""The report's page as a browser reads it, and results for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from subscriber.testing.library import Expected, judge
from subscriber.testing.run_session import Result
from subscriber.testing.session_page import report_page
from subscriber.testing.stage import Setup

NATIVE, SQLITE = Setup("native", 18), Setup("sqlite", 18)
LISTED = {("101_filter", "sqlite", "server"): Expected("filters are not there yet", 4)}
ONE_ROW = " a | b\n---+---\n 1 | x\n(1 row)"


@dataclass
class Element:
    """An element of a page."""

    name: str
    attributes: dict[str, str | None]
    inside: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(one if isinstance(one, str) else one.text for one in self.inside)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def all(self, name: str = "", class_: str = "") -> list[Element]:
        """The elements in it, those in those too."""
        found: list[Element] = []
        for one in self.inside:
            if isinstance(one, Element):
                if name in ("", one.name) and (not class_ or class_ in one.classes):
                    found.append(one)
                found += one.all(name, class_)
        return found


class Reader(HTMLParser):
    """Reads a page as a browser does, and refuses what a browser would have to mend."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Element("page", {})
        self._open = [self.page]

    def handle_starttag(self, tag, attrs):
        one = Element(tag, dict(attrs))
        self._open[-1].inside.append(one)
        if tag not in ("meta", "col", "input"):
            self._open.append(one)

    def handle_endtag(self, tag):
        assert self._open.pop().name == tag

    def handle_data(self, data):
        self._open[-1].inside.append(data)


def read(page: str) -> Element:
    """The elements of a page."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader.page


def report(results: Sequence[Result], expected: Any = None) -> Element:
    """The page of some results."""
    expected = expected or {}
    return read(report_page([(result, judge(result, expected)) for result in results], expected, "made today"))


def place(page: Element, anchor: str) -> Element:
    """The element that an anchor names."""
    [found] = [one for one in page.all() if one.attributes.get("id") == anchor]
    return found


def columns(statement: Element) -> list[list[str]]:
    """Both sides, line by line."""
    return [side.text.split("\n") for side in statement.all(class_="lines")]
