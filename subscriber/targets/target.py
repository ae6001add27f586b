"""What every target offers: one write transaction, tables' shapes, values to bind, errors in our words.

A dialect overrides what it knows better. The driver's exceptions become ours here and nowhere else
(:meth:`Target.translate`), and their text is thrown away: drivers quote rows in their messages, and
no message of ours may hold a value (invariant names_are_data). For the same reason errors are raised
``from None``: a printed traceback would show the driver's text.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.errors import (
    ConflictError,
    NotSupportedError,
    SubscriberError,
    TargetError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.schema.shape import ColumnShape, SequencePosition, TableShape, UniqueKey
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.generic.types import generic_type
from subscriber.targets.loader import BlockFormat, LoadColumn, insert_loader
from subscriber.targets.query_result import QueryResult, read_result
from subscriber.targets.target_table import (
    AutoIncrement,
    RowVersion,
    TargetColumn,
    TargetSequence,
    TargetTable,
    UniqueIndex,
)
from subscriber.types import equality_of
from subscriber.types.equality import Equality
from subscriber.waiting import watched

Change = TypeVar("Change", sa.Update, sa.Delete)
Writing = TypeVar("Writing", sa.Insert, sa.Update)
Touching = TypeVar("Touching", sa.Update, sa.Delete, sa.Select[Any])


@dataclass(frozen=True, slots=True)
class DurabilityWarning:
    """A setting of the target's by which a commit can be lost.

    Attributes:
        message: what may happen, and why.
        hint: what to run.
    """

    message: str
    hint: str


class Target(ABC):
    """A database that rows are replicated into.

    Attributes:
        url: where it is; its string form hides the password.
        engine: the SQLAlchemy engine; write through :meth:`begin` only.
        capabilities: what this kind of database can do.
        real_type_code: the driver's code for single-precision columns in a result; None where it tells them not apart.
        is_throwaway: it was made for a while, and nobody asks whether what it has survives a power failure.
    """

    capabilities: ClassVar[Capabilities]
    real_type_code: ClassVar[Hashable | None] = None
    is_throwaway: bool = False

    def __init__(self, url: sa.URL, engine: sa.Engine) -> None:
        self.url = url
        self.engine = engine

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """One write transaction: committed when the block ends, rolled back when it raises.

        Raises:
            TargetUnavailable: no connection, or another writer holds the database for too long.
            SubscriberError: any other failure of the driver, as :meth:`translate` words it.
        """
        sessions: list[int] = []
        with (
            watched(f"a transaction of the target ({self.capabilities.database})", partial(self._asked, sessions)),
            self.reporting(),
            self._write_engine().begin() as connection,
        ):
            session = self.session_id(connection)
            if session is not None:
                sessions.append(session)
            self.prepare_transaction(connection)
            yield connection

    def _asked(self, sessions: Sequence[int]) -> Sequence[str]:
        return self.waits_for(sessions[0] if sessions else None)

    def session_id(self, connection: sa.Connection) -> int | None:
        """How the server calls the session of a connection; None where it has none, or it is not known."""
        del connection
        return None

    def waits_for(self, session: int | None) -> Sequence[str]:
        """Whom a session of ours waits for, in words (:mod:`subscriber.waiting`); nobody where it waits for none, or nobody can tell.

        Args:
            session: of :meth:`session_id`; None is one that is still being opened.
        """
        del session
        return ()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Raise the driver's errors of the block as ours."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise self.translate(error) from None

    def _write_engine(self) -> sa.Engine:
        return self.engine

    def interrupt(self, connection: sa.Connection) -> None:
        """Have the statement end that another thread runs on ``connection``, which then raises; where none runs, nothing happens.

        What cannot be interrupted just goes on.
        """
        del connection  # nothing is known of its driver

    def prepare_transaction(self, connection: sa.Connection) -> None:
        """Make ``connection`` apply as a replica (rule C23), for this transaction."""
        del connection  # which does already, as far as is known

    # Prepared transactions (capabilities.prepared_transactions) --------------------------------------

    def begin_prepared(self, gid: str) -> AbstractContextManager[sa.Connection]:
        """One write transaction that is prepared under ``gid`` when the block ends, and rolled back when it raises.

        What was prepared is durable, holds its locks, and shows to nobody until :meth:`finish_prepared`.

        Raises:
            ApplyError: 55000, the server does not allow it; 42710, ``gid`` is in use.
            SubscriberError: any other failure of the driver, as :meth:`translate` words it.
        """
        raise self._without_prepared_transactions(gid)

    def finish_prepared(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """COMMIT PREPARED, or ROLLBACK PREPARED, on a connection of its own.

        Args:
            gid: its name.
            commit: which of the two.
            origin: what :meth:`set_origin` takes.

        Raises:
            ApplyError: 42704, there is no such prepared transaction.
            SubscriberError: any other failure of the driver, as :meth:`translate` words it.
        """
        del commit, origin
        raise self._without_prepared_transactions(gid)

    def _without_prepared_transactions(self, gid: str) -> NotSupportedError:
        return NotSupportedError(f'{self.capabilities.database} has no prepared transactions, so none named "{gid}"')

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """``gid``, or another name where a neighbour that shares the names, such as a database of the same server, has taken it."""
        del connection  # names are the database's own
        return gid

    def prepared_transactions(self, connection: sa.Connection) -> frozenset[str]:
        """The names of what is prepared in this database; none where it has no prepared transactions."""
        del connection
        return frozenset()

    # -------------------------------------------------------------------------------------------------

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """Make this transaction commit as a subscription's ``synchronous_commit`` asks.

        ``off`` leaves it to the target's own setting: what is committed must be durable there before the journal forgets it.
        """
        del connection, value  # there is one way to commit

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """The settings by which the database may lose what it has committed, when the machine fails or its own process does.

        The journal is trimmed behind a commit, so such changes come from nowhere again.

        Raises:
            TargetUnavailable: it cannot be asked.
        """
        return ()  # nothing is known of its settings

    @abstractmethod
    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """The target's table for the publisher's ``schema.table`` (rule C1), None where there is none."""

    @abstractmethod
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Refuse a column that would change values of this PostgreSQL type without saying so.

        Raises:
            TargetRelationError: naming the column, its declared type, and how to declare it.
        """

    @abstractmethod
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The Python values to bind for ``values`` of a PostgreSQL type written to ``column``; NULL is None.

        Raises:
            UnsupportedValue: a value that the column cannot hold exactly.
        """

    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The column in a query that is to show every stored value as it is, where the driver would give another."""
        return sa.column(column.name)

    # Origins --------------------------------------------------------------------------------------------

    def set_origin(self, connection: sa.Connection, name: str) -> None:
        """Mark what this transaction writes as coming from a replication origin, where the target has such marks (rule C32).

        Raises:
            TargetUnavailable: another process works as this origin.
        """
        del connection, name  # it has no such marks

    def set_origin_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """Where the origin stands when this transaction commits: the last remote commit's LSN and time (rule C32).

        Args:
            connection: to which :meth:`set_origin` was applied.
            lsn: the progress.
            timestamp: microseconds since 2000-01-01 UTC; None where nothing was committed.
        """
        del connection, lsn, timestamp  # it has no such marks

    def other_origin(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """The condition that a row was written last by anybody but this transaction's origin; None where nobody can tell."""
        del connection  # without marks there is none
        return None

    def drop_origin(self, connection: sa.Connection, name: str) -> None:
        """Forget the origin that :meth:`set_origin` has made, if it has."""
        del connection, name  # it has made none

    # Conflicts ------------------------------------------------------------------------------------------

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """What is unique in ``table``, in PostgreSQL's order: the primary key, then as they were made (rule C22)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exc.SAWarning)  # on indexes of expressions, which are left out
            inspector = sa.inspect(connection)
            primary = inspector.get_pk_constraint(table.name, table.schema)
            uniques = inspector.get_unique_constraints(table.name, table.schema)
            indexes = inspector.get_indexes(table.name, table.schema)
        found = [(primary["name"] or f"{table.name}_pkey", primary["constrained_columns"])]
        for unique in uniques:
            columns = unique["column_names"]
            found.append((unique["name"] or "_".join([table.name, *columns, "key"]), columns))
        for index in indexes:
            names = [name for name in index["column_names"] if name is not None]
            # What a partial index is about is not known here.
            if index["unique"] and len(names) == len(index["column_names"]) and not _is_partial(index):
                found.append((str(index["name"]), names))
        # MySQL's unique constraints are indexes too.
        return list({name: UniqueIndex(name, tuple(columns)) for name, columns in found if columns}.values())

    def row_version(self) -> Sequence[sa.ColumnElement[Any]]:
        """What to select of a row so that :meth:`read_row_version` can tell of it; nothing where nothing is remembered."""
        return ()

    def read_row_version(
        self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]
    ) -> RowVersion | None:
        """Who wrote a row last (rule C20); None where the target does not remember that.

        Args:
            connection: the one that has read the row.
            table: which it was read from.
            values: what :meth:`row_version` selected, as text.
        """
        del connection, table, values  # nothing was asked for
        return None

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """The name that a partitioned table's index has in its partition ``leaf`` (schema and name)."""
        del connection, table, leaf  # only those of PostgreSQL have any
        return index

    # Finding rows ---------------------------------------------------------------------------------------

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Whether a row that a value of its key has found holds just what an UPDATE to that value would write.

        SET can leave such a column of the key out then, and nobody can tell: no two values are equal that are not stored alike, and no
        trigger asks which columns SET names. To write a key costs time, and DuckDB takes it for another row.

        Args:
            type_oid: the publisher's type.
            table: the column's.
            column: one of the key, found by :meth:`finds`.
        """
        del type_oid, table, column
        return False  # nothing is known of its equality

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """What makes a value of a PostgreSQL type equal to one stored in ``column`` (rules C14, C17).

        :data:`~subscriber.types.equality.EXACT` where the target compares two values just as PostgreSQL does.
        """
        del column  # which keeps the text
        return equality_of(type_oid)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """``clause``, which is ``column``, in a form that equals a bound value only if PostgreSQL tells the two not apart."""
        del column  # texts are compared as they are stored
        return clause

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that ``clause``, which is ``column``, has a bound value, by the equality of a key on it."""
        del column  # any type's = will do
        return clause == value

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that finds a row by a column of its key: :meth:`equals`, and nothing that only the target takes for the same."""
        return self.equals(column, clause, value)

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition of a whole row's comparison: as :meth:`equals`, and NULL equals NULL (rule C14)."""
        return self.comparable(column, clause).is_not_distinct_from(value)

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """``statement`` about rows of ``table`` itself, and not of others that inherit from it.

        Args:
            table: the table.
            statement: an UPDATE, a DELETE or a SELECT.
            clause: the table in it.
        """
        del table, clause  # nothing inherits
        return statement

    def or_fail(self, table: TargetTable, statement: Writing) -> Writing:
        """``statement``, an INSERT or UPDATE of ``table``, made to fail where a constraint is violated, whatever the table says."""
        del table  # a constraint can do nothing else
        return statement

    def change_first(self, statement: Change) -> Change | None:
        """An UPDATE or DELETE of one table that changes one of the rows it finds; None where that cannot be said in SQL."""
        del statement
        return None

    # Queries --------------------------------------------------------------------------------------------

    def query(self, sql: str) -> QueryResult:
        """The answer to a query in the target's own SQL, as text; what the query changes is rolled back.

        Raises:
            SubscriberError: as :meth:`translate` words it.
        """
        with self.reporting(), self.engine.connect() as connection, self.interruptible(connection):
            # Without parameters no driver takes a percent sign for one.
            result = connection.execution_options(no_parameters=True).exec_driver_sql(sql)
            return self.read_result(result)

    def interruptible(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Let Control-C end a query of the block; most drivers see to it themselves."""
        del connection
        return nullcontext()

    def read_result(self, result: sa.CursorResult[Any]) -> QueryResult:
        """All of a result as text."""
        return read_result(result, self.real_type_code)

    # Loading --------------------------------------------------------------------------------------------

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """What :meth:`loader` takes for these columns."""
        del columns  # the same for all
        return self.capabilities.copy_format

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """Load many rows inside the caller's transaction: each call gets one block; when the with-block ends all are in.

        Args:
            connection: of :meth:`begin`.
            table: where the rows go; columns of it that are not loaded get their defaults, identities are overridden.
            columns: what the blocks hold, in the order in which they hold it (see :mod:`subscriber.targets.loader`).

        Raises:
            SubscriberError: as :meth:`translate` words it, from a call or from the end of the block.
        """
        with insert_loader(self, connection, table, columns) as load:
            yield load

    def is_database_of(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """Whether the target is database ``database`` of the PostgreSQL cluster with this system identifier."""
        del connection, system_identifier, database  # it is no PostgreSQL
        return False

    # New tables (subscriber.targets.ddl) -----------------------------------------------------------------

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """Where a new table for the publisher's ``schema.table`` belongs, so that :meth:`reflect` finds it: schema and name in SQL."""
        return None if schema == "public" else schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """How to declare a column that holds every value of a PostgreSQL type exactly.

        Args:
            type_oid: the type.
            type_name: ``format_type``'s name of it, such as ``numeric(10,2)``.
            key: the column is part of a key, which some databases allow for some types only.
        """
        return generic_type(type_oid, type_name, key=key).compile(dialect=self.engine.dialect)

    def storage(self, declared: str) -> str:
        """:attr:`TargetColumn.storage` of a column that is declared so."""
        return declared.partition("(")[0]

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """PostgreSQL's expression in this target's SQL; None where it may mean something else there.

        Args:
            expression: as ``pg_get_expr`` prints it with an empty search_path.
            types: type OID of every column of its table.
        """
        del expression, types  # nothing is known of the target's
        return None

    def literal(self, value: Any) -> str | None:
        """A value that :meth:`bind_values` gave, as a constant of the target's SQL; None where it has none."""
        match value:
            case bool() | int():
                return str(int(value))
            case float() if math.isfinite(value):
                return repr(value)
            case str() if "\\" not in value:  # which is an escape in some databases
                return "'" + value.replace("'", "''") + "'"
            case _:
                return None

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """A unique key; None where the target has none of the kind."""
        return None if key.deferrable or not key.nulls_distinct else sa.UniqueConstraint(*key.columns)

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """A unique key that is no :meth:`unique_constraint`, as an index of a new table; None where the target has none of the kind."""
        del table, key
        return None

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """How an identity or serial column of a new table makes its values here; None where it cannot.

        Args:
            shape: the table.
            column: one of its columns.
            declared: the column's type, as :meth:`column_type` gave it.
        """
        del shape, column, declared
        return None

    # -------------------------------------------------------------------------------------------------

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """Empty ``tables`` together, RESTRICT always (rules C29, C30).

        Raises:
            ConflictError: 0A000, a foreign key of another table refers to one of them.
            TargetRelationError: 0A000, the identity cannot be restarted.
        """
        if restart_identity and not self.capabilities.restart_identity:
            raise TargetRelationError(
                f"{self.capabilities.database} cannot restart identities on TRUNCATE",
                sqlstate="0A000",
                hint="Truncate at the publisher with CONTINUE IDENTITY.",
            )
        for table in tables:
            connection.execute(sa.delete(table.clause()))

    def sequence_of(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """What makes the values of a column for rows that name none; None where nothing does.

        Raises:
            SubscriberError: as :meth:`translate` words it.
        """
        del connection, table, column
        return None

    def sequence_named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """The sequence of this name, where the target has sequences as PostgreSQL has them; else None.

        Raises:
            SubscriberError: as :meth:`translate` words it.
        """
        del connection, schema, name
        return None

    def set_sequence(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """Let a sequence or counter go on as a sequence of the publisher does.

        As with PostgreSQL's REFRESH SEQUENCES the publisher's value counts, whatever the target's own was: it may go back, and
        rows that only the target has may stand in its way.

        Args:
            connection: of :meth:`begin`; some targets cannot take the change back with the transaction.
            sequence: of :meth:`sequence_of` or :meth:`sequence_named`.
            position: where the publisher's stands; :meth:`TargetSequence.obstacle` has nothing against it.

        Raises:
            SubscriberError: as :meth:`translate` words it.
        """
        del connection, position
        raise NotSupportedError(f'{self.capabilities.database} has no sequence "{sequence.name}"')

    def override_identity(self, insert: str) -> str:
        """An INSERT statement that writes identity columns too."""
        return insert

    @property
    def status_file(self) -> Path | None:
        """Where a run leaves its status while a batch keeps everybody else out; None where the target can be read meanwhile."""
        return None

    def run_lock(self) -> AbstractContextManager[None]:
        """Own the target as its only runner, as far as ``capabilities.run_lock`` says.

        Raises:
            AlreadyRunning: another runner owns it.
        """
        return nullcontext()

    def is_run_locked(self, connection: sa.Connection) -> bool | None:
        """Whether a runner owns the target now; None where nobody can tell."""
        del connection  # there is no lock
        return None

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """The driver's error in our words: class, SQLSTATE, constraint or column names; no values.

        Args:
            error: what SQLAlchemy raised.
            columns: the column that each parameter of the failed statement was for, where the caller knows.
        """
        name = self.capabilities.database
        del columns  # which parameter it was, only a dialect can tell
        kind = type(getattr(error, "orig", None) or error).__name__
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            return TargetUnavailable(f"the connection to {name} was lost")
        match error:
            case exc.IntegrityError():
                return ConflictError(f"a constraint of {name} forbids the change ({kind})", sqlstate="23000")
            case exc.DataError():
                return UnsupportedValue(f"{name} cannot hold a value exactly ({kind})")
            case exc.OperationalError() | exc.InterfaceError() | exc.TimeoutError():
                return TargetUnavailable(f"{name} is not available ({kind})")
            case _:
                return TargetError(f"{name} refused a statement ({kind})")

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_partial(index: Mapping[str, Any]) -> bool:
    return any(
        option.endswith("_where") and value is not None for option, value in index.get("dialect_options", {}).items()
    )
