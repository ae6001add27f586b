"""LOAD DATA LOCAL from COPY's text. The server is a recorder of what it receives.

tests/targets/test_loading.py and tests/conformance/test_apply_mariadb.py load into a real server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pymysql.err import OperationalError, ProgrammingError

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.loading import LoadColumn, write_block
from subscriber.targets.mariadb import writing
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.transactions import CounterRestarts
from tests.unit.targets.recorded_server import RecordedServer

INT, TEXT = TargetColumn("a", "int(11)", "int"), TargetColumn("b", "text", "text")
INTO = r"LOAD DATA LOCAL INFILE 'block' INTO TABLE "
FORMAT = r" CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"


@pytest.fixture(autouse=True)
def loads_exactly(target):
    """What the probe finds in MariaDB and MySQL."""
    target.loading._bulk.loads_exactly = True


@dataclass
class Server:
    """What a connection sends, and what it answers.

    Attributes:
        error: the error with which LOAD DATA is refused.
        lost: the rows of each block that the server does not insert.
        warnings: the rows of SHOW WARNINGS after LOAD DATA: level, number, text.
        loaded: statement and data of each LOAD DATA.
        inserted: statement and parameters of each INSERT.
    """

    error: Exception | None = None
    lost: int = 0
    warnings: tuple[tuple[str, int, str], ...] = ()
    loaded: list[tuple[str, bytes]] = field(default_factory=list)
    inserted: list[tuple[str, Any]] = field(default_factory=list)

    def load(self, statement: str, data: bytes) -> tuple[int, int]:
        """The driver's function."""
        self.loaded.append((statement, data))
        if self.error is not None:
            raise self.error
        return data.count(b"\n") - self.lost, len(self.warnings)

    def exec_driver_sql(self, statement: str, parameters: Any = None) -> Any:
        """SQLAlchemy's function."""
        if statement == "SHOW WARNINGS":
            return SimpleNamespace(all=lambda: list(self.warnings))
        self.inserted.append((statement, parameters))
        return None

    @property
    def connection(self) -> sa.Connection:
        """The server as the loader uses it."""
        driver = SimpleNamespace(driver_connection=self)
        return cast(
            "sa.Connection", SimpleNamespace(connection=driver, dialect=None, exec_driver_sql=self.exec_driver_sql)
        )


def load(
    target: Any, server: Server, columns: dict[TargetColumn, int], *blocks: bytes, schema: str | None = None
) -> None:
    table = TargetTable(schema, "t", tuple(columns), None)
    loads = [LoadColumn(column, type_oid) for column, type_oid in columns.items()]
    with target.loading.loader(server.connection, table, loads) as load_block:
        for block in blocks:
            load_block(block)


def refusal(target: Any, server: Server, columns: dict[TargetColumn, int], block: bytes) -> SubscriberError:
    with pytest.raises(SubscriberError) as raised:
        load(target, server, columns, block)
    return raised.value


def test_a_block_is_copys_text(target):
    assert target.loading.block_format([LoadColumn(INT, 23)]) == "text"


# The statement ------------------------------------------------------------------------------------


def test_each_block_is_loaded_as_it_is(target):
    server = Server()
    load(target, server, {INT: 23, TEXT: 25}, b"1\tx\n\\N\ta\\tb\\\\\n", b"3\t\\N\n")
    statement = f"{INTO}`t`{FORMAT} (`a`, `b`)"
    assert server.loaded == [(statement, b"1\tx\n\\N\ta\\tb\\\\\n"), (statement, b"3\t\\N\n")]
    assert server.inserted == []


def test_a_value_that_mariadb_writes_in_another_form_is_set_from_a_variable(target):
    server = Server()
    flag, data = TargetColumn("f", "tinyint(1)", "tinyint"), TargetColumn("d", "longblob", "longblob")
    load(target, server, {INT: 23, flag: 16, data: 17}, b"1\tt\t\\\\x00ff\n")
    ((statement, _),) = server.loaded
    assert statement.endswith(" (`a`, @c1, @c2) SET `f` = @c1 = 't', `d` = UNHEX(SUBSTR(@c2, 3))")


def test_names_are_quoted(target):
    """names_are_data: the statement has no parameters, so a percent sign is not doubled."""
    server = Server()
    load(target, server, {TargetColumn("a`%s", "int(11)", "int"): 23}, b"1\n", schema="s`")
    ((statement, _),) = server.loaded
    assert statement == f"{INTO}`s```.`t`{FORMAT} (`a``%s`)"


