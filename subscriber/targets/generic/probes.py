"""The probes: what a database of which only SQLAlchemy's dialect is known does to tables, rows and
values. Each finds one fact.

A probe writes to tables of its own (``subscriber_probe_…``), which it drops. It never guesses: an
error of the database, or a value that does not come back, means that the database cannot do it.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import default

from subscriber.targets.base.catalog import declared_as, declared_storage
from subscriber.targets.capabilities import Fact, FactValue
from subscriber.targets.generic.facts import (
    DOUBLES,
    KEY_CHARACTERS,
    KINDS,
    LOCATORS,
    PRECISIONS,
    UPPER_CASE,
    DatabaseFacts,
    by_name,
    folds_names,
    locator,
    signature,
)
from subscriber.targets.statements import ALTER_WORDS, AddColumn, DropColumn, RenameColumn, set_alter_words

_Result = TypeVar("_Result")

_LONG_TEXT: Final = 1_000_000
_MANY_PARAMETERS: Final = (3_200, 2_000, 900)
"""A table of PostgreSQL has up to 1,600 columns."""
_IN_LIST: Final = 500
_TEXTS: Final = (" two  blanks ", "'; DROP TABLE t; --", "%s %% :a ?", "\\N \\", "a\tb\r\nc", "ä€😀", "NULL", "x" * 255)
_ALIKE: Final = ("a", "A", " a", "ä", "a\N{COMBINING DIAERESIS}", "ß", "ss")
"""Texts that collations take for equal, and PostgreSQL does not."""

_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "boolean": (True, False),
    "smallint": (-(2**15), 0, 2**15 - 1),
    "integer": (-(2**31), 0, 2**31 - 1),
    "bigint": (-(2**63), 2**53 + 1, 2**63 - 1),
    "double": (0.1, 1e-300, 5e-324, -1.7976931348623157e308, 123456789.12345678),
    "bytes": (b"", b"\x00\xff'\\\n", bytes(range(256)) * 300),
    "date": (date.min, date(1582, 10, 10), date(2024, 2, 29), date.max),
    "timestamp": (datetime.min, datetime(2026, 2, 28, 12, 34, 56, 789_012), datetime.max),  # noqa: DTZ001, DTZ901
    "text": (*_TEXTS, "long €" + "x" * _LONG_TEXT),
    "varchar": _TEXTS,
}
"""The values of each kind that must come back, beside NULL: its edges."""
_SPECIAL: Final = (math.nan, math.inf, -math.inf)


class Probing:
    """A database that is probed, and the tables that were made for it."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.dialect = engine.dialect
        self._name = f"subscriber_probe_{secrets.token_hex(4)}"
        self._tables: list[sa.Table] = []

    def table(self, *columns: sa.Column[Any], suffix: str = "") -> sa.Table:
        """A new table with these columns."""
        return self.named(f"{self._name}_{len(self._tables)}{suffix}", *columns)

    def named(self, name: str, *columns: sa.Column[Any]) -> sa.Table:
        table = sa.Table(name, sa.MetaData(), *columns)
        with self.engine.begin() as connection:
            table.create(connection)
        self._tables.append(table)
        return table

    def drop_tables(self) -> None:
        """Together, or one by one if that fails."""
        for tables in (self._tables, *([one] for one in self._tables)):
            with suppress(exc.SQLAlchemyError), self.engine.begin() as connection:
                for table in tables:
                    table.drop(connection, checkfirst=True)

    @cached_property
    def _rows(self) -> sa.Table:
        return self.table(
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("value", sa.String(20), unique=True, nullable=False),
        )

    def rows(self, *numbers: int) -> sa.Table:
        """A table with a key, a unique text, and these rows."""
        with self.engine.begin() as connection:
            connection.execute(sa.delete(self._rows))
            for number in numbers:
                connection.execute(_row(self._rows, number))
        return self._rows

    def numbers(self, table: sa.Table) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.execute(sa.select(table.c.number).order_by(table.c.number)).scalars())

    def stored(self, type_: sa.types.TypeEngine[Any], values: Sequence[Any]) -> str | None:
        """The stored name of a type whose columns return all these values, and NULL; else None."""
        table = self.table(
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False), sa.Column("value", type_)
        )
        # As replication binds them: the driver's values, without a cast in the statement.
        bind = type_.dialect_impl(self.dialect).bind_processor(self.dialect)
        untyped = sa.table(table.name, sa.column("number"), sa.column("value"))
        parameter: sa.BindParameter[Any] = sa.bindparam("v", type_=sa.types.NullType())
        with self.engine.begin() as connection:
            for number, value in enumerate((None, *values)):
                bound = value if value is None or bind is None else bind(value)
                row = sa.insert(untyped).values(number=sa.literal_column(str(number)), value=parameter)
                connection.execute(row, {"v": bound})
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(table.c.value).order_by(table.c.number)).scalars().all()
            columns = sa.inspect(connection).get_columns(table.name)
        if [_written(value) for value in found] != [_written(value) for value in (None, *values)]:
            return None
        type_of = {one["name"]: one["type"] for one in columns}
        return declared_storage(declared_as(type_of["value"], self.dialect))

    def error(self, number: int, value: str | None) -> str | None:
        """The signature of the error of a row that a constraint must refuse."""
        table = self.rows(1)
        try:
            with self.engine.begin() as connection:
                connection.execute(_row(table, number, value))
        except exc.DBAPIError as error:
            return signature(error.orig)
        return None

    def are_distinct(self, *columns: str) -> bool:
        """Whether a table has columns with exactly these names."""
        table = self.table(*(sa.Column(name, sa.Integer) for name in columns))
        with self.engine.connect() as connection:
            return {one["name"] for one in sa.inspect(connection).get_columns(table.name)} == {*columns}


