"""Objects of MariaDB's tables, and the definitions in a statement of SHOW CREATE TABLE.

A column is changed by MODIFY COLUMN with its whole declaration from SHOW CREATE TABLE. There each
column and each constraint is on a line of its own, and every expression in the server's form.
MariaDB's `information_schema` has the same expressions, but not those of temporary tables: with it,
one query reads the expressions of all tables. MySQL's has them in another form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.targets import table_changes
from subscriber.targets.base.catalog import by_table
from subscriber.targets.base.objects import Objects
from subscriber.targets.declared_columns import declared_length
from subscriber.targets.mariadb.catalog import NAMES, counts
from subscriber.targets.mariadb.ddl import KEY_BYTES, LONG, key_bytes
from subscriber.targets.mariadb.transactions import facts_of, has_long_defaults
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Kind

_HERE: Final = "COALESCE(:database, DATABASE())"
_INDEXES: Final = sa.text(
    "SELECT table_name AS place, index_name AS name, non_unique AS several, column_name AS field, sub_part AS part FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name IN :names ORDER BY index_name, seq_in_index"
).bindparams(NAMES)
_FOREIGN_KEYS: Final = sa.text(
    "SELECT k.table_name AS place, k.constraint_name AS name, k.column_name AS field, k.referenced_table_name AS other, k.referenced_column_name AS referenced,"
    " r.delete_rule AS deleted, r.update_rule AS updated FROM information_schema.key_column_usage k"
    " JOIN information_schema.referential_constraints r ON r.constraint_schema = k.constraint_schema"
    " AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name"
    f" WHERE k.table_schema = {_HERE} AND k.table_name IN :names ORDER BY k.constraint_name, k.ordinal_position"
).bindparams(NAMES)
_CHECKS: Final = sa.text(
    "SELECT table_name AS place, constraint_name AS name, check_clause AS text FROM information_schema.check_constraints"
    f" WHERE constraint_schema = {_HERE} AND table_name IN :names"
).bindparams(NAMES)
_CHECKS_OF_MYSQL: Final = sa.text(
    "SELECT t.table_name AS place, c.constraint_name AS name, c.check_clause AS text FROM information_schema.check_constraints c"
    " JOIN information_schema.table_constraints t ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name"
    f" WHERE t.table_schema = {_HERE} AND t.table_name IN :names"
).bindparams(NAMES)
_COLUMNS: Final = sa.text(
    "SELECT table_name AS place, column_name AS name, column_comment AS comment, collation_name AS collation, extra AS extra,"
    " column_default AS value, generation_expression AS expression"
    f" FROM information_schema.columns WHERE table_schema = {_HERE} AND table_name IN :names"
).bindparams(NAMES)
_COMMENTS: Final = sa.text(
    "SELECT table_name AS place, table_comment AS comment FROM information_schema.tables"
    f" WHERE table_schema = {_HERE} AND table_name IN :names"
).bindparams(NAMES)
_TYPE: Final = sa.text(
    "SELECT column_type AS declared, coalesce(concat(' CHARACTER SET ', character_set_name, ' COLLATE ', collation_name), '') AS texts"
    f" FROM information_schema.columns WHERE table_schema = {_HERE} AND table_name = :name AND column_name = :field"
)
_TRIGGERS: Final = sa.text(
    "SELECT event_object_table AS place, trigger_name AS name FROM information_schema.triggers"
    f" WHERE event_object_schema = {_HERE} AND event_object_table IN :names"
).bindparams(NAMES)
_EXACT: Final = ("nopad_bin", "0900_bin")
"""The ends of the names of collations that compare characters, and blanks at the end too."""
_WIDTHS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_PREFIX: Final = 191
"""Characters of a long text in an index: with four bytes each, old row formats allow the key."""
_TRIMMED: Final = "trim(TRAILING '.' FROM trim(TRAILING '0' FROM {}))"
"""A time with a fraction, as PostgreSQL writes it."""
_TIMESTAMP, _TIMESTAMPTZ, _DATE = 1114, 1184, 1082


class MariaDBObjects(Objects):
    casts = "CAST({column} AS SIGNED)"

    @override
    def find(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> list[table_changes.FoundObjects]:
        found: dict[TargetTable, table_changes.FoundObjects] = {}
        has_own_expressions = facts_of(self._engine.dialect).has_own_expressions
        checks = _CHECKS if has_own_expressions else _CHECKS_OF_MYSQL
        for database in dict.fromkeys(one.schema for one in tables):
            there = [one for one in tables if one.schema == database]
            place = {"database": database, "names": [one.name for one in there]}
            with self._errors.reporting():
                rows = [
                    by_table(connection.execute(query, place))
                    for query in (_INDEXES, _FOREIGN_KEYS, checks, _COLUMNS, _COMMENTS, _TRIGGERS)
                ]
                for one in there:
                    text = None if has_own_expressions else self._create_table(connection, self.qualified(one))
                    found[one] = _found(one, [of_table[one.name] for of_table in rows], text)
        return [found[one] for one in tables]

    @override
    def is_text(self, column: TargetColumn) -> bool:
        return column.storage in _TEXTS

    @override
    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        if column.storage == "decimal":
            return "decimal"
        return "date" if (type_oid, column.storage) == (_DATE, "date") else "other"

    @override
    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """Both databases have a time zone of the session."""
        now = text in ("now()", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
        if self.is_text(column):
            utc, local = _TRIMMED.format("utc_timestamp(6)"), _TRIMMED.format("current_timestamp(6)")
            if type_oid == _TIMESTAMPTZ and now:
                return f"concat({utc}, '+00')"
            if type_oid == _TIMESTAMP:
                return local if now else utc if text == "timezone('utc'::text, now())" else None
        if column.storage == "datetime" and type_oid == _TIMESTAMP and now:
            return "current_timestamp(6)"
        if (text, type_oid, column.storage) == ("CURRENT_DATE", _DATE, "date"):
            return "curdate()"
        return None

    @override
    def statements(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange] = (),
    ) -> table_changes.Statements:
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case table_changes.NewIndex():
                return self._index(table, change, alter)
            case table_changes.NewForeignKey():
                clause, note = self._foreign_key(connection, table, change)
                return table_changes.Statements((f"{alter} ADD CONSTRAINT {self.quote(change.name)} {clause}",), note)
            case table_changes.NewView():
                return self.view(change)
            case table_changes.NewDefault():
                self._check_default(table, change.column)
                column = self.quote(change.column)
                return table_changes.Statements((f"{alter} ALTER COLUMN {column} SET DEFAULT ({change.expression})",))
            case table_changes.NewIdentity():
                self._check_counter(table, change.column)
                declared = self._declaration(connection, table, change.column)
                return table_changes.Statements((f"{alter} MODIFY COLUMN {without_default(declared)} AUTO_INCREMENT",))
            case table_changes.NewComment(column=None):
                return table_changes.Statements((f"{alter} COMMENT = {_text(change.text)}",))
            case table_changes.NewComment():
                assert change.column is not None
                declared = self._declaration(connection, table, change.column)
                for one in earlier:  # MODIFY COLUMN replaces what they have declared
                    if isinstance(one, table_changes.NewDefault) and one.column == change.column:
                        declared = f"{without_default(declared)} DEFAULT ({one.expression})"
                    elif isinstance(one, table_changes.NewIdentity) and one.column == change.column:
                        declared = f"{without_default(declared)} AUTO_INCREMENT"
                return table_changes.Statements((f"{alter} MODIFY COLUMN {declared} COMMENT {_text(change.text)}",))
        return self.standard(table, change)

    def _index(self, table: TargetTable, change: table_changes.NewIndex, alter: str) -> table_changes.Statements:
        note = self.plain_index(change)
        index = change.index
        if change.predicate is not None:
            raise table_changes.CannotBuild(f"{self._errors.database} has no partial indexes")
        keys = []
        for key, written in zip(index.keys, change.keys, strict=True):
            if key.column is None:
                raise table_changes.CannotBuild(f"{self._errors.database} has no indexes of expressions")
            column = table.column(key.column)
            prefix = f"({_PREFIX})" if column is not None and _needs_prefix(column) else ""
            if column is not None and prefix and index.unique:
                raise table_changes.CannotBuild(
                    f'a unique key of column "{column.name}", declared "{column.declared_type}", would compare only the first characters'
                )
            keys.append(f"{written}{prefix}{' DESC' if key.descending else ''}")
        bytes_of_key = sum(_bytes_in_index(table, key.column) for key in index.keys)
        if bytes_of_key > KEY_BYTES:
            raise table_changes.CannotBuild(
                f"its columns have up to {bytes_of_key:,} bytes, and {KEY_BYTES:,} are possible"
            )
        if index.constraint == "primary key" and not table.key:
            return table_changes.Statements((f"{alter} ADD PRIMARY KEY ({', '.join(change.keys)})",))
        unique = "UNIQUE " if index.unique else ""
        name, on = self.quote(change.name), self.qualified(table)
        return table_changes.Statements((f"CREATE {unique}INDEX {name} ON {on} ({', '.join(keys)})",), note)

    def _foreign_key(
        self, connection: sa.Connection, table: TargetTable, change: table_changes.NewForeignKey
    ) -> tuple[str, str]:
        if "SET DEFAULT" in (change.key.on_delete, change.key.on_update):
            raise table_changes.CannotBuild(f"{self._errors.database} has no SET DEFAULT")
        for owner, names in ((table, change.key.columns), (change.references, change.key.referenced)):
            for column in (owner.column(name) for name in names):
                if column is not None and column.storage in LONG:
                    raise table_changes.CannotBuild(
                        f'column "{column.name}" of table "{owner.name}" is declared {column.declared_type.upper()},'
                        " which no key can have; declare it as VARCHAR"
                    )
        clause, note = self.foreign_key_clause(change, deferrable=False)
        for name, referenced in zip(change.key.columns, change.key.referenced, strict=True):
            self._check_types(connection, (table, name), (change.references, referenced), change, clause)
        return clause, note

    def _check_types(
        self,
        connection: sa.Connection,
        own: tuple[TargetTable, str],
        other: tuple[TargetTable, str],
        change: table_changes.NewForeignKey,
        clause: str,
    ) -> None:
        """The server refuses some pairs of types, and compares others by their bytes."""
        types = [self._full_type(connection, *one) for one in (own, other)]
        if None in types or _compared_as(str(types[0])) == _compared_as(str(types[1])):
            return
        narrow, wide = (other, types[0]) if _width(str(types[0])) > _width(str(types[1])) else (own, types[1])
        declared = f"MODIFY COLUMN {self._declared_as(connection, *narrow, str(wide))}"
        raise table_changes.CannotBuild(
            f'column "{own[1]}" of table "{own[0].name}" is {types[0]} and column "{other[1]}" of table "{other[0].name}"'
            f" is {types[1]}; a foreign key needs the same type, character set and collation",
            (
                f"ALTER TABLE {self.qualified(narrow[0])} {declared}",
                f"ALTER TABLE {self.qualified(own[0])} ADD CONSTRAINT {self.quote(change.name)} {clause}",
            ),
        )

    def _full_type(self, connection: sa.Connection, table: TargetTable, column: str) -> str | None:
        """With character set and collation; None if there is no such column."""
        place = {"database": table.schema, "name": table.name, "field": column}
        with self._errors.reporting():
            row = connection.execute(_TYPE, place).first()
        return None if row is None else f"{row.declared}{row.texts}"

    def _declared_as(self, connection: sa.Connection, table: TargetTable, column: str, kind: str) -> str:
        present = str(self._full_type(connection, table, column))
        declared = self._declaration(connection, table, column)
        rest = declared.removeprefix(f"{self.quote(column)} {present.partition(' CHARACTER SET')[0]}")
        return f"{self.quote(column)} {kind}{re.sub(r' (CHARACTER SET|COLLATE) [a-z0-9_]+', '', rest)}"

    def _check_default(self, table: TargetTable, name: str) -> None:
        column = table.column(name)
        if column is not None and column.storage in LONG and not has_long_defaults(self._engine):
            raise table_changes.CannotBuild(
                f"a column {column.declared_type.upper()} has no default in {self._errors.database}"
            )

    def _check_counter(self, table: TargetTable, column: str) -> None:
        if any(counts(other) for other in table.columns):
            raise table_changes.CannotBuild(
                f"a table of {self._errors.database} has one AUTO_INCREMENT column, and this one has it already"
            )
        if not table.key or table.key[0] != column:
            raise table_changes.CannotBuild("an AUTO_INCREMENT column must be the first of the key")

    def _declaration(self, connection: sa.Connection, table: TargetTable, column: str) -> str:
        with self._errors.reporting():
            text = self._create_table(connection, self.qualified(table))
        for line in text.split("\n"):
            if line.startswith(f"  {self.quote(column)} "):
                return re.sub(r" COMMENT '(?:[^'\\]|''|\\.)*'", "", line.strip().removesuffix(","))
        raise table_changes.CannotBuild(f'the declaration of column "{column}" cannot be read')

    @staticmethod
    def _create_table(connection: sa.Connection, name: str) -> str:
        raw = connection.execution_options(no_parameters=True)
        return str(raw.exec_driver_sql(f"SHOW CREATE TABLE {name}").one()[1])

    @override
    def removal(self, table: TargetTable, change: table_changes.Definition, name: str) -> tuple[str, ...]:
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case table_changes.NewIndex():
                return (f"DROP INDEX {self.quote(name)} ON {self.qualified(table)}",)
            case table_changes.NewCheck():
                return (f"{alter} DROP CONSTRAINT {self.quote(name)}",)
            case table_changes.NewGenerated():
                return (f"{alter} DROP COLUMN {self.quote(name)}",)
            case table_changes.NewDefault():
                return ()

    @override
    def shown(self, connection: sa.Connection, table: TargetTable, change: table_changes.Definition) -> str:
        """A temporary table shows it in the server's own form."""
        if isinstance(change, table_changes.NewIndex):
            return ""  # an index has columns only, which are compared as such
        columns = [one for one in table.columns if not one.generated]
        items = {one.name: f"{self.quote(one.name)} {one.declared_type}" for one in columns}
        match change:
            case table_changes.NewDefault():
                items[change.column] += f" DEFAULT ({change.expression})"
            case table_changes.NewCheck():
                items[""] = f"CONSTRAINT {self.quote(change.name)} CHECK ({change.expression})"
            case table_changes.NewGenerated():
                made = f"{change.declared} GENERATED ALWAYS AS ({change.expression}) STORED"
                items[change.column] = f"{self.quote(change.column)} {made}"
        name = self.quote("subscriber probe")
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {name} ({', '.join(items.values())})")
        except sa.exc.SQLAlchemyError:  # no right to create it
            return change.expression
        try:
            text = self._create_table(connection, name)
        finally:
            raw.exec_driver_sql(f"DROP TEMPORARY TABLE {name}")
        match change:
            case table_changes.NewDefault():
                return dict(defaults_of(text)).get(change.column, "NULL")
            case table_changes.NewCheck():
                return dict(checks_of(text))[change.name]
            case table_changes.NewGenerated():
                return dict(generated_of(text))[change.column]

    @override
    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        name, declared = self.quote("subscriber probe"), column.declared_type
        raw = connection.execution_options(no_parameters=True)
        try:
            raw.exec_driver_sql(
                f"CREATE TEMPORARY TABLE {name} (a {declared} DEFAULT ({first}), b {declared} DEFAULT ({second}))"
            )
            raw.exec_driver_sql(f"INSERT INTO {name} () VALUES ()")
            query = f"SELECT CAST(a AS BINARY) <=> CAST(b AS BINARY) FROM {name}"
            return bool(raw.exec_driver_sql(query).scalar_one())
        except sa.exc.SQLAlchemyError:  # no right to create it, or not a value of the column
            return first == second
        finally:
            raw.exec_driver_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")

    @override
    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        with self._errors.reporting(), self._engine.begin() as connection:
            connection.exec_driver_sql("SET SESSION foreign_key_checks = 1")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("SET SESSION foreign_key_checks = 0")


