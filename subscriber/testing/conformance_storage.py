"""The checks of the conformance kit that write and read one table: values, transactions and
constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from subscriber.base.errors import ConflictError, UnsupportedValue
from subscriber.targets import Target
from subscriber.testing.nodes.mirrored_rows import Row
from subscriber.testing.type_edges import EDGES
from subscriber.testing.written_tables import created, decoded, insert, shape_of, stored

Holding: TypeAlias = Literal["holds", "refused", "fails", "skipped"]
Found: TypeAlias = tuple[Holding, str]
"""A verdict, and what is refused or has failed."""

HOLDS: Final[Found] = ("holds", "")
TABLE: Final = "conformance_t"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of an area."""

    area: str
    name: str
    run: Callable[[Target], Found]

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"


def _values(kind: str, target: Target) -> Found:
    shape = shape_of({"number": "integer", "value": kind}, ["number"], name=TABLE)
    table = created(target, shape)
    column, type_oid = table.column("value"), shape.columns[1].type_oid
    assert column is not None
    target.values.check_column(type_oid, column)
    refused: list[str] = []
    kept: list[Row] = [("0", None)]
    for number, text in enumerate(EDGES[kind], start=1):
        try:
            target.values.bind_values(type_oid, column, decoded(target, type_oid, [text]))
            kept.append((str(number), text))
        except UnsupportedValue:
            refused.append(text)
    with target.begin() as connection:
        insert(target, connection, shape, *kept)
    found = set(stored(target, shape))
    changed = [text for _, text in set(kept) - found]
    if changed or len(found) != len(kept):
        return "fails", f"come back changed: {', '.join(map(repr, changed))}"
    return ("refused", f"{', '.join(map(repr, refused))}") if refused else HOLDS


# Transactions -------------------------------------------------------------------------------------

_PLAIN: Final = shape_of({"a": "integer", "b": "text"}, ["a"], name=TABLE)


class _CutOff(Exception):
    pass


def _rollback(target: Target) -> Found:
    created(target, _PLAIN)
    with suppress(_CutOff), target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        raise _CutOff
    return HOLDS if not stored(target, _PLAIN) else ("fails", "a rollback leaves rows")


def _savepoint(target: Target) -> Found:
    if not target.capabilities.savepoints:
        return "refused", "no savepoints: changes are examined before they are written"
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        with suppress(_CutOff), connection.begin_nested():
            insert(target, connection, _PLAIN, ("2", "y"))
            raise _CutOff
        insert(target, connection, _PLAIN, ("3", "z"))
    return HOLDS if stored(target, _PLAIN) == [("1", "x"), ("3", "z")] else ("fails", "a part is not undone")


def _isolation(target: Target) -> Found:
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        seen = stored(target, _PLAIN)
    return HOLDS if not seen else ("fails", "others see rows before the commit")


def _constraint(row: tuple[str | None, str], sqlstate: str, target: Target) -> Found:
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
    try:
        with target.begin() as connection:
            insert(target, connection, _PLAIN, row)
    except ConflictError as error:
        return HOLDS if error.sqlstate == sqlstate else ("refused", f"its SQLSTATE is {error.sqlstate}")
    return "fails", "the row is accepted"


STORAGE_CHECKS: Final = (
    *(Check("values", kind, partial(_values, kind)) for kind in EDGES),
    Check("transactions", "all or nothing", _rollback),
    Check("transactions", "a part is undone", _savepoint),
    Check("transactions", "nothing is seen before the commit", _isolation),
    Check("constraints", "a key is there", partial(_constraint, ("1", "y"), "23505")),
    Check("constraints", "NULL in a key", partial(_constraint, (None, "y"), "23502")),
)
