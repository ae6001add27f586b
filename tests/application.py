"""Plays the applications of ``tests/data``: one writes at the publisher while a migration goes on,
and inserts into the target after the switch.

::

    tests/data/shop.sql               the publisher's database
    tests/data/shop_application.sql   what the application writes ──▶ Application, some threads
    AFTER_THE_SWITCH["shop"]          what it inserts then        ──▶ inserts_into(target, "shop")

An application has no part in the migration: it knows neither slots nor subscriptions. A statement
that the database refuses for a good reason (a key that exists, a row that is referred to, a
deadlock) is rolled back, and the application goes on. When the database has become read-only, the
application ends: this is what the fence of a cutover does to it.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from subscriber.postgres.schema.relation_names import RelationNames
from subscriber.targets import Target, TargetTable

DATA: Final = Path(__file__).parent / "data"
MODELS: Final = ("airline", "rental", "shop")
PUBLICATION: Final = "app"

_REFUSED: Final = (
    psycopg.errors.IntegrityError,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


def load_model(name: str, tables: int = 500) -> str:
    """The SQL that creates the database of a model, with its data and its publication; ``tables``
    is the number of tables of the model "large".
    """
    return f"SET large.tables = '{tables}'; {(DATA / f'{name}.sql').read_text()}"


# Before the switch --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """What an application writes: transactions in any order, and DDL, each once, in its order."""

    transactions: tuple[str, ...]
    schema_changes: tuple[str, ...]


def load_workload(name: str) -> Workload:
    """Read ``tests/data/<name>_application.sql``, which says how it is written."""
    blocks = (DATA / f"{name}_application.sql").read_text().strip().split("\n\n")[1:]
    once = tuple(block for block in blocks if block.startswith("-- once"))
    return Workload(tuple(block for block in blocks if block not in once), once)


class Application:
    """Writes to the publisher in threads of its own until it is stopped.

    ``with Application(conninfo, "shop"): …`` runs it.

    Args:
        conninfo: the publisher.
        name: the model.
        seed: of the random choices. Each thread has its own.
        threads: how many transactions are written at the same time.
        pause: the seconds between two transactions of a thread.

    Attributes:
        transactions: the number of committed transactions.
        fenced: the number of threads that have ended because the database became read-only.
    """

    def __init__(self, conninfo: str, name: str, *, seed: int = 1, threads: int = 2, pause: float = 0.02) -> None:
        self.transactions = 0
        self.fenced = 0
        self._conninfo = conninfo
        self._workload = load_workload(name)
        self._pause = pause
        self._errors: list[BaseException] = []
        self._changed = threading.Lock()
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(f"{name} {seed} {number}"),), daemon=True)
            for number in range(threads)
        ]

    def __enter__(self) -> Application:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads, and wait until no transaction is open.

        Raises:
            BaseException: the first error for which a thread has ended, if there was one.
        """
        self._ending.set()
        self.join()

    def join(self) -> None:
        """Wait until all threads have ended, by :meth:`stop` or because of a fence.

        Raises:
            BaseException: the first error for which a thread has ended, if there was one.
        """
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def change_schema(self) -> int:
        """Run the DDL of the model, each statement in a transaction of its own, while the threads
        write. Returns the number of the changes.
        """
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            for block in self._workload.schema_changes:
                while not self._run(connection, block, random.Random(block)):
                    self._ending.wait(0.05)
        return len(self._workload.schema_changes)

    def _work(self, choices: random.Random) -> None:
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                while not self._ending.is_set():
                    if self._run(connection, choices.choice(self._workload.transactions), choices):
                        with self._changed:
                            self.transactions += 1
                    self._ending.wait(self._pause)
        except psycopg.errors.ReadOnlySqlTransaction:
            with self._changed:
                self.fenced += 1
        except BaseException as error:  # stop() raises it
            self._errors.append(error)

    def _run(self, connection: psycopg.Connection[Any], block: str, choices: random.Random) -> bool:
        """Run one transaction; False if it was refused and rolled back."""
        numbers = {name: str(choices.randrange(1000)) for name in "abc"}
        statements = re.sub(r"(?<!:):([abc])\b", lambda found: numbers[found[1]], block)
        try:
            connection.execute(f"BEGIN;\n{statements};\nCOMMIT".encode())
        except _REFUSED:
            connection.execute("ROLLBACK")
            return False
        return True


# After the switch ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """Stands for the value that the target has generated for an earlier row of ``table``."""

    table: str


@dataclass(frozen=True)
class NewRow:
    """A row that the application inserts after the switch.

    Attributes:
        table: the publisher's name of the table.
        values: what the application gives.
        generated: the column for which the target generates the next number; empty if there is
            none. The application gives the number where the target's column generates nothing.
        defaults: the constant defaults of columns that are not given.
    """

    table: str
    values: Mapping[str, Any]
    generated: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inserted:
    """A row that was inserted.

    Attributes:
        row: what was to be inserted.
        number: the value of the column ``row.generated``; None if there is no such column.
        highest_before: the highest value of this column before the row was inserted.
        by_target: whether the target has generated the number.
        defaults: the values of the columns of ``row.defaults``, as texts.
    """

    row: NewRow
    number: int | None
    highest_before: int
    by_target: bool
    defaults: Mapping[str, str]