def _row(table: sa.Table, number: int, value: str | None = "") -> sa.Insert:
    return sa.insert(table).values(number=number, value=sa.null() if value is None else value or f"v{number}")


def _written(value: Any) -> str:
    """Two values have the same text if nothing tells them apart."""
    return f"{type(value).__name__} {bytes(value) if isinstance(value, memoryview | bytearray) else value!r}"


# The probes ---------------------------------------------------------------------------------------


def _transactions(probing: Probing) -> bool:
    table = probing.rows(1)
    with probing.engine.connect() as connection:
        connection.execute(_row(table, 2))
        connection.execute(sa.delete(table).where(table.c.number == 1))
        connection.rollback()
    return probing.numbers(table) == [1]


def _row_counts(probing: Probing) -> bool:
    table = probing.rows(1, 2)
    with probing.engine.begin() as connection:
        same = sa.update(table).values(value=table.c.value)
        found = [connection.execute(same.where(table.c.number == number)).rowcount for number in (1, 99)]
        deleted = connection.execute(sa.delete(table).where(table.c.number == 2)).rowcount
    return [*found, deleted] == [1, 0, 1]


def _multi_row_counts(probing: Probing) -> bool:
    table = probing.rows(1, 2)
    with probing.engine.begin() as connection:
        statement = sa.delete(table).where(table.c.number == sa.bindparam("wanted"))
        return connection.execute(statement, [{"wanted": number} for number in (1, 99, 2)]).rowcount == 2


def _row_locator(probing: Probing) -> str | None:
    """The first pseudo-column by which one of several equal rows is changed alone, and deleted."""
    table = probing.table(sa.Column("value", sa.Integer))
    return next((name for name in LOCATORS if _tried(partial(_locates, probing, table, name), otherwise=False)), None)


