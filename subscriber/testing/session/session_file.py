r"""The format of a scenario: a psql session with a title, copied from a terminal into a file.

::

    -- Rows that a filter lets through                    the title: always the first line
    -- requires: two_phase, pg>=15, pg<18                 what it needs (header lines: only before the first prompt)

    -- Comments start with two dashes and a blank, and are allowed everywhere.
    test_pub=# CREATE TABLE t (a int,                     a prompt: this goes to node test_pub
    test_pub(# b text);                                   a continued prompt: the same statement
    CREATE TABLE                                          what psql prints, up to the next prompt
    test_sub/2=# SELECT * FROM t;                         a second session on test_sub (psql has no such prompt)
     a | b
    ---+---
    (0 rows)

**Prompts** are psql's prompts. They start with the database. Next is ``=`` where a statement
starts, or ``-``, ``(``, ``'``, ``"``, ``$`` or ``*`` where it continues. Next is ``*``, ``!`` or
``?`` in a transaction block, and last is ``#`` or ``>``. The parser uses only the database, and
whether a statement starts or continues. The name of a node is an identifier that needs no quotes
and contains no ``$``, because ``$`` is part of the prompt.

**Statements** end where they end in psql (`subscriber.testing.session.psql_input`). A statement
without an end is an error here, because psql would still be waiting. One prompt may have several
statements. A backslash command needs a separate prompt.

**Blank lines** have no meaning: psql prints them below every table, and people delete and add them.

**Comments** differ from output, because psql's separator lines contain no blank. There is one
exception: ``--`` alone is the separator of a table without columns if the next line is ``(N
rows)``, and otherwise it is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final

from subscriber.base.digits import parse_int
from subscriber.base.errors import ScenarioError, SQLSyntaxError, UsageError
from subscriber.testing.session.psql_input import check_backslash_command, cut, is_backslash_command

FEATURES: Final = ("psql", "two_phase")
"""What a scenario may require; what ``subscriber`` lacks is an expected failure instead."""

_PROMPT: Final = re.compile(
    r"""(?P<node>[a-zA-Z_]\w*)(/(?P<session>\w+))?(?P<state>[=\-('"$*])[*!?]?[#>]([ ](?P<text>.*))?""", re.ASCII
)
_FOOTER: Final = re.compile(r"\(\d+ rows?\)\s*")
_VERSION: Final = re.compile(r"pg\s*(?P<operator>>=|<=|==|>|<)\s*(?P<major>\d+)", re.ASCII)
_REQUIRES: Final = "requires:"


@dataclass(frozen=True, slots=True)
class SessionStatement:
    r"""What is typed at one prompt, and printed, without comments. ``session`` is empty for the
    node's first, ``2`` for ``test_pub/2=#``. ``line`` and ``end`` are its prompt lines, from 1.
    """

    node: str
    session: str
    line: int
    text: str
    expected: tuple[str, ...]
    end: int


@dataclass(frozen=True, slots=True)
class Requires:
    """The lowest and highest major version, if any, and the `FEATURES` that a scenario needs."""

    least: int = 0
    most: int | None = None
    features: frozenset[str] = frozenset()

    def missing(self, major: int, features: frozenset[str]) -> str | None:
        """What a setup does not have, as a sentence. None if it has everything."""
        if major < self.least:
            return f"needs PostgreSQL {self.least} or newer, and this is {major}"
        if self.most is not None and major > self.most:
            return f"needs PostgreSQL {self.most} or older, and this is {major}"
        lacking = sorted(self.features - features)
        return f"needs {', '.join(lacking)}" if lacking else None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. Its name is that of the file without suffix; it has at least one statement."""

    name: str
    title: str
    requires: Requires
    statements: tuple[SessionStatement, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, in the order in which they first occur."""
        return tuple(dict.fromkeys(statement.node for statement in self.statements))


def parse_scenario(text: str, name: str) -> Scenario:
    """Parse the text of a scenario file; the context of a ScenarioError is ``file:line``."""
    reader = _Reader(name)
    for line in _lines(text):
        reader.take(line)
    return reader.scenario()


def with_output(text: str, scenario: Scenario, printed: Sequence[str]) -> str:
    """The file with what was printed in place of what was expected; comments within move below it.
    ScenarioError: a printed line would be read as a prompt.
    """
    lines = list(_lines(text))
    written: list[str] = []
    done = 0
    stops = [statement.line - 1 for statement in scenario.statements[1:]] + [len(lines)]
    for statement, output, stop in zip(scenario.statements, printed, stops, strict=True):
        below = lines[statement.end : stop]
        last = max((number for number, line in enumerate(below, start=1) if line.kind is _Kind.OUTPUT), default=0)
        comments = [line for line in below[:last] if line.kind is _Kind.COMMENT]
        written += [line.text for line in lines[done : statement.end]]
        written += _printable(output, f"{_file(scenario.name)}:{statement.line}")
        written += [line.text for line in [*comments, *below[last:]]]
        done = stop
    return "\n".join(written).rstrip("\n") + "\n"


def without_comments(lines: Sequence[str]) -> list[str]:
    """Lines of an output, without blank ones and those that a file would take for comments."""
    return [line.text for line in _kinds(lines) if line.kind in (_Kind.OUTPUT, _Kind.PROMPT)]


# Lines --------------------------------------------------------------------------------------------


class _Kind(Enum):
    BLANK = "blank"
    COMMENT = "comment"
    PROMPT = "prompt"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    kind: _Kind
    prompt: re.Match[str] | None = None


def _lines(text: str) -> Iterator[_Line]:
    # splitlines() would also split at characters that a value may contain.
    return _kinds([line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")])


def _kinds(lines: Sequence[str]) -> Iterator[_Line]:
    for number, (line, following) in enumerate(pairwise([*lines, ""]), start=1):
        prompt = None
        if not line.strip(" "):
            kind = _Kind.BLANK
        elif line.startswith("-- ") or (line == "--" and not _FOOTER.fullmatch(following)):
            kind = _Kind.COMMENT
        elif prompt := _PROMPT.fullmatch(line):
            kind = _Kind.PROMPT
        else:
            kind = _Kind.OUTPUT
        yield _Line(number, line, kind, prompt)


def _printable(output: str, place: str) -> list[str]:
    lines = [line.rstrip(" ") for line in output.rstrip("\n").split("\n")] if output.strip() else []
    for line in _kinds(lines):
        if line.kind is _Kind.PROMPT:
            raise ScenarioError(
                "this statement prints a line that would be read as a prompt",
                hint="Let it print something else, for example a table where it copies to standard output.",
                context=place,
            )
    return lines


def _file(name: str) -> str:
    return f"{name}.psql"


# Reading ------------------------------------------------------------------------------------------


@dataclass
class _Typed:
    node: str
    session: str
    line: int
    end: int
    lines: list[str]
    expected: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def fault(self) -> UsageError | None:
        """Why psql would not run the statement, or would wait for more. None if it is complete."""
        try:
            if is_backslash_command(self.text):
                check_backslash_command(self.text)
                return None
            queries = cut(self.text)
        except UsageError as error:
            return error
        if queries and not queries[-1].ended:
            return SQLSyntaxError(
                "the statement does not end", hint="Write a semicolon, or go on at a prompt such as db-#."
            )
        return None

    def is_empty(self) -> bool:
        """Whether nothing was typed, or only comments."""
        return not is_backslash_command(self.text) and not cut(self.text)

    def statement(self) -> SessionStatement:
        expected = self.expected
        while expected and not expected[-1].strip(" "):
            expected = expected[:-1]
        return SessionStatement(self.node, self.session, self.line, self.text, tuple(expected), self.end)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._title: str | None = None
        self._requires = Requires()
        self._statements: list[SessionStatement] = []
        self._typed: _Typed | None = None
        self._line = 1

    def take(self, line: _Line) -> None:
        self._line = line.number
        if self._title is None:
            self._take_title(line)
        elif line.kind is _Kind.COMMENT:
            self._take_comment(line.text[2:].strip())
        elif line.prompt is not None:
            self._take_prompt(line, line.prompt)
        elif line.kind is _Kind.OUTPUT:
            self._take_output(line.text)
        elif self._typed is not None and self._typed.expected:
            self._typed.expected.append(line.text)

    def scenario(self) -> Scenario:
        self._finish()
        if self._title is None or not self._statements:
            raise self._error(
                "the scenario has no statement", hint="Write one at a prompt, such as test_pub=# SELECT 1;"
            )
        return Scenario(self._name, self._title, self._requires, tuple(self._statements))

    def _take_title(self, line: _Line) -> None:
        title = line.text[2:].strip() if line.kind is _Kind.COMMENT else ""
        if not title or title.startswith(_REQUIRES):
            raise self._error("the first line must be the title", hint="Write -- and what the scenario shows.")
        self._title = title

    def _take_comment(self, comment: str) -> None:
        if not comment.startswith(_REQUIRES):
            return
        if self._typed is not None or self._statements:
            raise self._error(f"{_REQUIRES} must stand before the first statement")
        for term in comment.removeprefix(_REQUIRES).split(","):
            self._requires = self._with(self._requires, term.strip())

    def _with(self, requires: Requires, term: str) -> Requires:
        if term in FEATURES:
            return Requires(requires.least, requires.most, requires.features | {term})
        version = _VERSION.fullmatch(term)
        if version is None:
            raise self._error(
                f'the requirement "{term}" is not known',
                hint=f"Known are {', '.join(FEATURES)}, and versions such as pg>=15, pg<18 or pg==16.",
            )
        least, most = _versions(version["operator"], parse_int(version["major"]))
        least = max(least, requires.least)
        most = min((one for one in (most, requires.most) if one is not None), default=None)
        if most is not None and least > most:
            raise self._error("no version of PostgreSQL meets these requirements")
        return Requires(least, most, requires.features)

    def _take_prompt(self, line: _Line, prompt: re.Match[str]) -> None:
        node, session, text = prompt["node"], prompt["session"] or "", prompt["text"] or ""
        if prompt["state"] == "=":
            self._finish()
            if node != node.lower():
                raise self._error(f'the name of node "{node}" is not in lower case')
            self._typed = _Typed(node, session, line.number, line.number, [text])
            return
        typed = self._typed
        if typed is None or not typed.fault():
            raise self._error("this prompt continues a statement, and there is none to continue")
        if (node, session) != (typed.node, typed.session):
            raise self._error("this prompt continues a statement of another session")
        typed.lines.append(text)
        typed.end = line.number

    def _take_output(self, text: str) -> None:
        typed = self._typed
        if typed is None:
            raise self._error("there is output before the first prompt", hint="A comment starts with -- and a blank.")
        self._check(typed)
        if typed.is_empty():
            raise self._error("there is output, but no statement at the prompt")
        typed.expected.append(text)

    def _finish(self) -> None:
        if self._typed is not None:
            self._check(self._typed)
            if not self._typed.is_empty():
                self._statements.append(self._typed.statement())
            self._typed = None

    def _check(self, typed: _Typed) -> None:
        if (fault := typed.fault()) is not None:
            self._line = typed.end
            raise self._error(fault.message, hint=fault.hint)

    def _error(self, message: str, hint: str | None = None) -> ScenarioError:
        return ScenarioError(message, hint=hint, context=f"{_file(self._name)}:{self._line}")


def _versions(operator: str, major: int) -> tuple[int, int | None]:
    match operator:
        case ">=":
            return major, None
        case ">":
            return major + 1, None
        case "<=":
            return 0, major
        case "<":
            return 0, major - 1
        case _:
            return major, major
