"""What SQLite's pragmas, ``sqlite_master`` and ``sqlite_sequence`` say about tables."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError
from typing_extensions import override

from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets.base.catalog import Sequences, Shapes, TableRange, TableReader, by_table, ranges_of
from subscriber.targets.sqlite.create_table_text import declared_sizes
from subscriber.targets.sqlite.transactions import SQLiteFacts, asked, facts_of, stored_name
from subscriber.targets.sqlite.values import affinity
from subscriber.targets.target_table import TableKind, TargetColumn, TargetSequence, TargetTable

_KINDS: Final[dict[str, TableKind]] = {"table": "table", "view": "view", "virtual": "virtual table"}
_LOCATORS: Final = ("rowid", "_rowid_", "oid")
_WANTED: Final = "(SELECT value FROM json_each(:names))"
_TABLES: Final = "SELECT name, type, wr, strict FROM {} WHERE schema = :database AND name IN " + _WANTED
_COLUMNS: Final = sa.text(
    'SELECT j.value AS place, x.name, x.type, x."notnull", x.pk, x.hidden, x.dflt_value'
    " FROM json_each(:names) AS j, pragma_table_xinfo(j.value, :database) AS x ORDER BY j.id, x.cid"
)
_KEY_COLLATIONS: Final = sa.text(
    "SELECT j.value AS place, x.name, x.coll FROM json_each(:names) AS j, pragma_index_list(j.value, :database) AS i,"
    " pragma_index_xinfo(i.name, :database) AS x WHERE i.origin = 'pk' AND x.key"
)


@dataclass(frozen=True, slots=True)
class SQLiteColumn(TargetColumn):
    """A column; the collation in the key's index may differ from that of the column if the table
    ``has_collations``.
    """

    key_collation: str | None = None
    has_collations: bool = True


@dataclass(frozen=True, slots=True)
class SQLiteTable(TargetTable):
    """It ``resolves_conflicts`` if a constraint has an ON CONFLICT clause that replaces the error
    by another action; it ``may_watch_columns`` if a trigger may fire for an UPDATE OF some columns.
    """

    resolves_conflicts: bool = False
    auto_increments: bool = False
    may_watch_columns: bool = False


def places(schema: str, table: str) -> Iterator[tuple[str, str]]:
    """Database and name of the possible places of a publisher's table; the first one counts."""
    if schema == "public":
        yield "main", table
        return
    yield "main", f"{schema}.{table}"
    if schema not in ("main", "temp"):
        yield schema, table


def has_table(connection: sa.Connection, database: str, name: str) -> bool:
    return bool(_found(connection, database, [name]))


def _found(connection: sa.Connection, database: str, names: Sequence[str]) -> dict[str, sa.Row[Any]]:
    # With a name as its argument, the pragma does not describe all tables of the database.
    source = "pragma_table_list(:only)" if len(names) == 1 else "pragma_table_list"
    place = {"database": database, "names": json.dumps(names), **({"only": names[0]} if len(names) == 1 else {})}
    return {row.name: row for row in connection.execute(sa.text(_TABLES.format(source)), place)}


def read_tables(connection: sa.Connection, database: str, names: Sequence[str]) -> dict[str, SQLiteTable]:
    found = _found(connection, database, names)
    if not found:
        return {}
    place = {"database": database, "names": json.dumps([*found])}
    columns = by_table(connection.execute(asked(connection, _COLUMNS), place))
    collations = by_table(connection.execute(asked(connection, _KEY_COLLATIONS), place))
    statements = texts_of(connection, database, [*found])
    with_trigger = _with_trigger(connection, database)
    facts = facts_of(connection.dialect)
    return {
        name: _table(
            database,
            row,
            columns[name],
            {one.name: one.coll for one in collations[name]},
            statements.get(name, "") if row.type == "table" else "",
            may_watch_columns=_folded(name) in with_trigger,
            facts=facts,
        )
        for name, row in found.items()
    }


def _table(
    database: str,
    relation: sa.Row[Any],
    rows: Sequence[sa.Row[Any]],
    collations: Mapping[str, str],
    statement: str,
    *,
    may_watch_columns: bool,
    facts: SQLiteFacts,
) -> SQLiteTable:
    key = [row.name for row in sorted(rows, key=lambda row: row.pk) if row.pk]
    is_rowid = not relation.wr and len(key) == 1

    def is_alias(row: sa.Row[Any]) -> bool:
        return is_rowid and bool(row.pk) and row.type.upper() == "INTEGER"

    sizes = {} if facts.shows_sizes else declared_sizes(statement)
    columns = tuple(
        SQLiteColumn(
            name=row.name,
            declared_type=row.type + sizes.get(row.name, ""),
            storage=affinity(row.type, strict=bool(relation.strict)),
            nullable=not row.notnull,
            generated=row.hidden in (2, 3),
            null_is_generated=is_alias(row),
            key_collation=collations.get(row.name),
            has_collations=not statement or "collate" in statement.lower(),
            required=bool(row.notnull) and row.dflt_value is None and row.hidden not in (2, 3) and not is_alias(row),
        )
        for row in rows
    )
    taken = {column.name.lower() for column in columns}
    locators = () if relation.wr else tuple(word for word in _LOCATORS if word not in taken)[:1]
    return SQLiteTable(
        database if facts.attaches else None,
        relation.name,
        columns,
        tuple(key) or None,
        _KINDS.get(relation.type, "other"),
        locators,
        resolves_conflicts="CONFLICT" in statement.upper(),
        auto_increments=_is_auto_increment(statement),
        may_watch_columns=may_watch_columns,
    )


