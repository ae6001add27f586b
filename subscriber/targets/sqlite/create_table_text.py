"""Reads and changes CREATE TABLE, SQLite's only description of CHECK constraints, cut at commas
outside parentheses, texts, names and comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[^\W\d]\w*|.""", re.DOTALL
)
_CONSTRAINTS: Final = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
"""The words with which a constraint of a table begins. As a column's name they are quoted."""
_AFTER_TYPE: Final = frozenset({"CHECK", "DEFAULT", "REFERENCES", "AS", "COLLATE"})
"""The words after a column's type that are before parentheses."""
_QUOTES: Final = {'"': '"', "`": "`", "[": "]", "'": "'"}


@dataclass(frozen=True, slots=True)
class TableText:
    """Columns and constraints, and what follows them, such as STRICT."""

    items: tuple[str, ...]
    options: str

    def statement(self, name: str) -> str:
        return f"CREATE TABLE {name} (" + ",".join(self.items) + f"\n){self.options}"

    def with_item(self, item: str) -> TableText:
        # A comment at the end of the last item ends with its line.
        *others, last = self.items
        return TableText((*others, last + "\n", f" {item}"), self.options)

    def with_default(self, column: str, clause: str) -> TableText | None:
        """The DEFAULT clause replaces the column's own; None if there is no such column."""
        items = list(self.items)
        for place, item in enumerate(items):
            if _first_name(item) == column:
                items[place] = f"{_without_default(item)}\n{clause}"
                return TableText(tuple(items), self.options)
        return None

    def with_column(self, definition: str) -> TableText:
        items = list(self.items)
        last = max((place for place, item in enumerate(items) if _is_column(item)), default=-1)
        items[last] += "\n"
        items.insert(last + 1, f" {definition}")
        return TableText(tuple(items), self.options)

    def checks(self) -> Iterator[tuple[str, str]]:
        """Name and expression of the CHECK constraints; the name is empty for none."""
        for item in self.items:
            yield from _checks_of(item)

    def generated(self) -> Iterator[tuple[str, str]]:
        for item in self.items:
            tokens = [token for token in _TOKEN.finditer(item) if not token[0].isspace()]
            for place, token in enumerate(tokens[1:-1], 1):
                if token[0].upper() == "AS" and tokens[place + 1][0] == "(":
                    closing = _closing(tokens, place + 1)
                    yield _unquoted(tokens[0][0]), item[tokens[place + 1].end() : tokens[closing].start()]
                    break

    def collations(self) -> Iterator[tuple[str, str]]:
        """Name and collation, in capitals, of the columns that have one."""
        for item in self.items:
            words = _words(item)
            depth = 0
            for place, word in enumerate(words[:-1]):
                depth += (word == "(") - (word == ")")
                if depth == 0 and place > 0 and word.upper() == "COLLATE":
                    yield _unquoted(words[0]), _unquoted(words[place + 1]).upper()


def after_names(sql: str) -> str:
    """What follows the names in a CREATE INDEX statement: the keys and the condition."""
    opening = next((token for token in _TOKEN.finditer(sql) if token[0] == "("), None)
    return "" if opening is None else sql[opening.start() :]


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


def declared_sizes(sql: str) -> dict[str, str]:
    """The sizes of columns with their parentheses, such as ``(10,2)``, by the columns' names."""
    text = read_table_text(sql)
    sizes = {}
    for item in () if text is None else text.items:
        words = _words(item)
        if not _is_column(item) or "(" not in words:
            continue
        opening = words.index("(")
        found = re.match(r"\(\d+(,-?\d+)?\)", "".join(words[opening:]))
        if found and not any(word.upper() in _AFTER_TYPE for word in words[1:opening]):
            sizes[_unquoted(words[0])] = found[0]
    return sizes


def _words(item: str) -> list[str]:
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
            closing = _closing(tokens, place + 1)
            yield name, item[tokens[place + 1].end() : tokens[closing].start()]
            name = ""


def _closing(tokens: Sequence[re.Match[str]], opening: int) -> int:
    """The place of the parenthesis that closes the one at a place."""
    depth = 0
    for place, token in enumerate(tokens[opening:], opening):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return place
    return len(tokens) - 1


def _without_default(item: str) -> str:
    """The clause is a constant with or without a sign, or an expression in parentheses."""
    tokens = [token for token in _TOKEN.finditer(item) if not token[0].isspace()]
    depth = 0
    for place, token in enumerate(tokens[:-1]):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0 and place > 0 and token[0].upper() == "DEFAULT":
            last = place + 1
            last += tokens[last][0] in ("+", "-") and last + 1 < len(tokens)
            last = _closing(tokens, last) if tokens[last][0] == "(" else _end_of_constant(tokens, last)
            return item[: token.start()].rstrip(" ") + item[tokens[last].end() :]
    return item


def _end_of_constant(tokens: Sequence[re.Match[str]], place: int) -> int:
    """The place of a constant's last token; no blank is between its tokens."""
    while place + 1 < len(tokens) and tokens[place].end() == tokens[place + 1].start():
        place += 1
    return place
