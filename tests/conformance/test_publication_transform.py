"""The same history through the server's publications and through emulated ones: the same changes,
one by one.

A database gets all publications of this file before its history, since decoding sees the catalogs
of its time. Then the slot is peeked: once for the publication that carries everything, and once for
each choice of the others. What the server sent for them, and what ours makes of the carrier's
stream, must be equal: relations, kinds, values, what was not sent, order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.base.lsn import parse_lsn
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import UNCHANGED, Relation, Truncate
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Compiled, Publishing
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.server_publications import read_publications
from subscriber.stream.decode.decode_frames import FrameDecoder
from subscriber.stream.decode.publish import publish
from tests.conftest import Database, fresh_database
from tests.random_seed import random_seed

TRANSACTIONS: Final = 150
CHOICES: Final = 40
LONG: Final = 2200
"""The number of characters of a text that is stored out of line and still fits into an index."""

SCHEMA: Final = """
CREATE SCHEMA other;
CREATE TABLE plain (a int PRIMARY KEY, b text, c int);
CREATE TABLE whole (a int, b text, c int);
CREATE TABLE other.indexed (a int, k text COLLATE "C" NOT NULL, c int);
CREATE UNIQUE INDEX indexed_k ON other.indexed (k);
CREATE TABLE generated (a int PRIMARY KEY, b int, s int GENERATED ALWAYS AS (b * 2) STORED);
CREATE TABLE dropped (x int, a int PRIMARY KEY, y int, b text);
CREATE TABLE nothing (a int, b text);

CREATE TABLE root (a int PRIMARY KEY, b text, c int) PARTITION BY RANGE (a);
CREATE TABLE low (c int, junk int, b text, a int NOT NULL);
CREATE TABLE other.middle (a int NOT NULL, c int, b text) PARTITION BY RANGE (a);
CREATE TABLE mid PARTITION OF other.middle FOR VALUES FROM (4) TO (7);
CREATE TABLE other.high (b text, a int NOT NULL, c int);

CREATE TABLE rootfull (a int PRIMARY KEY, b text) PARTITION BY LIST (a);
CREATE TABLE even PARTITION OF rootfull FOR VALUES IN (0, 2, 4, 6, 8);
CREATE TABLE odd PARTITION OF rootfull DEFAULT;