def _is_auto_increment(statement: str) -> bool:
    """Whether a table is declared AUTOINCREMENT, which only its CREATE TABLE statement shows."""
    if "AUTOINCREMENT" not in statement.upper():
        return False
    try:
        tokens = tokenize(statement, read="sqlite")
    except SqlglotError:
        return False
    return any(token.token_type is TokenType.AUTO_INCREMENT for token in tokens)


def _with_trigger(connection: sa.Connection, database: str) -> frozenset[str]:
    """The names of tables with a trigger, which may spell them with letters of another case."""
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("tbl_name"), schema=database)
    found = connection.execute(sa.select(schema.c.tbl_name).where(schema.c.type == "trigger")).scalars()
    return frozenset(_folded(name) for name in found)


def _folded(name: str) -> str:
    """A name without the case of its ASCII letters, which SQLite ignores."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def texts_of(connection: sa.Connection, database: str | None, names: Sequence[str]) -> dict[str, str]:
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("name"), sa.column("sql"), schema=database)
    wanted = sa.text(f"name IN {_WANTED}").bindparams(names=json.dumps(names))
    query = sa.select(schema.c.name, schema.c.sql).where(schema.c.type == "table", wanted)
    return {name: str(text) for name, text in connection.execute(query)}


def sql_of(connection: sa.Connection, database: str | None, name: str) -> str:
    return texts_of(connection, database, [name])[name]


# Shapes ----------------------------------------------------------------------------------------

_OTHER_UNIQUE_INDEXES: Final = sa.text(
    "SELECT count(*) FROM pragma_index_list(:name, :database) WHERE \"unique\" AND origin <> 'pk'"
)
_INDEXES_OF_VALUES: Final = sa.text(
    # Indexes with a predicate, or of an expression.
    "SELECT count(*) FROM pragma_index_list(:name, :database) AS i"
    " WHERE i.partial OR EXISTS (SELECT 1 FROM pragma_index_info(i.name, :database) AS c WHERE c.cid = -2 OR c.cid = -1 AND c.name <> '')"
)
_REFUSING: Final = re.compile(r"\b(CHECK|STRICT|COLLATE)\b", re.IGNORECASE)
"""Without these words, a table has no CHECK, no strict column, and no unknown collation."""


class SQLiteShapes(Shapes):
    @override
    def versions(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Hashable]:
        """The schema cookies, by which SQLite itself finds out whether a statement is outdated."""
        if not facts_of(connection.dialect).attaches:
            return {}  # Turso is not known to count each change
        with self._errors.reporting():
            names = [row[1] for row in connection.exec_driver_sql("PRAGMA database_list") if row[1] != "temp"]
            quote = connection.dialect.identifier_preparer.quote_identifier
            pragmas = (f"PRAGMA {quote(name)}.schema_version" for name in names)
            cookies = tuple(
                (name, connection.exec_driver_sql(one).scalar()) for name, one in zip(names, pragmas, strict=True)
            )
        return dict.fromkeys(tables, cookies)

    @override
    def reflect_all(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], TargetTable]:
        found: dict[tuple[str, str], TargetTable] = {}
        dialect = connection.dialect
        left = [
            (one, [(database, stored_name(dialect, name)) for database, name in places(*one)])
            for one in dict.fromkeys(tables)
            if facts_of(dialect).finds_quotes or '"' not in "".join(one)
        ]
        while left:
            wanted: dict[str, list[str]] = defaultdict(list)
            for _, ((database, name), *_others) in left:
                wanted[database].append(name)
            with self._errors.reporting():
                read = {database: read_tables(connection, database, names) for database, names in wanted.items()}
            found |= {one: read[database][name] for one, ((database, name), *_) in left if name in read[database]}
            left = [(one, others) for one, (_, *others) in left if others and one not in found]
        return found

    @override
    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Foreign keys are off."""
        assert isinstance(table, SQLiteTable)
        if table.may_watch_columns or table.resolves_conflicts:
            return True
        with self._errors.reporting():
            place = {"name": table.name, "database": table.schema}
            return bool(connection.execute(asked(connection, _OTHER_UNIQUE_INDEXES), place).scalar_one())

    @override
    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """A word of the CREATE TABLE statement that looks like a constraint may be a name."""
        if any(column.generated for column in table.columns):
            return True
        with self._errors.reporting():
            statement = sql_of(connection, table.schema, table.name)
            place = {"name": table.name, "database": table.schema}
            return _REFUSING.search(statement) is not None or bool(
                connection.execute(asked(connection, _INDEXES_OF_VALUES), place).scalar_one()
            )


# Sequences -------------------------------------------------------------------------------------

_LAST_ROWID: Final = 2**63 - 1


class SQLiteSequences(Sequences):
    @override
    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """Only AUTOINCREMENT stores a value. Another rowid continues from the largest one."""
        found = table.column(column)
        assert isinstance(table, SQLiteTable)
        if found is None or not found.null_is_generated or not table.auto_increments:
            return None
        with self._errors.reporting():
            kept = _kept_values(table)
            last = connection.execute(sa.select(kept.c.seq).where(kept.c.name == table.name)).scalar_one_or_none()
        position = SequencePosition(last_value=last or 1, is_called=bool(last))
        return TargetSequence(f"{table.schema}.{table.name}", position, 1, _LAST_ROWID, table)

    @override
    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        assert sequence.table is not None
        kept, name = _kept_values(sequence.table), sequence.table.name
        with self._errors.reporting():
            connection.execute(sa.delete(kept).where(kept.c.name == name))
            connection.execute(sa.insert(kept).values(name=name, seq=position.next_value - 1))


def _kept_values(table: TargetTable) -> sa.TableClause:
    return sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"), schema=table.schema)


# Reading ---------------------------------------------------------------------------------------


class SQLiteTableReader(TableReader):
    @override
    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        return ranges_of(connection, table, table.locators[0], count) if table.locators else ()
