"""Functions that read markdown, for the tests of the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, takewhile

from tools.docs_site import CODE_OR_LINK, github_anchor

_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def fenced(text: str, language: str = "") -> Iterator[str]:
    """The lines of every code block in ``language``."""
    block: str | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            block = line.removeprefix("```") if block is None else None
        elif block == language:
            yield line


def inline(text: str) -> list[str]:
    """Code spans outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text))


def section(text: str, heading: str) -> str:
    """The text under ``heading``, up to the next heading of its level."""
    return re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], flags=re.MULTILINE)[0]


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under ``heading``, without its head."""
    lines = dropwhile(lambda line: not line.startswith("|"), section(text, heading).splitlines())
    rows = list(takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def links(text: str) -> list[str]:
    """The targets of links outside of code."""
    return [found["target"] for found in CODE_OR_LINK.finditer(text) if found["target"]]


def anchors(text: str) -> set[str]:
    """The anchors of a page: its headings, and elements with an id."""
    prose = _BLOCK.sub("", text)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {github_anchor(heading) for heading in headings} | set(re.findall(r"\bid=\"([^\"]+)\"", prose))