def _locates(probing: Probing, table: sa.Table, name: str) -> bool:
    place = locator(name)
    rows = sa.table(table.name, sa.column("value"), sa.column(place))
    equal = rows.alias("subscriber_search")
    # As an UPDATE or DELETE of apply finds one of the rows.
    first = sa.select(equal.c[place]).where(equal.c.value == 1)
    here = rows.c[place] == first.limit(sa.literal_column("1")).offset(sa.literal_column("0")).scalar_subquery()
    with probing.engine.begin() as connection:
        connection.execute(sa.delete(rows))
        for _ in range(3):
            connection.execute(sa.insert(table).values(value=1))
        found = [
            connection.execute(one).rowcount
            for one in (sa.update(rows).where(here).values(value=2), sa.delete(rows).where(here))
        ]
        left = connection.execute(sa.select(rows.c.value, rows.c[place]).order_by(rows.c.value)).all()
        there = rows.c[place] == sa.bindparam("there", left[0][1], type_=sa.types.NullType())
        again = connection.execute(sa.select(rows.c.value).where(there)).all()
    return found == [1, 1] and [value for value, _ in left] == [1, 2] and again == [(1,)]


def _savepoints(probing: Probing) -> bool:
    table = probing.rows(1)
    with probing.engine.begin() as connection:
        connection.execute(_row(table, 2))
        with connection.begin_nested() as savepoint:
            connection.execute(_row(table, 3))
            savepoint.rollback()
        with suppress(exc.DBAPIError), connection.begin_nested():
            connection.execute(_row(table, 1))
        connection.execute(_row(table, 4))
    return probing.numbers(table) == [1, 2, 4]


def _alter_table(probing: Probing) -> str | None:
    """The first words with which a column is added, renamed and dropped."""
    for words in ALTER_WORDS:
        set_alter_words(probing.dialect, words)
        if _tried(partial(_alters, probing), otherwise=False):
            return words.add
    return None


def _alters(probing: Probing) -> bool:
    table = probing.table(sa.Column("number", sa.Integer))
    added = sa.Table(table.name, sa.MetaData(), sa.Column("added", sa.Integer))
    for change in (AddColumn(added, added.c.added), RenameColumn(table, "added", "other"), DropColumn(table, "other")):
        with probing.engine.begin() as connection:
            connection.execute(change)
    return True


def _transactional_ddl(probing: Probing) -> bool:
    """A column is added, written and read in the transaction, and a rollback takes it back."""
    table = probing.table(sa.Column("number", sa.Integer))
    column = sa.Column("added", sa.Integer)
    changed = sa.table(table.name, sa.column("number"), sa.column("added"))
    with probing.engine.begin() as connection:
        connection.execute(sa.insert(table).values(number=1))
    with probing.engine.connect() as connection:
        connection.execute(AddColumn(sa.Table(table.name, sa.MetaData(), column), column))
        connection.execute(sa.update(changed).values(added=7))
        usable = connection.execute(sa.select(changed.c.added)).scalar_one() == 7
        connection.rollback()
    with probing.engine.connect() as connection:
        columns = {one["name"] for one in sa.inspect(connection).get_columns(table.name)}
    return usable and "added" not in columns


def _text_comparison(texts: Sequence[str], probing: Probing) -> bool:
    """Whether each text is a key of its own, and is found by it."""
    table = probing.table(sa.Column("value", sa.String(KEY_CHARACTERS), primary_key=True))
    with probing.engine.begin() as connection:
        for text in texts:
            connection.execute(sa.insert(table).values(value=text))
    found = sa.select(table.c.value).where(table.c.value == sa.bindparam("wanted"))
    with probing.engine.connect() as connection:
        return all(connection.execute(found, {"wanted": text}).scalars().all() == [text] for text in texts)


def _empty_texts(probing: Probing) -> bool:
    return all(probing.stored(KINDS[kind], ("",)) is not None for kind in ("text", "varchar"))


def _decimal(probing: Probing) -> tuple[int, str] | None:
    for precision in PRECISIONS:
        scale = precision // 2
        largest = Decimal("9" * (precision - scale) + "." + "9" * scale)
        smallest, zero = (Decimal((0, (digit,), -scale)) for digit in (1, 0))
        storage = _tried(
            partial(probing.stored, sa.Numeric(precision, scale), (largest, -largest, smallest, zero)), None
        )
        if storage is not None:
            return precision, storage
    return None