def _found(table: TargetTable, rows: Sequence[Sequence[sa.Row[Any]]], text: str | None) -> table_changes.FoundObjects:
    """``text`` is CREATE TABLE in MySQL, where the rows do not have expressions in its form."""
    index_rows, reference_rows, checks, columns, comments, triggers = rows
    indexes: dict[str, list[Any]] = {}
    for row in index_rows:
        indexes.setdefault(row.name, [not row.several]).append(None if row.part else row.field)
    references: dict[str, list[Any]] = {}
    for row in reference_rows:
        entry = references.setdefault(row.name, [row.other, row.deleted, row.updated])
        entry.append((row.field, row.referenced))
    written: dict[str, str] = {}
    defaults = {row.name: row.value for row in columns if row.value is not None and row.value.upper() != "NULL"}
    generated = {row.name: row.expression for row in columns if row.expression}
    if text is not None:
        written, defaults, generated = dict(checks_of(text)), dict(defaults_of(text)), dict(generated_of(text))
    return table_changes.FoundObjects(
        indexes=tuple(table_changes.FoundIndex(name, tuple(keys), unique) for name, (unique, *keys) in indexes.items()),
        foreign_keys=tuple(
            table_changes.FoundForeignKey(
                tuple(column for column, _ in pairs), other, tuple(to for _, to in pairs), deleted, updated
            )
            for other, deleted, updated, *pairs in references.values()
        ),
        checks=tuple((row.name, written.get(row.name, row.text)) for row in checks),
        defaults=defaults,
        generated=generated,
        virtual=frozenset(row.name for row in columns if "VIRTUAL" in row.extra),
        counted=frozenset(column.name for column in table.columns if counts(column)),
        inexact=frozenset(row.name for row in columns if row.collation and not row.collation.endswith(_EXACT)),
        triggers=frozenset(row.name for row in triggers),
        comment=next((row.comment for row in comments if row.comment), None),
        column_comments={row.name: row.comment for row in columns if row.comment},
    )


