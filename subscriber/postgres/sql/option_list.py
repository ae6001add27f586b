"""Lists ``name [= value], …`` as they were written, and PostgreSQL's ways to read a value.

Each command knows the names of its options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from subscriber.base.errors import SQLSyntaxError
from subscriber.base.suggestions import perhaps
from subscriber.postgres.sql.lexer import fold, syntax_error

OptionValue = str | int | None
"""The value after ``=``: an ``int`` for an integer, otherwise text; None when there is no value."""

OptionReader = Callable[[str, OptionValue], object]
"""A function that converts an option's name and value to the option's meaning, or raises."""


@dataclass(frozen=True, slots=True)
class Option:
    """One ``name [= value]`` of a WITH list, with its character index in the command."""

    name: str
    value: OptionValue
    position: int


@dataclass(frozen=True, slots=True)
class OptionList:
    """A list of options as written, and the command that contains it, for positions in errors."""

    given: tuple[Option, ...] = ()
    sql: str = field(default="", repr=False, compare=False)  # may hold a connection string


def read_given(sql: str, given: Sequence[Option], readers: Mapping[str, OptionReader], of: str) -> dict[str, Any]:
    """The options that were given, read by the reader of their names.

    ``of`` is what has these options, as errors name it: ``subscription``. SQLSyntaxError is raised
    for an unknown or repeated option (42601), and by the readers.
    """
    values: dict[str, Any] = {}
    for option in given:
        if option.name not in readers:
            raise SQLSyntaxError(
                f'unrecognized {of} parameter: "{option.name}"', hint=perhaps("option", option.name, sorted(readers))
            )
        if option.name in values:
            raise syntax_error(sql, option.position, "conflicting or redundant options")
        values[option.name] = readers[option.name](option.name, option.value)
    return values


def read_boolean(name: str, value: OptionValue) -> bool:
    """defGetBoolean: no value means true; else it is 0, 1, true, false, on or off, or a 42601."""
    found = as_boolean(value)
    if found is None:
        raise SQLSyntaxError(f"{name} requires a Boolean value")
    return found


def as_boolean(value: OptionValue) -> bool | None:
    """The Boolean that :func:`read_boolean` returns; None if the value is none."""
    if value is None:
        return True
    if isinstance(value, int):
        return {0: False, 1: True}.get(value)
    return {"true": True, "on": True, "false": False, "off": False}.get(fold(value))


def read_text(name: str, value: OptionValue) -> str:
    """defGetString: a required value (42601) as text; numbers as they were written."""
    if value is None:
        raise SQLSyntaxError(f"{name} requires a parameter")
    return str(value)
