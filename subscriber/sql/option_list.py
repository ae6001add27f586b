"""``name [= value], …`` as it was written, and PostgreSQL's ways of reading a value; which names
there are, each command knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from subscriber.errors import SQLSyntaxError
from subscriber.sql.lexer import fold, syntax_error

OptionValue = str | int | None
"""What stands after ``=``: an integer stays one, everything else is text; None when nothing stands
there.
"""

OptionReader = Callable[[str, OptionValue], object]
"""Makes of an option's name and value what the option means, or raises."""


@dataclass(frozen=True, slots=True)
class Option:
    """One ``name [= value]`` of a WITH list, with its place in the command (a character index)."""

    name: str
    value: OptionValue
    position: int


@dataclass(frozen=True, slots=True)
class OptionList:
    """A list of options as written, and the command it stands in, which errors point into."""

    given: tuple[Option, ...] = ()
    sql: str = field(default="", repr=False, compare=False)  # may hold a connection string


def read_given(sql: str, given: Sequence[Option], readers: Mapping[str, OptionReader], of: str) -> dict[str, Any]:
    """Read a list of options by their names; what was not given is not in the result.

    Args:
        sql: the command, for positions in errors.
        given: the list as written.
        readers: what each option that is known here makes of its value.
        of: what has these options, as errors call it: ``subscription``.

    Raises:
        SQLSyntaxError: 42601 for an unknown or repeated option, and what a reader raises.
    """
    values: dict[str, Any] = {}
    for option in given:
        if option.name not in readers:
            raise SQLSyntaxError(f'unrecognized {of} parameter: "{option.name}"')
        if option.name in values:
            raise syntax_error(sql, option.position, "conflicting or redundant options")
        values[option.name] = readers[option.name](option.name, option.value)
    return values


def read_boolean(name: str, value: OptionValue) -> bool:
    """defGetBoolean: a bare option is true; an integer must be 0 or 1; text true, false, on or off.

    Raises:
        SQLSyntaxError: 42601, it is none of them.
    """
    found = as_boolean(value)
    if found is None:
        raise SQLSyntaxError(f"{name} requires a Boolean value")
    return found


def as_boolean(value: OptionValue) -> bool | None:
    """What :func:`read_boolean` makes of a value; None where it is no Boolean."""
    if value is None:
        return True
    if isinstance(value, int):
        return {0: False, 1: True}.get(value)
    return {"true": True, "on": True, "false": False, "off": False}.get(fold(value))


def read_text(name: str, value: OptionValue) -> str:
    """defGetString: a value that must be there, numbers as they were written.

    Raises:
        SQLSyntaxError: 42601, it is not there.
    """
    if value is None:
        raise SQLSyntaxError(f"{name} requires a parameter")
    return str(value)
