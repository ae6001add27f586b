"""Which CHECK constraints a target's table lacks, or has with another expression.

A constraint is there if one of the target has its expression, whatever its name is. Some targets do
not keep the names of CHECK constraints. One that cannot be translated is there if the target has
one of its name, which the user has declared.

A constraint that the publisher's rows may violate (NOT VALID, NOT ENFORCED) would stop the copy. It
is built in PostgreSQL alone, after the copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from subscriber.migration.schema.compared import Compared, Missing, different
from subscriber.migration.schema.same_definition import plain
from subscriber.targets.table_changes import CannotBuild, NewCheck

_UNMET: Final = re.compile(r"NOT VALID$|NOT ENFORCED$")
"""How the definition of a constraint ends that rows may violate."""


def compare_checks(both: Compared) -> Iterator[Missing]:
    """The CHECK constraints of the table itself; those of types belong to columns."""
    for text in both.objects.shape.checks:
        name, ddl = both.objects.shape.definitions.get(text, ("", f"CHECK ({text})"))
        yield from compare_check(both, "check constraint", name, text, ddl)
    for text in both.objects.shape.unmet:
        yield from _unmet(both, text, *both.objects.shape.definitions[text])


def _unmet(both: Compared, text: str, name: str, ddl: str) -> Iterator[Missing]:
    if any(found == name for found, _ in both.found.checks):
        return
    said = _UNMET.search(ddl)
    assert said is not None
    if both.keeps_types and ddl.startswith("CHECK"):
        yield Missing("unmet check", name, NewCheck(name, text, said.group()), publisher_ddl=ddl)
        return
    reason = f"it is {said.group()} at the publisher, so rows may violate it"
    yield Missing("unmet check", name, None, reason, ddl)


def compare_check(
    both: Compared,
    kind: str,
    name: str,
    text: str,
    ddl: str,
    values: Mapping[str, int] | None = None,
    column: str | None = None,
) -> Iterator[Missing]:
    """A CHECK constraint.

    Args:
        both: the tables.
        kind: the kind of the object.
        name: the constraint's name.
        text: the publisher's expression.
        ddl: the publisher's definition.
        values: the type OIDs of the names in the expression; None for those of the columns.
        column: the column that the name VALUE stands for.
    """
    present = [definition for found, definition in both.found.checks if found == name and name]
    try:
        change = NewCheck(name, _written(both, text, values, column))
    except CannotBuild as error:
        if not present:
            yield Missing(kind, name, None, error.reason, ddl)
        return
    if _is_there(both, change):
        return
    if present:
        yield different(both, "different check", name, change, (name, f"CHECK ({present[0]})"), ddl)
    else:
        yield Missing(kind, name, change, publisher_ddl=ddl)


def _written(both: Compared, text: str, values: Mapping[str, int] | None, column: str | None) -> str:
    if values is None:
        return both.expression(text)
    columns = {}
    for value, type_oid in values.items():
        found = both.table.column(column or value)
        assert found is not None
        columns[value] = type_oid, found
    return both.target.objects.expression(text, columns, inexact=both.found.inexact)


def _is_there(both: Compared, change: NewCheck) -> bool:
    found = {plain(definition) for _, definition in both.found.checks}
    return plain(change.expression) in found or (bool(found) and plain(both.shown(change)) in found)