ALTER TABLE low DROP COLUMN junk;
ALTER TABLE root ATTACH PARTITION low FOR VALUES FROM (MINVALUE) TO (4);
ALTER TABLE other.middle ATTACH PARTITION other.high FOR VALUES FROM (7) TO (MAXVALUE);
ALTER TABLE root ATTACH PARTITION other.middle FOR VALUES FROM (4) TO (MAXVALUE);
ALTER TABLE dropped DROP COLUMN x, DROP COLUMN y;

ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE other.indexed REPLICA IDENTITY USING INDEX indexed_k;
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
ALTER TABLE other.high REPLICA IDENTITY FULL;
ALTER TABLE rootfull REPLICA IDENTITY FULL;
ALTER TABLE plain ALTER b SET STORAGE EXTERNAL;
ALTER TABLE whole ALTER b SET STORAGE EXTERNAL;
ALTER TABLE other.indexed ALTER k SET STORAGE EXTERNAL;
ALTER TABLE low ALTER b SET STORAGE EXTERNAL;
ALTER TABLE other.high ALTER b SET STORAGE EXTERNAL;
"""

VIA_ROOT: Final = "publish_via_partition_root = true"

PUBLICATIONS: Final = {
    "plain_key": "FOR TABLE plain WHERE (a > 3)",
    "plain_narrow": "FOR TABLE plain (a, c) WHERE (a <> 5)",
    "plain_insert": "FOR TABLE plain WHERE (c > 0 AND b IS NOT NULL) WITH (publish = 'insert')",
    "plain_update": "FOR TABLE plain WHERE (a < 6) WITH (publish = 'update, delete')",
    "plain_all": "FOR TABLE plain WITH (publish = 'delete, truncate')",
    "whole_long": "FOR TABLE whole WHERE (length(b) > 100)",
    "whole_null": "FOR TABLE whole WHERE (c IS NULL OR c < 0 AND a > 2)",
    "whole_prefix": """FOR TABLE whole WHERE (b > 'm' COLLATE "C") WITH (publish = 'update')""",
    "whole_true": "FOR TABLE whole WHERE (true) WITH (publish = 'insert, delete')",
    "indexed": "FOR TABLE other.indexed WHERE (k > 'm')",
    "indexed_length": "FOR TABLE other.indexed WHERE (length(k) < 100) WITH (publish = 'update')",
    "generated": "FOR TABLE generated WHERE (a > 3)",
    "generated_plain": "FOR TABLE generated (b, a)",
    "dropped_live": "FOR TABLE dropped (a, b)",
    "generated_insert": "FOR TABLE generated WHERE (s > 2) WITH (publish = 'insert')",
    "dropped": "FOR TABLE dropped (a), plain WHERE (a < 7)",
    "schema": "FOR TABLES IN SCHEMA other",
    "schema_root": f"FOR TABLES IN SCHEMA other WITH ({VIA_ROOT})",
    "everything": "FOR ALL TABLES",
    "everything_root": f"FOR ALL TABLES WITH ({VIA_ROOT})",
    "everything_insert": "FOR ALL TABLES WITH (publish = 'insert')",
    "root": "FOR TABLE root",
    "root_filter": f"FOR TABLE root WHERE (a > 2) WITH ({VIA_ROOT})",
    "root_insert": f"FOR TABLE root WHERE (c IS NOT NULL) WITH ({VIA_ROOT}, publish = 'insert')",
    "root_narrow": f"FOR TABLE root (a, c) WITH ({VIA_ROOT}, publish = 'insert, truncate')",
    "middle_filter": f"FOR TABLE other.middle WHERE (a % 2 = 0) WITH ({VIA_ROOT}, publish = 'insert, update')",
    "middle": f"FOR TABLE other.middle WITH ({VIA_ROOT})",
    "leaf": "FOR TABLE low WHERE (a > 1), mid",
    "leaf_update": "FOR TABLE low WITH (publish = 'update')",
    "rootfull": f"FOR TABLE rootfull WHERE (a > 2) WITH ({VIA_ROOT})",
}
SINCE_18: Final = {
    "generated_stored": "FOR TABLE generated WITH (publish_generated_columns = stored)",
    "generated_list": "FOR TABLE generated (a, s)",
    "everything_stored": "FOR ALL TABLES WITH (publish_generated_columns = stored)",
    "virtual": "FOR TABLE virtual WHERE (v > 3) WITH (publish = 'insert')",
}
FAILING: Final = {"division": "FOR TABLE plain WHERE (10 / (a - 5) > 1)"}
"""Filters that stop the server at a change of CERTAIN, or before."""

TABLES: Final = ("plain", "whole", "other.indexed", "generated", "dropped", "nothing", "root", "rootfull")
TRUNCATES: Final = (
    "plain", "whole, plain", "root", "low", "mid", "other.middle", "other.high, plain", "other.high, low", "rootfull, other.indexed",
    "even", "plain, root, whole", "generated RESTART IDENTITY", "root CASCADE",
)  # fmt: skip

CERTAIN: Final = f"""
TRUNCATE plain, whole, other.indexed;
INSERT INTO plain VALUES (1, repeat('x', {LONG}), 1);
UPDATE plain SET c = 2 WHERE a = 1;
UPDATE plain SET a = 5, c = NULL WHERE a = 1;
DELETE FROM plain WHERE a = 5;
INSERT INTO whole VALUES (1, repeat('x', {LONG}), 1), (3, 'm', -1);
UPDATE whole SET c = NULL;
UPDATE whole SET b = 'short' WHERE a = 1;
DELETE FROM whole;
INSERT INTO other.indexed VALUES (1, repeat('x', {LONG}), 1);
UPDATE other.indexed SET c = 2;
DELETE FROM other.indexed;
"""
"""What random histories may lack: every kind of old row, and values that are not sent."""


@dataclass(frozen=True)
class Operation:
    """A change as it reaches the subscriber."""

    action: str
    relations: tuple[Relation, ...]
    old_kind: str | None = None
    old: Any = None
    new: Any = None
    flags: tuple[bool, bool] | None = None


@dataclass
class Publisher:
    """A database with a history, and its streams."""

    connection: psycopg.Connection
    slot: str
    tables: PublisherTables
    names: list[str]
    seed: int
    frames: dict[tuple[bool, bool], tuple[Frame, Any]] = field(default_factory=dict)

    def peek(self, publications: Sequence[str], *, binary: bool) -> tuple[pa.BinaryArray, pa.Int64Array]:
        """Messages and their LSNs as the server sends them for these publications."""
        rows = self.connection.execute(
            "SELECT data, (lsn - '0/0')::int8 FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', %s, 'binary', %s)",
            (self.slot, ", ".join(publications), str(binary).lower()),
        ).fetchall()
        return pa.array([row[0] for row in rows], pa.binary()), pa.array([row[1] for row in rows], pa.int64())

    def carried(self, *, binary: bool, as_text: bool) -> tuple[Frame, Any]:
        """All changes, and the LSN of each position."""
        if (binary, as_text) not in self.frames:
            messages, lsns = self.peek(["carrier"], binary=binary)
            frame = FrameDecoder(as_text=as_text).decode(messages, lsns)
            self.frames[binary, as_text] = frame, lsns.to_numpy()
        return self.frames[binary, as_text]


def server_publications(connection: psycopg.Connection) -> dict[str, str]:
    since_18 = SINCE_18 if connection.info.server_version >= 180000 else {}
    return PUBLICATIONS | since_18


@pytest.fixture(scope="module")
def publisher(postgresql) -> Iterator[Publisher]:
    for database in fresh_database(postgresql):
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            seed = random_seed()
            print(f"seed {seed}")  # noqa: T201 - pytest shows it with a failure
            yield made(database, connection, seed)


def made(database: Database, connection: psycopg.Connection, seed: int) -> Publisher:
    connection.execute(SCHEMA.encode())
    options = ""
    if connection.info.server_version >= 180000:
        connection.execute("CREATE TABLE virtual (a int PRIMARY KEY, b int, v int GENERATED ALWAYS AS (a + b) VIRTUAL)")
        options = " WITH (publish_generated_columns = stored)"
    connection.execute(f"CREATE PUBLICATION carrier FOR ALL TABLES{options}".encode())
    publications = server_publications(connection)
    for name, definition in (publications | FAILING).items():
        connection.execute(f"CREATE PUBLICATION {name} {definition}".encode())
    slot = f"{database.name}_transform"
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    history(connection, random.Random(seed))
    connection.execute(CERTAIN.encode())
    return Publisher(connection, slot, read_publisher_tables(connection), list(publications), seed)


# The history --------------------------------------------------------------------------------------


def history(connection: psycopg.Connection, source: random.Random) -> None:
    tables = [*TABLES, *(["virtual"] if connection.info.server_version >= 180000 else [])]
    for _ in range(TRANSACTIONS):
        with connection.transaction(force_rollback=source.random() < 0.1):
            for _ in range(source.randint(1, 6)):
                connection.execute(statement(source, source.choice(tables)).encode())


def statement(source: random.Random, table: str) -> str:
    choice = source.random()
    if choice < 0.03:
        return f"TRUNCATE {source.choice(TRUNCATES)}"
    if choice < 0.45:
        return insert(source, table)
    if table == "nothing":
        # It has no identity, and the publisher refuses to change what it holds.
        return insert(source, table)
    key = "k" if table == "other.indexed" else "a"
    if choice < 0.6:
        return f"DELETE FROM {table} WHERE a = {number(source)}"
    if choice < 0.75:
        new = text(source, null=False) if key == "k" else number(source)
        free = "true" if table == "whole" else f"NOT EXISTS (SELECT FROM {table} WHERE {key} = {new})"
        one = f"(SELECT {key} FROM {table} ORDER BY random() LIMIT 1)"
        return f"UPDATE {table} SET {key} = {new} WHERE {key} = {one} AND {free}"
    columns = [column for column in columns_of(table) if column != key]
    changed = source.sample(columns, source.randint(1, len(columns)))
    assigned = ", ".join(f"{column} = {value(source, table, column)}" for column in changed)
    return f"UPDATE {table} SET {assigned} WHERE a {source.choice(['=', '<', '>'])} {number(source)}"


def insert(source: random.Random, table: str) -> str:
    columns = columns_of(table)
    values = ", ".join(value(source, table, column) for column in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) ON CONFLICT DO NOTHING"


def columns_of(table: str) -> list[str]:
    match table:
        case "other.indexed":
            return ["a", "k", "c"]
        case "generated" | "virtual" | "dropped" | "nothing" | "rootfull":
            return ["a", "b"]
        case _:
            return ["a", "b", "c"]


def value(source: random.Random, table: str, column: str) -> str:
    if column == "a":
        return number(source)
    if column == "c" or (column == "b" and table in ("generated", "virtual")):
        return source.choice(["NULL", str(source.randint(-3, 4))])
    return text(source, null=column != "k")


def number(source: random.Random) -> str:
    return str(source.randint(0, 9))


def text(source: random.Random, *, null: bool) -> str:
    letter = source.choice("axmz")
    choices = [f"'{letter}{source.randint(0, 9)}'", f"repeat('{letter}', {LONG + source.randint(0, 2)})"]
    return source.choice([*choices, "NULL"] if null else choices)


# Both streams -------------------------------------------------------------------------------------


def operations(frame: Frame) -> list[Operation]:
    """The changes of a frame, in order."""
    found: dict[int, Operation] = {}
    for group in frame.groups:
        olds = [None] * len(group) if group.old is None else group.old.to_pylist()
        news = [None] * len(group) if group.new is None else group.new.to_pylist()
        for position, old, new in zip(group.positions.tolist(), olds, news, strict=True):
            row = new and {column.name: new.get(column.name, UNCHANGED) for column in group.relation.columns}
            found[position] = Operation(group.action, (group.relation,), group.old_kind, old, row)
    for control in frame.controls:
        message = decode(control.message)
        if isinstance(message, Truncate):
            assert message.relation_ids == tuple(relation.relation_id for relation in control.relations)
            flags = message.cascade, message.restart_identity
            found[control.position] = Operation("T", control.relations, flags=flags)
    return [found[position] for position in sorted(found)]


def theirs(publisher: Publisher, names: Sequence[str], *, binary: bool, as_text: bool) -> list[Operation]:
    return operations(FrameDecoder(as_text=as_text).decode(*publisher.peek(names, binary=binary)))


def ours(
    publisher: Publisher, publications: Sequence[Publication], *, binary: bool = False, as_text: bool = False
) -> list[Operation]:
    frame, lsns = publisher.carried(binary=binary, as_text=as_text)
    (made,) = publish(frame, Compiled(Publishing(tuple(publications), publisher.tables)), lsns)
    return operations(made)


def assert_the_same(publisher: Publisher, names: Sequence[str], *, binary: bool = False, as_text: bool = False) -> int:
    """Compare both streams; returns the number of changes, or 0 if both have the same error."""
    publications = read_publications(publisher.connection, names)
    where = f"seed {publisher.seed}, publications {', '.join(names)}"
    refused = None
    try:
        expected = theirs(publisher, names, binary=binary, as_text=as_text)
    except psycopg.errors.FeatureNotSupported as error:
        refused = error.diag.message_primary
    if refused is not None:
        with pytest.raises(NotSupportedError) as caught:
            ours(publisher, publications, binary=binary, as_text=as_text)
        assert caught.value.message == refused, where
        return 0
    found = ours(publisher, publications, binary=binary, as_text=as_text)
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, f"{where}: change {place}"
    assert len(found) == len(expected), where
    return len(found)


# Tests --------------------------------------------------------------------------------------------


def test_the_history_has_what_the_rules_are_about(publisher):
    """Otherwise the comparisons below would prove less than they seem to."""
    carried = operations(publisher.carried(binary=False, as_text=False)[0])
    seen = {(one.action, one.old_kind) for one in carried}
    assert {("I", None), ("U", None), ("U", "K"), ("U", "O"), ("D", "K"), ("D", "O"), ("T", None)} <= seen
    unchanged = {(one.relations[0].name, one.old_kind) for one in carried if one.new and UNCHANGED in one.new.values()}
    assert {("plain", None), ("plain", "K"), ("whole", "O"), ("indexed", "K")} <= unchanged
    assert len(carried) > 2 * TRANSACTIONS


def test_each_publication_alone_sends_what_the_server_sends(publisher):
    """Rules B2, B4, B8, B11-B22, B40, B41."""
    assert sum(assert_the_same(publisher, [name]) for name in publisher.names) > TRANSACTIONS


@pytest.mark.parametrize(
    "names",
    [
        ["plain_key", "plain_update"],
        ["plain_insert", "plain_key"],
        ["plain_insert", "plain_update", "plain_all"],
        ["whole_long", "whole_null"],
        ["whole_prefix", "whole_true"],
        ["everything", "plain_key"],
        ["plain_narrow", "plain_key"],
        ["root_insert", "leaf_update"],
        ["leaf", "middle", "root_filter"],
        ["root_filter", "middle_filter", "leaf"],
        ["middle_filter", "root"],
        ["schema_root", "root"],
        ["everything_root", "leaf", "plain_key"],
        ["rootfull", "everything"],
        ["generated_plain", "generated"],
        ["dropped_live", "everything"],
    ],
    ids=" ".join,
)
def test_several_publications_send_what_the_server_sends(publisher, names):
    """Rules B3, B9, B10, B10a, B39."""
    assert_the_same(publisher, names)
    assert_the_same(publisher, names[::-1])


@pytest.mark.parametrize(("binary", "as_text"), [(False, False), (False, True), (True, False)])
def test_any_choice_of_publications_sends_what_the_server_sends(publisher, binary, as_text):
    """All of B.2 to B.5, in whatever form values travel."""
    source = random.Random(publisher.seed)
    for _ in range(CHOICES):
        names = source.sample(publisher.names, source.randint(2, 4))
        assert_the_same(publisher, names, binary=binary, as_text=as_text)


def test_a_filter_that_cannot_be_evaluated_stops_at_the_same_change(publisher):
    """The message, the SQLSTATE and the LSN are the server's; what was before it has been sent."""
    with pytest.raises(psycopg.errors.DivisionByZero) as theirs:
        publisher.peek(["division"], binary=False)
    associated = re.search(r"associated LSN ([0-9A-F]+/[0-9A-F]+)", theirs.value.diag.context or "")
    assert associated is not None
    frame, lsns = publisher.carried(binary=False, as_text=False)
    publications = read_publications(publisher.connection, ["division"])
    with pytest.raises(RowFilterError) as ours:
        list(publish(frame, Compiled(Publishing(tuple(publications), publisher.tables)), lsns))
    error = ours.value
    assert (error.message, error.sqlstate) == (theirs.value.diag.message_primary, theirs.value.sqlstate)
    assert error.lsn == parse_lsn(associated[1])
