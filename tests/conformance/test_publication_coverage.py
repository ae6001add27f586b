"""The errors of a publisher for an UPDATE or DELETE that its publications do not cover, and the
errors of this program before that change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from subscriber.postgres.publication.coverage import uncovered
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.server_publications import read_publications
from tests.conftest import fresh_database

SCHEMA = """
CREATE TABLE keyed (a int PRIMARY KEY, b text, c int);
CREATE TABLE whole (a int, b text, c int);
CREATE TABLE indexed (a int, b text NOT NULL, c int);
CREATE UNIQUE INDEX indexed_b ON indexed (b);
CREATE TABLE nothing (a int PRIMARY KEY, b text, c int);
CREATE TABLE keyless (a int, b text, c int);
CREATE TABLE generated (a int, b int, c int, s int GENERATED ALWAYS AS (b * 2) STORED PRIMARY KEY);
CREATE TABLE wholegenerated (a int, b int, c int, s int GENERATED ALWAYS AS (b * 2) STORED);
CREATE UNLOGGED TABLE unlogged (a int, b text, c int);
CREATE TABLE root (a int PRIMARY KEY, b text NOT NULL, c int) PARTITION BY RANGE (a);
CREATE TABLE leaf (c int, b text NOT NULL, a int NOT NULL);
CREATE UNIQUE INDEX leaf_b ON leaf (b);
ALTER TABLE root ATTACH PARTITION leaf FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE wholegenerated REPLICA IDENTITY FULL;
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b;
ALTER TABLE leaf REPLICA IDENTITY USING INDEX leaf_b;
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
"""
CHANGED = ("keyed", "whole", "indexed", "nothing", "keyless", "generated", "wholegenerated", "unlogged", "leaf")

PUBLICATIONS = [
    ["FOR ALL TABLES"],
    ["FOR TABLES IN SCHEMA public"],
    ["FOR ALL TABLES WITH (publish = 'insert, truncate')"],
    ["FOR ALL TABLES WITH (publish = 'update')"],
    ["FOR TABLE keyed WHERE (a > 1), whole WHERE (b > 'x' AND c = 1), indexed WHERE (b > 'x'), nothing WHERE (true)"],
    ["FOR TABLE keyed WHERE (c > 1), indexed WHERE (a > 1), nothing WHERE (a > 1), keyless WHERE (a > 1)"],
    ["FOR TABLE keyed WHERE (c > 1) WITH (publish = 'delete')", "FOR TABLE keyed WHERE (a > 1) WITH (publish = 'update')"],
    ["FOR TABLE keyed (a, c), whole (a, b, c), indexed (b), nothing (a), keyless (a)"],
    ["FOR TABLE keyed (b), indexed (a), generated (a)"],
    ["FOR TABLE keyed (b)", "FOR TABLE keyed WHERE (c > 1)"],
    ["FOR TABLE keyed (b) WITH (publish = 'update, delete')", "FOR TABLE keyed WHERE (c > 1)"],
    ["FOR TABLE keyed (b) WITH (publish = 'update')", "FOR TABLE keyed (b) WITH (publish = 'insert, delete')"],
    ["FOR TABLE root WHERE (a > 1) WITH (publish_via_partition_root = true)"],
    ["FOR TABLE root WHERE (b > 'x') WITH (publish_via_partition_root = true)"],
    ["FOR TABLE root (a, c) WITH (publish_via_partition_root = true)"],
    ["FOR TABLE root (b, c) WITH (publish_via_partition_root = true)"],
    ["FOR TABLE root, leaf WHERE (a > 1)"],
]  # fmt: skip
SINCE_18 = [
    ["FOR ALL TABLES WITH (publish_generated_columns = stored)"],
    ["FOR TABLE generated (s), wholegenerated"],
    ["FOR TABLE generated (a) WITH (publish = 'update, delete')", "FOR TABLE generated WITH (publish = 'update')"],
    ["FOR TABLE generated (a)", "FOR TABLES IN SCHEMA public"],
    ["FOR TABLE virtual", "FOR TABLE wholegenerated WITH (publish_generated_columns = stored)"],
]


@pytest.fixture(scope="module")
def connection(postgresql) -> Iterator[psycopg.Connection]:
    for database in fresh_database(postgresql):
        with psycopg.connect(database.conninfo, autocommit=True) as made:
            made.execute(SCHEMA.encode())
            if made.info.server_version >= 180000:
                made.execute("CREATE TABLE virtual (a int, b int, c int, v int GENERATED ALWAYS AS (b + 1) VIRTUAL)")
                made.execute("ALTER TABLE virtual REPLICA IDENTITY FULL")
            yield made


def refusals(connection: psycopg.Connection) -> dict[tuple[str, str], tuple[str, str, str, str]]:
    """The publisher's, by table and command."""
    found = {}
    names = [*CHANGED, *(["virtual"] if connection.info.server_version >= 180000 else [])]
    for name in names:
        for operation, command in (("update", f"UPDATE {name} SET c = c"), ("delete", f"DELETE FROM {name}")):
            try:
                connection.execute(command.encode())
            except psycopg.Error as error:
                said = error.diag
                found[name, operation] = (
                    str(error.sqlstate),
                    said.message_primary or "",
                    said.message_detail or "",
                    said.message_hint or "",
                )
    return found


def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
    return frozenset(column.name for column in table.columns if re.search(rf"\b{column.name}\b", where))


def test_the_publisher_refuses_what_ours_refuse_beforehand(connection):
    """Rules B32-B36: message, detail, SQLSTATE; the hint where the publisher has one."""
    seen = set()
    for definitions in [*PUBLICATIONS, *(SINCE_18 if connection.info.server_version >= 180000 else [])]:
        names = [f"p{number}" for number in range(len(definitions))]
        for name, definition in zip(names, definitions, strict=True):
            connection.execute(f"CREATE PUBLICATION {name} {definition}".encode())
        theirs = refusals(connection)
        ours = {}
        tables = read_publisher_tables(connection)
        for error in uncovered(read_publications(connection, names), tables, filter_columns):
            operation = "update" if error.message.startswith("cannot update") else "delete"
            name = str(error.relation).removeprefix("public.")
            hint = error.hint if error.sqlstate == "55000" else ""
            ours[name, operation] = (error.sqlstate, error.message, error.detail or "", hint)
        assert ours == theirs, definitions
        seen |= {detail for _, _, detail, _ in theirs.values()}
        for name in names:
            connection.execute(f"DROP PUBLICATION {name}".encode())
    assert len(seen) == (4 if connection.info.server_version >= 180000 else 3)
