r"""How psql cuts what is typed: statements that end, and backslash commands.

psql does not parse SQL. A semicolon ends a statement unless it is in a string, a quoted identifier, a dollar
quote or a comment (which is for the tokenizer to know), in parentheses (``CREATE RULE … DO (a; b)``), between BEGIN
and END of a function's body, or behind a backslash: ``\;`` separates statements that are sent as one. So does ``\gexec``, and
lets psql run every value of the result as a statement. Blanks and comments before a statement are not sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from subscriber.errors import NotSupportedError
from subscriber.sql.lexer import tokenize

_READING: Final = re.compile(r"\\(d\S*|l\+?|list\+?|z|sf\+?|sv\+?)(\s|$)")
"""Backslash commands that describe what is in the database."""

_WORDS: Final = 4
"""CREATE OR REPLACE FUNCTION."""


@dataclass(frozen=True, slots=True)
class Query:
    r"""What psql sends at once.

    Attributes:
        text: from the first token to the semicolon, as typed, but a semicolon for every ``\;``; without its ``\gexec``.
        ended: whether a semicolon or ``\gexec`` ended it; only the last of a text may lack one.
        ordered: for each statement in it, whether it has ORDER BY at its outermost level (of COPY, in its query); what
            ``\gexec`` runs is not in the text, and promises none.
        copies_out: whether it is COPY … TO STDOUT, which prints data and no table.
        executes: whether ``\gexec`` ended it: every value of its result is a statement to run.
    """

    text: str = field(repr=False)  # may hold a connection string
    ended: bool
    ordered: tuple[bool, ...]
    copies_out: bool
    executes: bool = False


def is_backslash_command(text: str) -> bool:
    r"""Whether what was typed is psql's own (``\d``) and not the server's."""
    return text.lstrip().startswith("\\")


def check_backslash_command(text: str) -> None:
    r"""Refuse what a session cannot do.

    A backslash command runs in a psql of its own. What would change the session it is typed into (``\c``, ``\x``,
    ``\set``) would do nothing there, and what runs programs or writes files has no place in a file that one gets from
    somebody else.

    Raises:
        NotSupportedError: it is not one that only describes, or has more than one line, or a `` ` `` in it.
    """
    command = text.strip()
    if not _READING.match(command):
        raise NotSupportedError(
            f"{command.split(maxsplit=1)[0]} is not supported in a scenario",
            hint=r"Backslash commands that describe are: \d…, \l, \z, \sf and \sv.",
        )
    if "\n" in command or "`" in command:
        raise NotSupportedError(
            f"{command.split(maxsplit=1)[0]} with a line break or a shell command in its arguments is not supported",
            hint="Write the arguments themselves, in one line.",
        )


def cut(text: str) -> list[Query]:
    r"""The queries of ``text`` in order, as psql sends them; empty ones are left out.

    Raises:
        SQLSyntaxError: a string, quoted identifier or comment is not terminated.
        NotSupportedError: a backslash command follows a statement on its line (``\gx``), or something follows ``\gexec``.
    """
    queries: list[Query] = []
    gathered = _Gathered()
    executed = None
    for token in tokenize(text):
        raw = text[token.start : token.end + 1]
        if executed is not None and "\n" not in text[executed : token.start]:
            raise _unexpected_backslash()  # psql would take it for an argument
        executed = None
        if gathered.ends_with_gexec(raw, token.start):
            queries.append(gathered.query(text, ended=True, executes=True))
            gathered = _Gathered()
            executed = token.end + 1
        elif gathered.add(raw, token.start, token.end + 1):
            queries.append(gathered.query(text, ended=True))
            gathered = _Gathered()
    if gathered.start is not None:
        queries.append(gathered.query(text, ended=False))
    return queries


class _Gathered:
    """The tokens of one query so far."""

    def __init__(self) -> None:
        self.start: int | None = None
        self._end = 0
        self._parentheses = 0
        self._words: list[str] = []
        # The first words of the statement: psql tells by them whether it has a body.
        self._begins = 0
        self._backslashes: list[int] = []
        self._before = ""
        self._backslash = 0
        """Where the token before the last backslash ends."""
        self._ordered = [False]
        self._copies_out = False

    def ends_with_gexec(self, raw: str, start: int) -> bool:
        r"""Whether the token makes ``\gexec`` of the backslash before it, and there is something to run."""
        return raw == "gexec" and self._before == "\\" and start == self._end and self.start != start - 1

    def add(self, raw: str, start: int, end: int) -> bool:
        """Take one token; whether it ended the query."""
        before, self._before = self._before, raw
        if raw == "\\":
            self._backslash = self._end
        if raw == ";" and self.start is None:
            return False  # an empty statement prints nothing
        self.start = start if self.start is None else self.start
        if before == "\\":
            if raw != ";" or start != self._end:
                raise _unexpected_backslash()
            self._backslashes.append(start - 1)
            self._words = []
            self._ordered.append(False)
        elif raw == ";":
            self._end = end
            return not self._parentheses and not self._begins
        elif raw in ("(", ")"):
            self._parentheses = max(0, self._parentheses + (1 if raw == "(" else -1))
        else:
            self._word(raw.lower(), before.lower())
        self._end = end
        return False

    def _word(self, word: str, before: str) -> None:
        if not (word[0].isalpha() or word[0] == "_"):
            return
        copies = self._words[:1] == ["copy"]
        if word == "by" and before == "order" and self._parentheses <= int(copies):
            self._ordered[-1] = True
        self._copies_out |= copies and word == "stdout"
        if len(self._words) < _WORDS:
            self._words.append(word)
        if not self._has_body() or self._parentheses:
            return
        if word == "begin":
            self._begins += 1
        elif word == "case":
            self._begins += 1 if self._begins else 0
        elif word == "end":
            self._begins = max(0, self._begins - 1)

    def _has_body(self) -> bool:
        kinds = ("function", "procedure")
        create, *rest = self._words
        return create == "create" and (rest[:1] in ([kind] for kind in kinds) or _replaces(rest, kinds))

    def query(self, text: str, *, ended: bool, executes: bool = False) -> Query:
        assert self.start is not None
        if executes:
            self._end = self._backslash
            self._ordered = [False]
        elif self._before == "\\":
            raise _unexpected_backslash()
        kept = []
        done = self.start
        for position in self._backslashes:
            kept.append(text[done:position])
            done = position + 1
        kept.append(text[done : self._end])
        return Query("".join(kept), ended, tuple(self._ordered), self._copies_out, executes)


def _replaces(words: list[str], kinds: tuple[str, str]) -> bool:
    return words[:2] == ["or", "replace"] and words[2:3] in ([kind] for kind in kinds)


def _unexpected_backslash() -> NotSupportedError:
    return NotSupportedError(
        "a backslash command behind a statement is not supported in a scenario",
        hint="Give it a prompt of its own; statements end with a semicolon.",
    )
