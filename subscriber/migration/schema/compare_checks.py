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
from dataclasses import dataclass
from typing import Final

from subscriber.migration.schema.compared import TEXT, Compared, Missing, different
from subscriber.migration.schema.same_definition import plain
from subscriber.schema.shape import ColumnShape
from subscriber.schema.table_objects import UserType
from subscriber.targets.table_changes import CannotBuild, NewCheck

_UNMET: Final = re.compile(r"NOT VALID$|NOT ENFORCED$")
"""How the definition of a constraint ends that rows may violate."""


@dataclass(frozen=True, slots=True)
class PublisherCheck:
    """A CHECK constraint that the publisher's table has, or that one of its types means.

    Attributes:
        kind: the kind of the object.
        name: the constraint's name.
        text: the publisher's expression.
        ddl: the publisher's definition.
        values: the type OIDs of the names in the expression; None for those of the columns.
        column: the column that the name VALUE stands for.
    """

    kind: str
    name: str
    text: str
    ddl: str
    values: Mapping[str, int] | None = None
    column: str | None = None

    def change(self, both: Compared) -> NewCheck:
        """What builds the constraint in the target.

        Raises:
            CannotBuild: the expression is not known to mean the same.
        """
        if self.values is None:
            return NewCheck(self.name, both.expression(self.text))
        columns = {}
        for value, type_oid in self.values.items():
            found = both.table.column(self.column or value)
            assert found is not None
            columns[value] = type_oid, found
        expression = both.target.objects.expression(self.text, columns, inexact=both.found.inexact)
        return NewCheck(self.name, expression)


def checks_of_table(both: Compared) -> Iterator[PublisherCheck]:
    """The CHECK constraints of the table itself."""
    for text in both.objects.shape.checks:
        name, ddl = both.objects.shape.definitions.get(text, ("", f"CHECK ({text})"))
        yield PublisherCheck("check constraint", name, text, ddl)


def checks_of_type(both: Compared, column: ColumnShape) -> Iterator[PublisherCheck]:
    """What the enum or the domain of a column checks, for a target that stores its values in a
    built-in type.
    """
    made, is_array = both.objects.types.get(column.name, (None, False))
    if made is None or is_array or both.keeps_types:
        return
    if made.kind == "enum":
        labels = ", ".join("'" + label.replace("'", "''") + "'::text" for label in made.labels)
        quoted = '"' + column.name.replace('"', '""') + '"'
        text = f"({quoted} = ANY (ARRAY[{labels}]))"
        yield PublisherCheck("check of enum", f"{column.name}_{made.name}", text, made.ddl, {column.name: TEXT})
    elif made.kind == "domain":
        yield from _checks_of_domain(column, made)


def _checks_of_domain(column: ColumnShape, made: UserType) -> Iterator[PublisherCheck]:
    checks = made.checks if made.nullable else (("not_null", "(VALUE IS NOT NULL)"), *made.checks)
    for name, text in checks:
        values = {"VALUE": made.base}
        yield PublisherCheck("check of domain", f"{column.name}_{name}", text, made.ddl, values, column.name)


def compare_checks(both: Compared) -> Iterator[Missing]:
    """The CHECK constraints of the table itself; those of types belong to columns."""
    for one in checks_of_table(both):
        yield from compare_check(both, one)
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


def compare_check(both: Compared, one: PublisherCheck) -> Iterator[Missing]:
    """A CHECK constraint: whether the target has it."""
    present = [definition for found, definition in both.found.checks if found == one.name and one.name]
    try:
        change = one.change(both)
    except CannotBuild as error:
        if not present:
            yield Missing(one.kind, one.name, None, error.reason, one.ddl)
        return
    found = {plain(definition) for _, definition in both.found.checks}
    if found & forms_of(both, change):
        return
    if present:
        yield different(both, "different check", one.name, change, (one.name, f"CHECK ({present[0]})"), one.ddl)
    else:
        yield Missing(one.kind, one.name, change, publisher_ddl=one.ddl)


def forms_of(both: Compared, change: NewCheck) -> set[str]:
    """The forms in which the target may have the expression: as we write it, as the target does."""
    return {plain(change.expression), *([plain(both.shown(change))] if both.found.checks else ())}