def test_escapes_that_mariadb_does_not_know_are_replaced_by_their_characters(target):
    server = Server()
    load(target, server, {TEXT: 25}, b"a\\fb\\vc\\\\fd\\n\n")
    assert server.loaded[0][1] == b"a\x0cb\x0bc\\\\fd\\n\n"


# Errors -------------------------------------------------------------------------------------------


def test_an_error_of_the_driver_is_translated(target):
    """names_are_data"""
    error = refusal(target, Server(OperationalError(1062, "Duplicate entry 'secret' for key 'u'")), {INT: 23}, b"1\n")
    assert isinstance(error, ConflictError)
    assert error.message == 'duplicate key value violates unique constraint "u"'
    assert error.__suppress_context__


def test_an_error_without_a_number_is_unavailable(target):
    assert refusal(target, Server(OperationalError(0, "")), {INT: 23}, b"1\n").transient


def test_a_warning_is_an_error(target):
    """With LOCAL the server continues after an error. The first warning that is known is raised."""
    server = Server(
        warnings=(("Note", 9999, "secret"), ("Warning", 1264, "Out of range value for column 'a' at row 1"))
    )
    error = refusal(target, server, {INT: 23}, b"99999999999\n")
    assert isinstance(error, UnsupportedValue)
    assert (error.sqlstate, error.column) == ("22003", "a")


@pytest.mark.parametrize(
    ("server", "numbers"),
    [
        (Server(lost=1), "none given"),
        (Server(warnings=(("Note", 9999, "secret"), ("Note", 9998, "secret"), ("Note", 9999, "s"))), "9998, 9999"),
    ],
    ids=["a row is missing", "unknown warnings"],
)
def test_a_row_that_is_not_loaded_as_it_is_is_an_error(target, server, numbers):
    """any_crash, names_are_data"""
    error = refusal(target, server, {INT: 23}, b"1\n2\n")
    assert type(error) is TargetError
    assert error.message == f"MariaDB did not load every row as it is (warnings: {numbers})"


@pytest.mark.parametrize(
    ("block", "has_null"),
    [(b"x\t\\N\n", True), (b"x\t1\ny\t\\N\n", True), (b"\\N\t1\n", False), (b"a\\\\N\t1\n", False)],
    ids=["first row", "second row", "another column", "no NULL"],
)
def test_a_null_for_a_generated_value_is_refused_before_it_is_sent(target, block, has_null):
    """absence_is_typed"""
    number = TargetColumn("n", "int(11)", "int", nullable=False, null_is_generated=True)
    server = Server()
    if has_null:
        error = refusal(target, server, {TEXT: 25, number: 23}, block)
        assert (error.sqlstate, error.column) == ("23502", "n")
        assert server.loaded == []
    else:
        load(target, server, {TEXT: 25, number: 23}, block)
        assert server.loaded[0][1] == block


# Without local data -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1148, 3948, 4166])
def test_a_server_that_forbids_local_data_gets_inserts(target, number):
    """The decision holds for the blocks that follow."""
    server = Server(OperationalError(number, "forbidden"))
    load(target, server, {INT: 23, TEXT: 25}, b"1\ta\\tb\\n\\\\\\q\\b\\f\\r\\v\n\\N\t\\N\n", b"3\t\n")
    assert len(server.loaded) == 1
    insert = "INSERT INTO `t` (`a`, `b`) VALUES (%(p0)s, %(p1)s)"
    assert server.inserted == [
        (insert, [{"p0": 1, "p1": "a\tb\n\\q\b\f\r\v"}, {"p0": None, "p1": None}]),
        (insert, [{"p0": 3, "p1": ""}]),
    ]


def test_values_of_another_type_are_inserted_as_postgresql_reads_them(target):
    """C5: MariaDB would read 0x10 as 0."""
    server = Server()
    load(target, server, {INT: 25}, b" 0x10 \n")
    assert (server.loaded, [rows for _, rows in server.inserted]) == ([], [[{"p0": 16}]])


# A server that does not report what it changes.


def test_a_server_that_does_not_report_what_it_changes_gets_inserts(target):
    target.loading._bulk.loads_exactly = False
    columns = [LoadColumn(INT, 23), LoadColumn(TEXT, 25)]
    assert target.loading.block_format(columns) == "arrow"
    sent: list[bytes] = []

    def send(text: bytes) -> int:
        sent.append(text)
        return 2

    connection = SimpleNamespace(connection=SimpleNamespace(driver_connection=SimpleNamespace(query=send)))
    rows = pa.RecordBatch.from_pydict({"a": pa.array([1, None], pa.int32()), "b": ["it's", "\\"]})
    with target.loading.loader(
        cast("sa.Connection", connection), TargetTable(None, "t", (INT, TEXT), None), columns
    ) as one:
        one(write_block(rows))
        one(write_block(rows.slice(0, 0)))
    assert sent == [rb"INSERT INTO `t` (`a`, `b`) VALUES (1, 'it\'s'),(NULL, '\\')"]


