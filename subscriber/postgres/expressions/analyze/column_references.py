"""What a name in an expression refers to: a column, a system column, or the whole row
(``parse_relation.c`` and ``transformColumnRef``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.typeinfo import RECORD, Types
from subscriber.postgres.expressions.builtin_catalog import Catalog
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.types.oids import FIRST_NORMAL_OID

ONLY_SIMPLE: Final = (
    "Only columns, constants, built-in operators, built-in data types, built-in collations, "
    "and immutable built-in functions are allowed."
)
"""The detail of the error for an expression that is not simple (rule B27)."""
_SYSTEM_COLUMNS: Final = {"ctid": 27, "xmin": 28, "cmin": 29, "xmax": 28, "cmax": 29, "tableoid": 26}


class Columns:
    def __init__(self, catalog: Catalog, table: PublisherTable, database: str) -> None:
        self._types = Types(catalog)
        self._table = table
        self._database = database

    def find(self, node: syntax.ColumnRef) -> tree.Expression:
        """``transformColumnRef``."""
        *qualifiers, name = node.parts
        if not qualifiers:
            assert name is not None
            if (found := self._named(name)) is not None:
                return found
            if name == self._table.name:
                return _row()
            raise UsageError(f'column "{name}" does not exist', sqlstate="42703")
        self._check_qualifiers(tuple(map(str, qualifiers)), name)
        if name is None:
            return _row()
        if (found := self._named(name)) is not None:
            return found
        raise UsageError(f"column {qualifiers[-1]}.{name} does not exist", sqlstate="42703")

    def all_of(self, node: syntax.ColumnRef) -> list[tree.Expression]:
        """The columns of ``t.*`` within ROW (…), one by one."""
        self._check_qualifiers(tuple(map(str, node.parts[:-1])), None)
        return [self._column(column) for column in self._table.columns]

    def projection(self, name: str, argument: syntax.Node) -> tree.Expression | None:
        """``t.f`` for a call ``f(t)`` whose argument is the whole row; None for another call."""
        if not isinstance(argument, syntax.ColumnRef):
            return None
        if not isinstance(self.find(argument), tree.Refused) or self._named(str(argument.parts[-1])) is not None:
            return None
        return self._named(name)

    def indirection(
        self, node: syntax.Indirection, analyse: Callable[[syntax.Node], tree.Expression]
    ) -> tree.Expression:
        """``transformIndirection``: fields and subscripts; a field of the whole row is a column."""
        made = analyse(node.argument)
        for part in node.parts:
            if isinstance(part, tuple):
                made = self._subscripted(made, [analyse(one) for one in part if one is not None], slice_=len(part) > 1)
            elif isinstance(made, tree.Refused) and made.what == "Row":
                found = None if part is None else self._named(part)
                if part is None:
                    raise UsageError('row expansion via "*" is not supported here', sqlstate="0A000")
                if found is None:
                    raise UsageError(f"column {self._table.name}.{part} does not exist", sqlstate="42703")
                made = found
            else:
                name = self._types.name(made.type_oid)
                if not self._types.is_row(made.type_oid):
                    message = f"column notation .{part} applied to type {name}, which is not a composite type"
                    raise UsageError(message, sqlstate="42809")
                raise invalid(ONLY_SIMPLE)
        return made

    def _subscripted(self, made: tree.Expression, bounds: list[tree.Expression], *, slice_: bool) -> tree.Expression:
        container = self._types.base(made.type_oid)
        element = self._types.element(container)
        if container == 3802:  # jsonb
            return tree.Refused(container, 0, "SubscriptingRef", (made, *bounds))
        if not element:
            message = (
                f"cannot subscript type {self._types.name(made.type_oid)} because it does not support subscripting"
            )
            raise UsageError(message, sqlstate="42804")
        result = container if slice_ else element
        return tree.Refused(result, self._types.collation(result), "SubscriptingRef", (made, *bounds))

    def _check_qualifiers(self, qualifiers: tuple[str, ...], name: str | None) -> None:
        table = self._table
        expected = (self._database, table.schema, table.name)
        if len(qualifiers) <= len(expected) and qualifiers == expected[-len(qualifiers) :]:
            return
        if len(qualifiers) > 3:
            message = f"improper qualified name (too many dotted names): {'.'.join((*qualifiers, name or '*'))}"
            raise UsageError(message, sqlstate="42601")
        if len(qualifiers) > 2 and qualifiers[0] != self._database:
            raise NotSupportedError(
                f"cross-database references are not implemented: {'.'.join((*qualifiers, name or '*'))}"
            )
        if qualifiers[-1] == table.name:
            raise UsageError(
                f'invalid reference to FROM-clause entry for table "{table.name}"',
                sqlstate="42P01",
                detail=f'There is an entry for table "{table.name}", but it cannot be referenced from this part of the query.',
            )
        raise UsageError(f'missing FROM-clause entry for table "{qualifiers[-1]}"', sqlstate="42P01")

    def _named(self, name: str) -> tree.Expression | None:
        column = self._table.column(name)
        if column is not None:
            return self._column(column)
        if name in _SYSTEM_COLUMNS:
            return tree.Refused(_SYSTEM_COLUMNS[name], 0, "SystemColumn")
        return None

    def _column(self, column: PublisherColumn) -> tree.Expression:
        if column.type_oid not in self._types.catalog.types:
            if column.type_oid >= FIRST_NORMAL_OID:
                raise invalid("User-defined types are not allowed.")
            raise NotSupportedError(
                f"row filters on columns of type {column.type_name or column.type_oid} are not supported",
                hint=f'Leave column "{column.name}" out of the filter.',
                column=column.name,
            )
        return tree.Var(column.type_oid, column.collation, column.name, column.type_modifier)


def invalid(detail: str) -> UsageError:
    """The error for an expression that a publication may not contain (rule B23)."""
    return NotSupportedError("invalid publication WHERE expression", detail=detail)


def _row() -> tree.Refused:
    return tree.Refused(RECORD, 0, "Row")
