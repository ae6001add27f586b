"""``WITH (name [= value], …)`` as it was written; which names there are, and what they mean, each command knows."""

from __future__ import annotations

from dataclasses import dataclass, field

OptionValue = str | int | None
"""What stands after ``=``: an integer stays one, everything else is text; None when nothing stands there."""


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