@pytest.mark.parametrize(
    ("created", "loaded", "expected"),
    [
        ([], (1, 1), True),
        ([], (1, 0), False),
        ([], OperationalError(1148, "not allowed"), True),
        ([], OperationalError(1366, "Incorrect integer value"), True),
        (ProgrammingError(1235, "not supported"), None, False),
    ],
    ids=["a warning", "silence", "forbidden", "an error", "no temporary tables"],
)
def test_a_load_is_exact_if_a_changed_value_is_reported(created, loaded, expected):
    """refuse_not_guess: OceanBase loads x into an integer column as 0, and commits."""

    def load(statement: str, data: bytes) -> tuple[int, int]:
        assert (statement, data) == ("LOAD DATA LOCAL INFILE 'block' INTO TABLE `subscriber probe` (a)", b"x\n")
        if isinstance(loaded, Exception):
            raise loaded
        return cast("tuple[int, int]", loaded)

    server = RecordedServer({"CREATE TEMPORARY": created}, info={"load": load})
    with server.engine(URL).connect() as connection:
        assert writing.loads_exactly(connection) is expected
    dropped = "DROP TEMPORARY TABLE `subscriber probe`" in server.statements
    assert dropped == (loaded is not None)


def test_a_connection_that_is_lost_says_nothing_about_loads():
    def load(statement: str, data: bytes) -> tuple[int, int]:
        raise OperationalError(2013, "Lost connection")

    engine = RecordedServer(info={"load": load}).engine(URL)
    with engine.connect() as connection, pytest.raises(TargetUnavailable):
        writing.loads_exactly(connection)


# AUTO_INCREMENT counters that are reset after the transaction.


URL = "mariadb+pymysql://user@host/db"
T, U = TargetTable(None, "t", (), None), TargetTable("s", "u", (), None)
WAIT, DEFAULT = "SET SESSION lock_wait_timeout = 5", "SET SESSION lock_wait_timeout = DEFAULT"


def restarts(server: RecordedServer) -> CounterRestarts:
    return CounterRestarts(server.engine(URL), MariaDBErrors())


def test_each_transaction_collects_its_own_tables(caplog):
    server = RecordedServer()
    counters, engine = restarts(server), server.engine(URL)
    with engine.connect() as one, engine.connect() as other:
        with counters.collected(one) as of_one, counters.collected(other) as of_other:
            counters.want(one, [T])
            counters.want(other, [U])
            counters.want(one, [U])
        assert (of_one, of_other) == ([T, U], [U])
    assert caplog.messages == []


def test_a_prepared_transaction_leaves_the_counters_and_says_so(caplog):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        restarts(server).want(connection, [T])
    assert caplog.messages == [
        "a prepared transaction of MariaDB cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is"
    ]


def test_a_prepared_transaction_without_counters_says_nothing(caplog):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        restarts(server).want(connection, [])
    assert caplog.messages == []


def test_a_transaction_that_has_ended_collects_nothing_more(caplog):
    server = RecordedServer()
    counters = restarts(server)
    with server.engine(URL).connect() as connection:
        with counters.collected(connection) as tables:
            pass
        counters.want(connection, [T])
    assert tables == []


def test_the_counters_are_reset_with_a_short_wait_for_other_sessions():
    server = RecordedServer()
    restarts(server).restart([T, U])
    assert server.statements == [
        "CONNECT", WAIT, "ALTER TABLE t AUTO_INCREMENT = 1", "ALTER TABLE s.u AUTO_INCREMENT = 1", DEFAULT, "ROLLBACK",
    ]  # fmt: skip


def test_a_reset_that_fails_is_a_warning(caplog):
    """The transaction is committed already."""
    server = RecordedServer({"ALTER TABLE": OperationalError(1205, "Lock wait timeout exceeded")})
    restarts(server).restart([T])
    assert server.statements[-2:] == [DEFAULT, "ROLLBACK"]
    (message,) = caplog.messages
    assert message.endswith("set AUTO_INCREMENT back: MariaDB is not available (error 1205, LOCK_WAIT_TIMEOUT)")