def _needs_prefix(column: TargetColumn) -> bool:
    if column.storage in LONG:
        return True
    return column.storage in ("char", "varchar") and (declared_length(column.declared_type) or 0) > 4 * _PREFIX


def _bytes_in_index(table: TargetTable, name: str | None) -> int:
    column = None if name is None else table.column(name)
    if column is None:
        return 0
    return 4 * _PREFIX if _needs_prefix(column) else key_bytes(column.declared_type)


def _compared_as(declared: str) -> str:
    """Not the length of texts and bytes, nor the display width of integers."""
    varies = declared.startswith(("varchar", "varbinary", *_WIDTHS))
    return re.sub(r"\(\d+\)", "", declared, count=1) if varies else declared


def _width(declared: str) -> int:
    """The place of an integer type among the others; -1 for another type."""
    word = re.split(r"[ (]", declared, maxsplit=1)[0]
    return _WIDTHS.index(word) if word in _WIDTHS else -1


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


# Create table text -----------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|\w+|.", re.DOTALL)


def defaults_of(statement: str) -> Iterator[tuple[str, str]]:
    """The columns that have a default other than NULL, each with its default."""
    for column, words in _columns(statement):
        for place in _outside(words, "DEFAULT"):
            value = _until_blank(words[place + 2 :])
            if value.upper() != "NULL":
                yield column, value
            break


