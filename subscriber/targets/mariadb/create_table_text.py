"""Reads the definitions in a statement of SHOW CREATE TABLE.

The server writes each column and each constraint on a line of its own, and every expression in its
own form. `information_schema` has the same expressions, but not those of temporary tables, and
MySQL writes them there in another form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_TOKEN: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|\w+|.", re.DOTALL)


def defaults_of(statement: str) -> Iterator[tuple[str, str]]:
    """The columns that have a default other than NULL, each with its default."""
    for column, words in _columns(statement):
        for place in _outside(words, "DEFAULT"):
            value = _until_blank(words[place + 2 :])
            if value.upper() != "NULL":
                yield column, value
            break


def without_default(declaration: str) -> str:
    """A column's line without its DEFAULT clause."""
    words = _TOKEN.findall(declaration)
    for place in _outside(words, "DEFAULT"):
        value = _until_blank(words[place + 2 :])
        before = "".join(words[:place])
        return f"{before.rstrip()}{''.join(words[place + 2 :])[len(value) :]}"
    return declaration


def generated_of(statement: str) -> Iterator[tuple[str, str]]:
    """The generated columns, each with its expression."""
    for column, words in _columns(statement):
        for place in _outside(words, "AS"):
            yield column, _in_parentheses(words[place + 2 :])
            break


def checks_of(statement: str) -> Iterator[tuple[str, str]]:
    """The CHECK constraints, each with its expression. One that belongs to a column has the name of
    the column.
    """
    for line in statement.split("\n"):
        words = _TOKEN.findall(line.strip())
        name = _unquoted(words[2]) if words[:1] == ["CONSTRAINT"] else _unquoted(words[0]) if words else ""
        for place in _outside(words, "CHECK"):
            yield name, _in_parentheses(words[place + 2 :])
            break


def _columns(statement: str) -> Iterator[tuple[str, Sequence[str]]]:
    for line in statement.split("\n"):
        if line.startswith("  `"):
            words = _TOKEN.findall(line.strip().removesuffix(","))
            yield _unquoted(words[0]), words


def _outside(words: Sequence[str], wanted: str) -> Iterator[int]:
    """The places of a word outside parentheses."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.upper() == wanted:
            yield place


def _until_blank(words: Sequence[str]) -> str:
    """The words up to a blank outside parentheses."""
    depth, text = 0, ""
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.isspace():
            break
        text += word
    return text


def _in_parentheses(words: Sequence[str]) -> str:
    """The text in the parentheses at the beginning."""
    depth, text = 0, ""
    for word in words:
        depth += (word == "(") - (word == ")")
        text += word
        if depth == 0:
            break
    return text[1:-1]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
