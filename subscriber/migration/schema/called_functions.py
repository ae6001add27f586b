"""User-defined functions that objects call: a target with PostgreSQL's expressions builds an object
only when the functions are there.

Functions are not created. A function can do anything, and its body may name tables that the target
does not have. So an object that calls a function waits for it: it stays in its phase, is left out
by ``schema apply`` with this reason, and is built when the function exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.migration.schema.compared import Missing
from subscriber.migration.schema.schema_object import SchemaObject
from subscriber.schema.table_objects import TableObjects, UserFunction, UserType

_KINDS: Final = {
    "default": "default",
    "different default": "default",
    "generated column": "default",
    "column type": "default",
    "check constraint": "check",
    "unmet check": "check",
    "partitions": "partitions",
    "unique key": "index",
    "unique index": "index",
    "index": "index",
    "exclusion constraint": "index",
}
"""The kinds of objects that can call a function, by the words of :attr:`TableObjects.calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """The functions of both sides.

    Attributes:
        published: the publisher's functions, in the order in which they were created.
        present: the target's functions: the definition of each by its name.
        are_called: whether objects of the target can call them.
    """

    published: Sequence[UserFunction] = ()
    present: Mapping[str, str] = field(default_factory=dict)
    are_called: bool = False

    def waiting(self, one: SchemaObject, calls: Iterable[str]) -> SchemaObject:
        """An object with the functions that it waits for, if the target lacks some."""
        lacking = tuple(name for name in calls if name not in self.present)
        if not self.are_called or not lacking or one.phase == "manual":
            return one
        names = ", ".join(lacking)
        which = "functions" if len(lacking) > 1 else "function"
        reason = (
            f"it calls {which} {names}, which the target lacks: create {'them' if len(lacking) > 1 else 'it'} first"
        )
        return replace(one, reason=reason, waits_for=lacking)

    def left_out(self, objects: Sequence[SchemaObject]) -> Iterator[SchemaObject]:
        """The functions that the target lacks, each with the objects that wait for it."""
        for place, function in enumerate(self.published):
            needed_by = tuple(f"{one.kind} {one.name}" for one in objects if function.name in one.waits_for)
            present = self.present.get(function.name)
            if function.extension and not needed_by:
                continue  # one that something calls, and the target has
            if not function.ddl:
                reason = "it is an aggregate function"
            elif not self.are_called:
                reason = "its language is the publisher's"
            elif present is None:
                reason = f"create it by hand; {_needs(needed_by)}" if needed_by else "functions are not created"
            elif present != function.ddl:
                reason = "the target has another definition of it"
            else:
                continue
            yield SchemaObject(
                kind="function",
                name=function.name,
                phase="manual",
                reason=reason,
                publisher_ddl=function.ddl,
                needed_by=needed_by,
                order=place,
            )


def calls_of(objects: TableObjects, missing: Missing) -> tuple[str, ...]:
    """The functions that a missing object of a table calls."""
    found = objects.calls.get((_KINDS.get(missing.kind, ""), missing.name), ())
    if missing.kind == "column type":
        found = (*found, *calls_of_type(objects.types[missing.name][0]))
    return tuple(dict.fromkeys(found))


def calls_of_type(made: UserType) -> tuple[str, ...]:
    """The functions that a type calls, and those of the types that it is made of."""
    return (*(name for other in made.needs for name in calls_of_type(other)), *made.calls)


def _needs(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{shown}{more} {'needs' if len(names) == 1 else 'need'} it"