def without_default(declaration: str) -> str:
    words = _TOKEN.findall(declaration)
    for place in _outside(words, "DEFAULT"):
        value = _until_blank(words[place + 2 :])
        before = "".join(words[:place])
        return f"{before.rstrip()}{''.join(words[place + 2 :])[len(value) :]}"
    return declaration


def generated_of(statement: str) -> Iterator[tuple[str, str]]:
    for column, words in _columns(statement):
        for place in _outside(words, "AS"):
            yield column, _in_parentheses(words[place + 2 :])
            break


def checks_of(statement: str) -> Iterator[tuple[str, str]]:
    """Name and expression of the CHECK constraints. One of a column has the name of the column."""
    for line in statement.split("\n"):
        words = _TOKEN.findall(line.strip())
        name = _unquoted(words[2]) if words[:1] == ["CONSTRAINT"] else _unquoted(words[0]) if words else ""
        for place in _outside(words, "CHECK"):
            yield name, _in_parentheses(words[place + 2 :])
            break


def _columns(statement: str) -> Iterator[tuple[str, Sequence[str]]]:
    for line in statement.split("\n"):
        if line.startswith("  `"):
            words = _TOKEN.findall(line.strip().removesuffix(","))
            yield _unquoted(words[0]), words


def _outside(words: Sequence[str], wanted: str) -> Iterator[int]:
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.upper() == wanted:
            yield place


def _until_blank(words: Sequence[str]) -> str:
    depth, text = 0, ""
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.isspace():
            break
        text += word
    return text


def _in_parentheses(words: Sequence[str]) -> str:
    depth, text = 0, ""
    for word in words:
        depth += (word == "(") - (word == ")")
        text += word
        if depth == 0:
            break
    return text[1:-1]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
