"""What a table has beside its columns and keys: indexes, constraints, defaults, comments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from subscriber.postgres.schema.shape import ForeignKey
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets import table_changes
from subscriber.targets.base.errors import Errors
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Kind, NotKnown, TranslationRules, kind_of, translate


class Objects:
    """Reads the objects of tables that exist, and writes the DDL that adds others. What the target
    cannot have or remove raises CannotBuild.

    ``rules`` says how expressions differ from PostgreSQL's; ``builds_together`` whether
    :meth:`build_together` makes any changes; ``most_tables`` how many tables a view can combine;
    ``casts`` how a text column is cast to an integer.
    """

    builds_together = False
    most_tables: int | None = None
    casts: str = "CAST({column} AS BIGINT)"

    def __init__(self, engine: sa.Engine, errors: Errors, rules: TranslationRules | None = None) -> None:
        self._engine = engine
        self._errors = errors
        self.rules = rules or TranslationRules(quote=engine.dialect.identifier_preparer.quote)

    def find(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> list[table_changes.FoundObjects]:
        """What each of the tables has."""
        return [table_changes.FoundObjects() for _ in tables]

    def exists(self, connection: sa.Connection, schema: str, name: str | None = None) -> bool:
        """Whether a type, sequence, table or schema exists; only if types are PostgreSQL's."""
        return False

    def expression(
        self,
        text: str,
        columns: Mapping[str, tuple[int, TargetColumn]],
        *,
        inexact: Collection[str] = (),
        enums: Collection[str] = (),
        loose: bool = False,
    ) -> str:
        """A PostgreSQL expression (``pg_get_expr``'s, with an empty search_path) in the target's
        SQL; CannotBuild if it may mean something else. ``columns`` has the type OID and the
        target's column of each name, ``inexact`` those of texts that do not compare exactly,
        ``enums`` (``format_type``'s names) those that are stored as texts. A non-unique index's key
        may be ``loose``.
        """
        written = {
            name: self._column(type_oid, column, exact=column.name not in inexact)
            for name, (type_oid, column) in columns.items()
        }
        try:
            return translate(text, written, self.rules, enums=enums, loose=loose)
        except NotKnown as unknown:
            raise table_changes.CannotBuild(
                f"{unknown.part} is not known to mean the same in {self._errors.database}"
            ) from None

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """A default that depends on time or chance, in the target's SQL; None if there is none."""
        return None

    def statements(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange] = (),
    ) -> table_changes.Statements:
        """The statements that make a change; CannotBuild if the target cannot have it. A script has
        made the changes ``earlier`` before; otherwise the statements are for the table as it is
        now.
        """
        raise self.refusal(change)

    def removal(self, table: TargetTable, change: table_changes.Definition, name: str) -> tuple[str, ...]:
        """The statements that remove what has this name and is replaced; none for a default."""
        raise self.refusal(change)

    def shown(self, connection: sa.Connection, table: TargetTable, change: table_changes.Definition) -> str:
        """The definition as :meth:`find` would return it after the change, which is not made."""
        return "" if isinstance(change, table_changes.NewIndex) else change.expression

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """Whether two constants of the target's SQL are the same value of a column."""
        return first == second

    def functions(self, connection: sa.Connection) -> Mapping[str, str]:
        """User-defined functions by name and argument types, if expressions are PostgreSQL's."""
        return {}

    def view_text(self, connection: sa.Connection, view: TargetTable) -> str:
        """The query of a view, as the target shows it; empty if it does not."""
        with self._errors.reporting():
            return str(sa.inspect(connection).get_view_definition(view.name, schema=view.schema) or "")

    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        """A transaction for DDL, in which the target checks existing rows, as for its users."""
        with self._errors.reporting(), self._engine.begin() as connection:
            yield connection

    def build_together(self, changes: Sequence[tuple[TargetTable, table_changes.TableChange]]) -> Collection[int]:
        """Make the changes that are faster together in one transaction; returns their places."""
        return ()

    def check(self, connection: sa.Connection, table: TargetTable) -> None:
        """Check the foreign keys (ConflictError) of a rewritten table, before the commit."""

    def quote(self, name: str) -> str:
        return self._single(self._engine.dialect.identifier_preparer.quote(name))

    def qualified(self, table: TargetTable) -> str:
        preparer: Any = self._engine.dialect.identifier_preparer
        return self._single(str(preparer.format_table(table.clause())))

    def _single(self, written: str) -> str:
        """SQLAlchemy doubles percent signs for some drivers; here are no parameters."""
        doubled = self._engine.dialect.paramstyle in ("format", "pyformat")
        return written.replace("%%", "%") if doubled else written

    # For the dialects ---------------------------------------------------------------------------

    def is_text(self, column: TargetColumn) -> bool:
        return False

    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        """The kind of a column whose type only some targets store as such."""
        return "other"

    def _column(self, type_oid: int, column: TargetColumn, *, exact: bool) -> tuple[Kind, str]:
        kind, written = kind_of(type_oid), self.quote(column.name)
        if kind == "text" and not exact:
            return "other", written
        if kind == "number" and self.is_text(column):
            return kind, self.casts.format(column=written)
        return self.other_kind(type_oid, column) if kind == "other" else kind, written

    def refusal(self, change: table_changes.TableChange) -> table_changes.CannotBuild:
        return table_changes.CannotBuild(
            f"how {self._errors.database} declares {type(change).__name__[3:].lower()} is not known"
        )

    def standard(self, table: TargetTable, change: table_changes.TableChange) -> table_changes.Statements:
        """The statements of the SQL standard, and COMMENT; the refusal if there are none."""
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case table_changes.NewCheck():
                check = f"CHECK ({change.expression}) {change.unmet}".rstrip()
                statement = f"{alter} ADD CONSTRAINT {self.quote(change.name)} {check}"
            case table_changes.NewDefault():
                statement = f"{alter} ALTER COLUMN {self.quote(change.column)} SET DEFAULT {change.expression}"
            case table_changes.NewGenerated():
                kind = "VIRTUAL" if change.virtual else "STORED"
                made = f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) {kind}"
                statement = f"{alter} ADD COLUMN {made}"
            case table_changes.NewComment():
                column = "" if change.column is None else f".{self.quote(change.column)}"
                place = f"{'COLUMN' if column else 'TABLE'} {self.qualified(table)}{column}"
                statement = f"COMMENT ON {place} IS {quote_literal(change.text)}"
            case _:
                raise self.refusal(change)
        return table_changes.Statements((statement,))

    def quoted(self, names: Collection[str]) -> str:
        return ", ".join(self.quote(name) for name in names)

    def view(self, change: table_changes.NewView) -> table_changes.Statements:
        """CREATE VIEW, in a database other than PostgreSQL."""
        if self.most_tables is not None and len(change.tables) > self.most_tables:
            raise table_changes.CannotBuild(
                f"{self._errors.database} combines at most {self.most_tables} tables in a view"
            )
        columns = self.quoted(change.columns)
        query = " UNION ALL ".join(f"SELECT {columns} FROM {self.qualified(table)}" for table in change.tables)
        name = self.qualified(TargetTable(change.schema, change.name, (), None, "view"))
        return table_changes.Statements(
            (f"CREATE VIEW {name} AS {query}",), "a view: it is read through, and the tables below it are written"
        )

    def plain_index(self, change: table_changes.NewIndex) -> str:
        """The note on an index in a database other than PostgreSQL; it must be an ordinary one."""
        index, database = change.index, self._errors.database
        if index.constraint == "exclusion":
            raise table_changes.CannotBuild(f"{database} has no exclusion constraints")
        if index.method not in ("btree", "hash"):
            raise table_changes.CannotBuild(f"{database} has no {index.method} indexes")
        if not all(key.ordinary for key in index.keys):
            raise table_changes.CannotBuild("it has an operator class or a collation of its own")
        if index.deferrable:
            raise table_changes.CannotBuild(f"{database} checks unique keys immediately")
        if index.unique and not index.nulls_distinct:
            raise table_changes.CannotBuild(f"{database} has no NULLS NOT DISTINCT")
        return f"the columns of INCLUDE are left out: {', '.join(index.include)}" if index.include else ""

    def foreign_key_clause(self, change: table_changes.NewForeignKey, *, deferrable: bool) -> tuple[str, str]:
        """FOREIGN KEY … and a note, in a database other than PostgreSQL; not every one is built."""
        key, database = change.key, self._errors.database
        self._check_foreign_key(key, deferrable=deferrable)
        referenced = [change.references.column(name) for name in key.referenced]
        if (pair := key.written_differently) and any(one is not None and self.is_text(one) for one in referenced):
            raise table_changes.CannotBuild(
                f"equal values of {pair[0]} and {pair[1]} may be different texts in {database}"
            )
        clause = (
            f"FOREIGN KEY ({self.quoted(key.columns)})"
            f" REFERENCES {self.referenced(change.references)} ({self.quoted(key.referenced)})"
        )
        for event, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update)):
            clause += "" if action == "NO ACTION" else f" ON {event} {action}"
        if key.deferrable:
            clause += f" DEFERRABLE INITIALLY {'DEFERRED' if key.deferred else 'IMMEDIATE'}"
        partly = key.match_full and len(key.columns) > 1
        return clause, f"MATCH FULL becomes MATCH SIMPLE: {database} supports no other" if partly else ""

    def referenced(self, table: TargetTable) -> str:
        return self.qualified(table)

    def _check_foreign_key(self, key: ForeignKey, *, deferrable: bool) -> None:
        database = self._errors.database
        if not key.plain:
            raise table_changes.CannotBuild(f"{database} enforces every foreign key, and does not support PERIOD")
        if key.set_columns:
            raise table_changes.CannotBuild(f"{database} has ON DELETE {key.on_delete} for all columns only")
        if key.deferrable and not deferrable:
            raise table_changes.CannotBuild(f"{database} checks foreign keys immediately, and this one is deferrable")