AFTER_THE_SWITCH: Final[Mapping[str, Sequence[NewRow]]] = {
    "airline": (
        NewRow("airline.passengers", {"name": "After the switch", "born": date(2000, 2, 29)}, "id"),
        NewRow(
            "airline.accounts",
            {"passenger_id": Generated("airline.passengers"), "number": "A-switch"},
            defaults={"tier": "blue", "points": "0"},
        ),
        NewRow(
            "airline.bookings",
            {"reference": "SWITCH", "booked": "2026-11-21 10:00:00+00:00"},
            defaults={"channel": "web"},
        ),
        NewRow(
            "airline.tickets", {"booking": "SWITCH", "passenger_id": Generated("airline.passengers")}, "number"
        ),
        NewRow("airline.crew", {"name": "After the switch"}, "id"),
        NewRow("airline.crew", {"name": "After the switch, too"}, "id"),
        NewRow("airline.flights", {"departs_on": date(2026, 9, 1), "route_id": 7, "departs": "2026-09-01 06:00:00+00:00"},
               "id", {"status": "scheduled"}),
    ),
    "rental": (
        NewRow("public.categories", {"name": "After the switch", "changed": "2026-11-21 10:00:00+00:00"}, "id"),
        NewRow("public.addresses", {"line": "1 Switch Street", "city_id": 1}, "id", {"district": ""}),
        NewRow(
            "public.customers",
            {"store_id": 1, "first_name": "After", "last_name": "the switch", "address_id": Generated("public.addresses"),
             "since": date(2026, 11, 21)},
            "id",
        ),
        NewRow("public.invoices", {"customer_id": Generated("public.customers")}, "number", {"lines": "[]"}),
        NewRow("public.copies", {"film_id": 1, "store_id": 1}, "id"),
        NewRow(
            "public.payments",
            {"customer_id": Generated("public.customers"), "amount": 5, "paid": "2026-11-21 10:00:00"},
            "id",
        ),
    ),
    "shop": (
        NewRow("shop.categories", {"name": "After the switch"}, "id"),
        NewRow("shop.products", {"sku": "SWITCH-1", "title": "After the switch", "price": 7}, "id", {"vat": "19.00"}),
        NewRow(
            "shop.variants", {"product_id": Generated("shop.products"), "number": 1}, defaults={"color": "black"}
        ),
        NewRow(
            "shop.orders", {"placed_on": date(2026, 11, 21), "message": "After the switch"}, "number", {"state": "new"}
        ),
        NewRow(
            "shop.order_lines",
            {"order_number": Generated("shop.orders"), "placed_on": date(2026, 11, 21), "line": 1,
             "product_id": Generated("shop.products"), "price": 7},
            defaults={"quantity": "1"},
        ),
        NewRow("stock.suppliers", {"name": "After the switch"}, "id"),
        NewRow("stock.purchases", {"supplier_id": Generated("stock.suppliers"), "ordered": date(2026, 11, 21)}, "id",
               {"state": "open"}),
    ),
}  # fmt: skip


def inserts_into(target: Target, name: str, names: RelationNames | None = None) -> list[Inserted]:
    """Insert the rows of ``AFTER_THE_SWITCH`` into the target, each in a transaction of its own.
    The sessions are those of any application: the target's foreign keys and triggers act.

    Args:
        target: the database to which the application was switched.
        name: the model.
        names: maps the publisher's names of tables to the target's.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the target refused a row.
    """
    done: list[Inserted] = []
    numbers: dict[str, int | None] = {}
    for row in AFTER_THE_SWITCH[name]:
        given = {
            column: numbers[value.table] if isinstance(value, Generated) else value
            for column, value in row.values.items()
        }
        with target.engine.begin() as connection:
            done.append(_insert(target, connection, row, given, names))
        numbers[row.table] = done[-1].number
    return done


def _insert(
    target: Target, connection: sa.Connection, row: NewRow, given: dict[str, Any], names: RelationNames | None
) -> Inserted:
    schema, _, table = row.table.partition(".")
    place = (schema, table) if names is None else names.in_target(schema, table)
    found = target.shapes.reflect(connection, *place)
    assert found is not None, row.table
    clause = _clause(found, given)
    highest, by_target = 0, False
    if row.generated:
        highest = connection.scalar(sa.select(sa.func.max(clause.c[row.generated]))) or 0
        by_target = target.sequences.of_column(connection, found, row.generated) is not None
        if not by_target:
            given = {**given, row.generated: highest + 1}
    connection.execute(sa.insert(clause).values(given).inline())
    if row.generated:
        last = sa.select(sa.func.max(clause.c[row.generated])).scalar_subquery()
        condition = [clause.c[row.generated] == last]
    else:
        named = [column for column, value in row.values.items() if isinstance(value, str | Generated)]
        condition = [
            clause.c[column] == sa.bindparam(None, given[column], clause.c[column].type, unique=True)
            for column in named
        ]
    # Not all columns: psycopg does not read an infinite date, which is the default of one.
    first = row.generated or next(iter(given))
    shown = [clause.c[column] for column in {first: None, **row.defaults}]
    stored = connection.execute(sa.select(*shown).where(*condition)).mappings().one()
    return Inserted(
        row,
        stored[row.generated] if row.generated else None,
        highest,
        by_target,
        {column: str(stored[column]) for column in row.defaults},
    )


def _clause(table: TargetTable, given: Mapping[str, Any]) -> sa.TableClause:
    """The table as an application declares it: with a type for each column that it fills."""
    types: dict[type, sa.types.TypeEngine[Any]] = {date: sa.Date(), int: sa.BigInteger()}
    columns = [
        sa.column(column.name, types.get(type(given.get(column.name)), sa.types.NullType())) for column in table.columns
    ]
    return sa.table(table.name, *columns, schema=table.schema)
