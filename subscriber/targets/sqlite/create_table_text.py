"""Reads and changes the text of a CREATE TABLE statement of SQLite.

SQLite keeps the text that created a table, and has no other description of its CHECK constraints.
The text is cut at commas outside parentheses, texts, names and comments; nothing else of its
grammar matters here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[^\W\d]\w*|.""", re.DOTALL
)
_CONSTRAINTS: Final = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
"""The words with which a constraint of a table begins. As a column's name they are quoted."""
_QUOTES: Final = {'"': '"', "`": "`", "[": "]", "'": "'"}


@dataclass(frozen=True, slots=True)
class TableText:
    """A CREATE TABLE statement in parts.

    Attributes:
        items: the columns and constraints.
        options: what follows the closing parenthesis, such as STRICT.
    """

    items: tuple[str, ...]
    options: str

    def statement(self, name: str) -> str:
        """The statement for a table of this name, which is quoted already."""
        return f"CREATE TABLE {name} (" + ",".join(self.items) + f"\n){self.options}"

    def with_item(self, item: str) -> TableText:
        """The table with another constraint."""
        # A comment at the end of the last item ends with its line.
        *others, last = self.items
        return TableText((*others, last + "\n", f" {item}"), self.options)

    def with_clause(self, column: str, clause: str) -> TableText | None:
        """The table with another clause at the end of a column; None if there is no such column."""
        items = list(self.items)
        for place, item in enumerate(items):
            if _first_name(item) == column:
                items[place] = f"{item}\n{clause}"
                return TableText(tuple(items), self.options)
        return None

    def with_column(self, definition: str) -> TableText:
        """The table with another column, after the last one."""
        items = list(self.items)
        last = max((place for place, item in enumerate(items) if _is_column(item)), default=-1)
        items[last] += "\n"
        items.insert(last + 1, f" {definition}")
        return TableText(tuple(items), self.options)

    def checks(self) -> Iterator[tuple[str, str]]:
        """Name and expression of the CHECK constraints; the name is empty for none."""
        for item in self.items:
            yield from _checks_of(item)


def read_table_text(sql: str) -> TableText | None:
    """The parts of a CREATE TABLE statement; None if it has no list of columns."""
    items: list[str] = []
    depth, item = 0, ""
    tokens = _TOKEN.finditer(sql)
    for token in tokens:
        text = token[0]
        if text == ")":
            depth -= 1
            if depth == 0:
                return TableText((*items, item), sql[token.end() :].rstrip(" ;\n"))
        if depth == 1 and text == ",":
            items.append(item)
            item = ""
        elif depth > 0:
            item += text
        if text == "(":
            depth += 1
    return None


def _words(item: str) -> list[str]:
    """The tokens of an item without blanks and comments."""
    found = (token[0] for token in _TOKEN.finditer(item))
    return [text for text in found if not text.isspace() and not text.startswith(("--", "/*"))]


def _is_column(item: str) -> bool:
    words = _words(item)
    return bool(words) and words[0].upper() not in _CONSTRAINTS


def _first_name(item: str) -> str | None:
    words = _words(item)
    return _unquoted(words[0]) if words else None


def _unquoted(word: str) -> str:
    closing = _QUOTES.get(word[:1])
    return word if closing is None else word[1:-1].replace(closing * 2, closing)


def _checks_of(item: str) -> Iterator[tuple[str, str]]:
    tokens = [token for token in _TOKEN.finditer(item) if not token[0].isspace()]
    name = ""
    for place, token in enumerate(tokens):
        word = token[0].upper()
        if word == "CONSTRAINT" and place + 1 < len(tokens):
            name = _unquoted(tokens[place + 1][0])
        elif word == "CHECK" and place + 1 < len(tokens) and tokens[place + 1][0] == "(":
            depth = 0
            for other in tokens[place + 1 :]:
                depth += (other[0] == "(") - (other[0] == ")")
                if depth == 0:
                    yield name, item[tokens[place + 1].end() : other.start()]
                    break
            name = ""