def _exact_names(probing: Probing) -> bool:
    table = probing.table(sa.Column("select", sa.Integer), suffix=' "T" s.t 100%')
    with probing.engine.connect() as connection:
        inspector = sa.inspect(connection)
        is_found = table.name in inspector.get_table_names()
        return is_found and [one["name"] for one in inspector.get_columns(table.name)] == ["select"]


def _table_case(probing: Probing) -> bool:
    table = probing.table(sa.Column("a", sa.Integer), suffix="_Case")
    probing.named(table.name.lower(), sa.Column("b", sa.Integer))
    return True


def _parameters(probing: Probing) -> int | None:
    table = probing.rows(1)
    for count in _MANY_PARAMETERS:
        updated = sa.update(table).values(value="v1")
        numbers: list[sa.BindParameter[int]] = [sa.bindparam(f"p{number}", number) for number in range(count)]
        parts = (numbers[start : start + _IN_LIST] for start in range(0, count, _IN_LIST))
        statement = updated.where(sa.or_(*(table.c.number.in_(part) for part in parts)))
        if _tried(partial(_finds_one, probing, statement), otherwise=False):
            return count
    return None


def _finds_one(probing: Probing, statement: sa.Update) -> bool:
    with probing.engine.begin() as connection:
        return connection.execute(statement).rowcount == 1


def _double(probing: Probing, values: Sequence[float]) -> str | None:
    tried = (_tried(partial(probing.stored, one, values), None) for one in DOUBLES)
    return next((storage for storage in tried if storage is not None), None)


def _kind(name: str, probing: Probing) -> str | None:
    if name == "double":
        return _double(probing, _VALUES[name])
    return probing.stored(KINDS[name], _VALUES[name])


# What the dialect says ----------------------------------------------------------------------------


def _upsert(dialect: sa.Dialect) -> str:
    clauses = dialect.statement_compiler
    if hasattr(clauses, "visit_on_conflict_do_update"):
        return "ON CONFLICT"
    return "ON DUPLICATE KEY" if hasattr(clauses, "visit_on_duplicate_key_update") else "UPDATE, then INSERT"


def _two_phase(dialect: sa.Dialect) -> bool:
    return type(dialect).do_prepare_twophase is not default.DefaultDialect.do_prepare_twophase


def _unquoted_names(dialect: sa.Dialect) -> str:
    return UPPER_CASE if folds_names(dialect) else "lower case, or as written"


@dataclass(frozen=True, slots=True)
class Probe:
    """How a fact is found, and what it means; both are also in docs/targets.md."""

    name: str
    meaning: str
    find: Callable[[Probing], FactValue]
    found: str = "probe"


PROBES: Final = (
    Probe("transactions", "a rollback undoes what was inserted and deleted", _transactions),
    Probe("row_counts", "UPDATE and DELETE report how many rows they found, also if nothing changes", _row_counts),
    Probe("multi_row_counts", "so does a statement that is executed for many rows at once", _multi_row_counts),
    Probe("row_locator", "the pseudo-column by which one of several equal rows is changed alone", _row_locator),
    Probe("savepoints", "a part of a transaction is undone, also after an error", _savepoints),
    Probe("alter_table", "the words with which a column is added, renamed and dropped", _alter_table),
    Probe(
        "transactional_ddl",
        "a column that is added can be written in the same transaction, and a rollback removes it",
        _transactional_ddl,
    ),
    Probe("upsert", "how a row is inserted or changed", lambda probing: _upsert(probing.dialect), "dialect"),
    Probe("returning", "INSERT can return the row", lambda probing: bool(probing.dialect.insert_returning), "dialect"),
    Probe("two_phase", "the dialect has two-phase commits", lambda probing: _two_phase(probing.dialect), "dialect"),
    Probe(
        "duplicate_key",
        "the driver's error for a second row with a primary key",
        lambda probing: probing.error(1, "v3"),
    ),
    Probe(
        "duplicate_unique",
        "the driver's error for a second row with a unique key",
        lambda probing: probing.error(3, "v1"),
    ),
    Probe(
        "null",
        "the driver's error for NULL in a column that is NOT NULL",
        lambda probing: probing.error(3, None),
    ),
    Probe("exact_names", "a table and a column are found under their names, also if these are keywords", _exact_names),
    Probe(
        "name_length",
        "the greatest length of a name",
        lambda probing: probing.dialect.max_identifier_length,
        "dialect",
    ),
    Probe(
        "unquoted_names",
        "how names without quotes are stored",
        lambda probing: _unquoted_names(probing.dialect),
        "dialect",
    ),
    Probe("column_case", "two columns differ only in case", lambda probing: probing.are_distinct("a", "A")),
    Probe("table_case", "two tables differ only in case", _table_case),
    Probe("final_blank", "a name ends with a blank", lambda probing: probing.are_distinct("a", "a ")),
    Probe("wide_names", "a name has characters beyond U+FFFF", lambda probing: probing.are_distinct("😀", "€")),
    Probe("parameters", "so many parameters of a statement were accepted", _parameters),
    Probe(
        "text_comparison",
        "texts that differ in more than final blanks are different keys",
        partial(_text_comparison, _ALIKE),
    ),
    Probe(
        "final_blanks",
        "texts that differ in final blanks are different keys; where they are not, a blank more is compared as part of"
        " the text, but both cannot be keys of one table",
        partial(_text_comparison, ("a", "a ", "a  ")),
    ),
    Probe("empty_texts", "an empty text is not NULL", _empty_texts),
    *(
        Probe(
            name,
            f"the type whose columns return every value of {kind}",
            partial(_kind, name),
        )
        for name, kind in (
            ("boolean", "boolean"),
            ("smallint", "smallint"),
            ("integer", "integer"),
            ("bigint", "bigint"),
            ("double", "double precision that is finite"),
            ("bytes", "bytea"),
            ("date", "date, from year 1 to 9999"),
            ("timestamp", "timestamp, from year 1 to 9999 with microseconds"),
            ("text", "text, with a million characters"),
            ("varchar", "a text with 255 characters"),
        )
    ),
    Probe(
        "special_doubles",
        "double precision can be NaN and infinite",
        lambda probing: _double(probing, _SPECIAL) is not None,
    ),
    Probe("signed_zero", "0 and -0 are different", lambda probing: _double(probing, (-0.0,)) is not None),
    Probe(
        "decimal_precision",
        "the greatest precision with which decimals are exact, of 38, 31, 28 and 18",
        lambda probing: None if (found := _decimal(probing)) is None else found[0],
    ),
    Probe(
        "decimal",
        "the type of such decimals",
        lambda probing: None if (found := _decimal(probing)) is None else found[1],
    ),
)
"""In the order in which `subscriber check` prints them."""


def probe(engine: sa.Engine, database: str) -> DatabaseFacts:
    """What the probes find. SQLAlchemy's error if there is no connection, or no table can be
    created.
    """
    probing = Probing(engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's, about types that are then not exact
        try:
            probing.rows(1)
            found = [Fact(one.name, _tried(partial(one.find, probing), _if_it_fails(one)), one.found) for one in PROBES]
        finally:
            probing.drop_tables()
    return DatabaseFacts(database, by_name(found))


def _if_it_fails(one: Probe) -> FactValue:
    return None if one.name in (*KINDS, "decimal", "decimal_precision", "parameters", "alter_table") else False


def _tried(find: Callable[[], _Result], otherwise: _Result) -> _Result:
    """Drivers raise Python's errors, too, for values that they do not take."""
    try:
        return find()
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        return otherwise
    except (exc.SQLAlchemyError, ArithmeticError, LookupError, TypeError, ValueError, NotImplementedError):
        return otherwise
