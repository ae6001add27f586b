"""CREATE, ALTER and DROP PUBLICATION compared with PostgreSQL 18: the same session on the server
and on this program.

Ours makes nothing at the publisher, so both sides have one database: the server makes its
publications there, and ours looks there for what its commands name. Texts, SQLSTATEs, details,
hints, places, notices and tags must be the same, and what psql shows afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from subscriber.base.errors import SQLSyntaxError, SubscriberError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import get_publication, list_publications
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.cli.backslash import run_backslash
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.postgres.publication.definition import TableEntry
from subscriber.postgres.publication.listed_tables import members_of
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.targets import open_target
from tests.conformance.test_psql import real_psql

pytestmark = pytest.mark.server

TABLES = """
CREATE TABLE t (a int PRIMARY KEY, b text, c int, "D e" int, v int GENERATED ALWAYS AS (c * 2) VIRTUAL);
CREATE TABLE u (a int PRIMARY KEY);
CREATE UNLOGGED TABLE unlogged (a int);
CREATE VIEW v AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW m AS SELECT 1 AS a;
CREATE SEQUENCE q;
CREATE FOREIGN DATA WRAPPER w;
CREATE SERVER srv FOREIGN DATA WRAPPER w;
CREATE FOREIGN TABLE f (a int) SERVER srv;
CREATE SCHEMA s;
CREATE TABLE s.t (a int);
CREATE SCHEMA empty;
CREATE TABLE mother (a int, b text);
CREATE TABLE daughter (x int) INHERITS (mother);
CREATE TABLE granddaughter () INHERITS (daughter);
CREATE TABLE root (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE branch PARTITION OF root FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (a);
CREATE TABLE leaf PARTITION OF branch FOR VALUES FROM (0) TO (5);
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one command: notices, then the tag or the error."""

    said: tuple[str, ...] = ()
    tag: str = ""
    message: str = ""
    sqlstate: str = ""
    detail: str | None = None
    hint: str | None = None
    position: int | None = None


class Server:
    """PostgreSQL's own commands."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self._said: list[str] = []
        self.connection.add_notice_handler(
            lambda notice: self._said.append(f"{notice.severity}:  {notice.message_primary}")
        )

    def run(self, sql: str) -> Outcome:
        self._said.clear()
        try:
            tag = self.connection.execute(sql.encode()).statusmessage or ""
            return Outcome(tuple(self._said), tag)
        except psycopg.Error as error:
            found = error.diag
            place = int(found.statement_position) if found.statement_position else None
            message = found.message_primary or ""
            return Outcome(
                tuple(self._said), "", message, error.sqlstate or "", found.message_detail, found.message_hint, place
            )


class Ours:
    """The commands of this program, on a SQLite database."""

    def __init__(self, folder: Path, publisher: str | None) -> None:
        self._settings = Settings(journal=str(folder / "journal"))
        self._publisher = publisher
        self.target = open_target(f"sqlite:///{folder / 'target.db'}")

    def run(self, sql: str) -> Outcome:
        said: list[str] = []
        try:
            command = parse(sql)
            assert not isinstance(command, Query)
            tag = run_command(self.target, command, self._settings, said.append, self._publisher)
            return Outcome(tuple(said), tag)
        except SubscriberError as error:
            place = error.position if isinstance(error, SQLSyntaxError) else None
            detail = None if (error.detail or "").startswith("At character ") else error.detail
            return Outcome(tuple(said), "", error.message, error.sqlstate, detail, error.hint, place)


@pytest.fixture
def server(publisher_database):
    publisher_database.execute(TABLES)
    opened = Server(publisher_database.conninfo)
    with opened.connection:
        yield opened


@pytest.fixture
def ours(publisher_database, server, tmp_path):
    opened = Ours(tmp_path, publisher_database.conninfo)
    with opened.target:
        yield opened


SESSIONS = {
    "relations": """
        CREATE PUBLICATION p FOR TABLE nope
        CREATE PUBLICATION p FOR TABLE s.nope
        CREATE PUBLICATION p FOR TABLE nowhere.nope
        CREATE PUBLICATION p FOR TABLE other.s.t
        CREATE PUBLICATION p FOR TABLE v
        CREATE PUBLICATION p FOR TABLE m
        CREATE PUBLICATION p FOR TABLE q
        CREATE PUBLICATION p FOR TABLE f
        CREATE PUBLICATION p FOR TABLE unlogged
        CREATE PUBLICATION p FOR TABLE pg_class
        CREATE PUBLICATION p FOR TABLE t, v
        CREATE PUBLICATION p FOR TABLE information_schema.sql_features
        CREATE PUBLICATION p FOR TABLE t
        CREATE PUBLICATION t FOR TABLE t, t, public.t, ONLY t
        CREATE PUBLICATION "S" FOR TABLE ONLY (s.t), u *, public.root
        ALTER PUBLICATION t ADD TABLE t
        ALTER PUBLICATION t ADD TABLE u, t
        ALTER PUBLICATION t ADD TABLE u, s.t
        ALTER PUBLICATION t DROP TABLE root
        ALTER PUBLICATION t DROP TABLE u, u
        ALTER PUBLICATION t DROP TABLE u
        ALTER PUBLICATION t DROP TABLE v
        ALTER PUBLICATION t DROP TABLE t (a)
        ALTER PUBLICATION t DROP TABLE t WHERE (a > 1)
        ALTER PUBLICATION t DROP TABLE u WHERE (a > 1)
        ALTER PUBLICATION t SET TABLE u, root, mother
        ALTER PUBLICATION t SET TABLE u, v
        ALTER PUBLICATION t SET TABLE branch, leaf
        ALTER PUBLICATION t SET TABLES IN SCHEMA s
    """,
    "inheritance": """
        CREATE PUBLICATION p FOR TABLE mother
        CREATE PUBLICATION q FOR TABLE ONLY mother
        CREATE PUBLICATION r FOR TABLE daughter, mother, granddaughter
        CREATE PUBLICATION x FOR TABLE daughter (a), mother
        CREATE PUBLICATION x FOR TABLE mother, daughter (a)
        CREATE PUBLICATION x FOR TABLE granddaughter WHERE (a > 1), mother
        CREATE PUBLICATION x FOR TABLE granddaughter, mother (a)
        CREATE PUBLICATION x FOR TABLE mother (x)
        CREATE PUBLICATION x FOR TABLE daughter (x, a), ONLY mother (b)
        ALTER PUBLICATION q DROP TABLE mother
        ALTER PUBLICATION q DROP TABLE ONLY mother
        ALTER PUBLICATION p DROP TABLE daughter
        ALTER PUBLICATION q ADD TABLE ONLY granddaughter
    """,
    "column lists": """
        CREATE PUBLICATION p FOR TABLE t (nope)
        CREATE PUBLICATION p FOR TABLE t (ctid)
        CREATE PUBLICATION p FOR TABLE t (v)
        CREATE PUBLICATION p FOR TABLE t (c, a, c)
        CREATE PUBLICATION p FOR TABLE v (nope)
        CREATE PUBLICATION p FOR TABLE t (c, "D e", a)
        CREATE PUBLICATION x FOR TABLE t (a), t
        CREATE PUBLICATION x FOR TABLE t, t (a)
        CREATE PUBLICATION x FOR TABLE t (a), TABLES IN SCHEMA s
        CREATE PUBLICATION x FOR TABLE root (a)
        CREATE PUBLICATION x FOR TABLE root (a), u (nope)
        CREATE PUBLICATION r FOR TABLE root (a) WITH (publish_via_partition_root)
        ALTER PUBLICATION r SET (publish_via_partition_root = false)
        ALTER PUBLICATION r SET TABLE root
        ALTER PUBLICATION r SET (publish_via_partition_root = false)
        ALTER PUBLICATION r SET TABLE root (b)
        ALTER PUBLICATION p ADD TABLES IN SCHEMA s
        ALTER PUBLICATION p SET TABLE t (a, c, "D e"), u
        ALTER PUBLICATION p SET TABLE t (a, a)
        ALTER PUBLICATION p SET TABLE t (a), v
        ALTER PUBLICATION p SET TABLE v, t (nope)
        ALTER PUBLICATION p ADD TABLE s.t (a), TABLES IN SCHEMA s
        CREATE PUBLICATION s FOR TABLES IN SCHEMA s
        ALTER PUBLICATION s ADD TABLE t (a)
        ALTER PUBLICATION s SET TABLE t (a)
    """,
    "filters": """
        CREATE PUBLICATION p FOR TABLE t WHERE (a > 5 AND b = 'NSW'), u WHERE (a IN (1, 2))
        CREATE PUBLICATION q FOR TABLE mother WHERE (a > 1)
        CREATE PUBLICATION x FOR TABLE t WHERE (a > 5), t
        CREATE PUBLICATION x FOR TABLE t, t WHERE (a > 5)
        CREATE PUBLICATION x FOR TABLE t, nope WHERE (nope > 5)
        CREATE PUBLICATION x FOR TABLE mother WHERE (x > 5)
        CREATE PUBLICATION x FOR TABLE daughter WHERE (x > 5), u WHERE (nope)
        CREATE PUBLICATION x FOR TABLE t WHERE (a), v
        CREATE PUBLICATION x FOR TABLE t WHERE (ctid > '(0,1)')
        CREATE PUBLICATION x FOR TABLE t WHERE (EXISTS (SELECT 1))
        CREATE PUBLICATION x FOR TABLE t WHERE (random() > a)
        CREATE PUBLICATION x FOR TABLE t (nope) WHERE (a + 'x' > 5)
        CREATE PUBLICATION x FOR TABLE t (nope) WHERE (a > b)
        CREATE PUBLICATION x FOR TABLE root WHERE (a > 5)
        CREATE PUBLICATION x FOR TABLE root WHERE (nope > 5)
        CREATE PUBLICATION r FOR TABLE root WHERE (a > 5) WITH (publish_via_partition_root)
        ALTER PUBLICATION r SET (publish_via_partition_root = false)
        ALTER PUBLICATION r SET TABLE root WHERE (a > 6)
        ALTER PUBLICATION r ADD TABLE branch WHERE (a > 6) , u (nope)
        CREATE PUBLICATION l FOR TABLE leaf WHERE (b = 'x')
        ALTER PUBLICATION p SET TABLE t (a) WHERE (a > 7)
        ALTER PUBLICATION p ADD TABLE u WHERE (a > )
        ALTER PUBLICATION nope ADD TABLE u WHERE (a > )
        ALTER PUBLICATION nope ADD TABLE u WHERE (a > 5)
        CREATE PUBLICATION x FOR TABLE t WHERE (a b)
        CREATE PUBLICATION x FOR TABLE t WHERE (a = = b) WITH (nope)
        CREATE PUBLICATION x FOR TABLE t WHERE (a > 1), u WHERE (NOT)
        CREATE PUBLICATION x FOR TABLE t WHERE (a < b < c)
        CREATE PUBLICATION x FOR TABLE t WHERE ("D e" > 1 AND ("" = 1))
        ALTER PUBLICATION p DROP TABLE t WHERE (nope > 1)
    """,
    "schemas": """
        CREATE PUBLICATION p FOR TABLES IN SCHEMA nope
        CREATE PUBLICATION p FOR TABLES IN SCHEMA pg_catalog
        CREATE PUBLICATION p FOR TABLES IN SCHEMA pg_toast
        CREATE PUBLICATION p FOR TABLES IN SCHEMA information_schema
        CREATE PUBLICATION e FOR TABLES IN SCHEMA empty, s, empty, CURRENT_SCHEMA, public
        CREATE PUBLICATION x FOR TABLE nope, TABLES IN SCHEMA nowhere
        CREATE PUBLICATION x FOR TABLES IN SCHEMA pg_toast, TABLE nope
        CREATE PUBLICATION m FOR TABLES IN SCHEMA s, TABLE t, s.t, u, TABLES IN SCHEMA empty
        ALTER PUBLICATION e ADD TABLES IN SCHEMA s
        ALTER PUBLICATION e DROP TABLES IN SCHEMA s, s
        ALTER PUBLICATION e DROP TABLES IN SCHEMA s
        ALTER PUBLICATION e DROP TABLE t, TABLES IN SCHEMA empty
        ALTER PUBLICATION e ADD TABLES IN SCHEMA s, pg_toast
        ALTER PUBLICATION e SET TABLES IN SCHEMA CURRENT_SCHEMA, s, TABLE t
        ALTER PUBLICATION e SET TABLES IN SCHEMA pg_catalog
        ALTER PUBLICATION m SET TABLE t
    """,
    "all tables": """
        CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert')
        ALTER PUBLICATION p ADD TABLE t
        ALTER PUBLICATION p ADD TABLE nope
        ALTER PUBLICATION p SET TABLES IN SCHEMA s
        ALTER PUBLICATION p SET TABLES IN SCHEMA nope, TABLE t
        ALTER PUBLICATION p DROP TABLE t, TABLES IN SCHEMA s
        ALTER PUBLICATION p SET (publish_via_partition_root = true, publish_generated_columns = stored)
        ALTER PUBLICATION p SET (publish_via_partition_root = false)
        CREATE PUBLICATION p FOR ALL TABLES
    """,
    "options": """
        CREATE PUBLICATION nothing WITH (publish = '')
        CREATE PUBLICATION blank WITH (publish = '  ')
        CREATE PUBLICATION p WITH (publish = ' Insert ,  "update" , DELETE')
        CREATE PUBLICATION q WITH (publish = insert, publish_generated_columns = Stored, publish_via_partition_root)
        CREATE PUBLICATION x WITH (publish)
        CREATE PUBLICATION x WITH (publish = 'insert,')
        CREATE PUBLICATION x WITH (publish = ',insert')
        CREATE PUBLICATION x WITH (publish = 'insert update')
        CREATE PUBLICATION x WITH (publish = 'inserts, "x')
        CREATE PUBLICATION x WITH (publish = '"insert"x')
        CREATE PUBLICATION x WITH (publish = 'in"sert"')
        CREATE PUBLICATION x WITH (publish = '"In""sert"')
        CREATE PUBLICATION x WITH (publish = '""')
        CREATE PUBLICATION x WITH (publish = 'Inserts')
        CREATE PUBLICATION x WITH (publish = 1)
        CREATE PUBLICATION x WITH (publish = 'insert', publish = 'update')
        CREATE PUBLICATION x WITH (publish_generated_columns)
        CREATE PUBLICATION x WITH (publish_generated_columns = true)
        CREATE PUBLICATION x WITH (publish_generated_columns = '')
        CREATE PUBLICATION x WITH (publish_via_partition_root = 2)
        CREATE PUBLICATION x WITH (publish_via_partition_root = yes)
        CREATE PUBLICATION x WITH (nope)
        CREATE PUBLICATION x WITH ("Publish" = 'insert')
        CREATE PUBLICATION x FOR TABLE nope WITH (nope)
        CREATE PUBLICATION p WITH (nope)
        ALTER PUBLICATION nope SET (nope)
        ALTER PUBLICATION p SET (nope)
        ALTER PUBLICATION p SET (publish = 'truncate')
        ALTER PUBLICATION q SET (publish_generated_columns = none, publish_via_partition_root = off)
    """,
    "names": """
        CREATE PUBLICATION p
        CREATE PUBLICATION p FOR TABLE nope
        CREATE PUBLICATION "P q"
        ALTER PUBLICATION nope ADD TABLE nope
        ALTER PUBLICATION nope RENAME TO p
        ALTER PUBLICATION p RENAME TO p
        ALTER PUBLICATION p RENAME TO "P q"
        ALTER PUBLICATION p RENAME TO q
        ALTER PUBLICATION nope OWNER TO nobody_at_all
        ALTER PUBLICATION nope OWNER TO CURRENT_USER
        DROP PUBLICATION q, nope
        DROP PUBLICATION IF EXISTS nope, nope, "P q"
        DROP PUBLICATION q, q CASCADE
        DROP PUBLICATION q RESTRICT
        CREATE PUBLICATION public
        CREATE PUBLICATION "public"
    """,
    "what does not parse": """
        CREATE PUBLICATION
        CREATE PUBLICATION select
        CREATE PUBLICATION a.b
        CREATE PUBLICATION p FOR
        CREATE PUBLICATION p FOR TABLE
        CREATE PUBLICATION p FOR TABLES
        CREATE PUBLICATION p FOR TABLES IN
        CREATE PUBLICATION p FOR TABLES IN SCHEMA
        CREATE PUBLICATION p FOR TABLES s
        CREATE PUBLICATION p FOR ALL
        CREATE PUBLICATION p FOR TABLE t, ALL TABLES
        CREATE PUBLICATION p FOR t
        CREATE PUBLICATION p FOR s.t
        CREATE PUBLICATION p FOR ONLY t
        CREATE PUBLICATION p FOR t *
        CREATE PUBLICATION p FOR t x
        CREATE PUBLICATION p FOR t WITH (publish
        CREATE PUBLICATION p FOR t WITH (publish) x
        CREATE PUBLICATION p FOR CURRENT_SCHEMA
        CREATE PUBLICATION p FOR TABLE CURRENT_SCHEMA
        CREATE PUBLICATION p FOR TABLE t, CURRENT_SCHEMA
        CREATE PUBLICATION p FOR TABLE t x
        CREATE PUBLICATION p FOR TABLE t AS x
        CREATE PUBLICATION p FOR TABLE t ()
        CREATE PUBLICATION p FOR TABLE t (a.b)
        CREATE PUBLICATION p FOR TABLE t (select)
        CREATE PUBLICATION p FOR TABLE t (1)
        CREATE PUBLICATION p FOR TABLE t (a
        CREATE PUBLICATION p FOR TABLE ONLY t *
        CREATE PUBLICATION p FOR TABLE ONLY (t
        CREATE PUBLICATION p FOR TABLE a.b.c.d
        CREATE PUBLICATION p FOR TABLE a.
        CREATE PUBLICATION p FOR TABLE a.*
        CREATE PUBLICATION p FOR TABLE a.*, b
        CREATE PUBLICATION p FOR TABLE a.b.*.c
        CREATE PUBLICATION p FOR TABLE a.select, b.nope
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, s.t
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, ONLY t
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, t *
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, t WHERE (a > 1)
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, t (a) WHERE (a > 1)
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s, t (a)
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s (a)
        CREATE PUBLICATION p FOR TABLES IN SCHEMA s.t
        CREATE PUBLICATION p FOR TABLE t WHERE
        CREATE PUBLICATION p FOR TABLE t WHERE a > 1
        CREATE PUBLICATION p FOR TABLE t WHERE ()
        CREATE PUBLICATION p FOR TABLE t WHERE (a > 1
        CREATE PUBLICATION p FOR TABLE t WHERE (a > 1))
        CREATE PUBLICATION p FOR TABLE t WHERE (a > 1; b)
        CREATE PUBLICATION p FOR TABLE t WHERE (a > 1) (a)
        CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert') WHERE (a > 1)
        CREATE PUBLICATION p WITH
        CREATE PUBLICATION p WITH ()
        ALTER PUBLICATION
        ALTER PUBLICATION p
        ALTER PUBLICATION p FOR TABLE t
        ALTER PUBLICATION p ADD
        ALTER PUBLICATION p ADD t
        ALTER PUBLICATION p SET
        ALTER PUBLICATION p SET ()
        ALTER PUBLICATION p SET t
        ALTER PUBLICATION p DROP CURRENT_SCHEMA
        ALTER PUBLICATION p ADD ALL TABLES
        ALTER PUBLICATION p OWNER x
        ALTER PUBLICATION p RENAME x
        ALTER PUBLICATION IF EXISTS p SET (publish = '')
        DROP PUBLICATION
        DROP PUBLICATION a.b
        DROP PUBLICATION a,
        DROP PUBLICATION a CASCADE b
        DROP PUBLICATION IF EXISTS
    """,
}


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_told_what_the_server_tells_and_psql_shows_the_same(publisher_database, server, ours, session):
    """B1, B5, B30, B31, B37, B38, B42."""
    for command in filter(None, map(str.strip, session.splitlines())):
        expected, found = server.run(command), ours.run(command)
        if command.endswith("OWNER TO CURRENT_USER") or "nobody_at_all" in command:
            found = Outcome(
                found.said, found.tag, found.message, found.sqlstate
            )  # this program gives the reason why it has no roles
        if expected.hint is None and str(found.hint).startswith("Perhaps you meant"):
            found = replace(found, hint=None)  # a suggestion that the server does not make
        if expected.sqlstate != "42601" and found.position is None:
            expected = replace(expected, position=None)  # the place of a name that means nothing is not told
        assert found == expected, command
    for shown in (r"\dRp", r"\dRp+", r"\dRp P*", r"\dRp+ ?", r'\dRp+ "P q"', r"\dRp+ nobody;"):
        assert run_backslash(shown, ours.target) == real_psql(publisher_database, f"{shown}\n").removesuffix("\n")


EXCEPT = """
CREATE TABLE z1 (a int PRIMARY KEY);
CREATE TABLE b2 (a int PRIMARY KEY);
CREATE TABLE parent (a int PRIMARY KEY);
CREATE TABLE child (PRIMARY KEY (a)) INHERITS (parent);
CREATE UNLOGGED TABLE u (a int);
CREATE VIEW v AS SELECT 1 AS a;
CREATE SEQUENCE q;
CREATE TABLE r (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
"""
REFUSED_BY_19 = [
    ("EXCEPT (z1)", 'syntax error at or near "z1"', None),
    ("EXCEPT TABLE (z1)", 'syntax error at or near "TABLE"', None),
    ("EXCEPT (TABLE nope)", 'relation "nope" does not exist', None),
    ("EXCEPT (TABLE v)", 'cannot specify relation "public.v" in the publication EXCEPT clause', "views"),
    ("EXCEPT (TABLE q)", 'cannot specify relation "public.q" in the publication EXCEPT clause', "sequences"),
    ("EXCEPT (TABLE u)", 'cannot specify relation "public.u" in the publication EXCEPT clause', "unlogged tables"),
    (
        "EXCEPT (TABLE pg_class)",
        'cannot specify relation "pg_catalog.pg_class" in the publication EXCEPT clause',
        "system tables",
    ),
    (
        "EXCEPT (TABLE r1)",
        'cannot specify relation "public.r1" in the publication EXCEPT clause',
        "individual partitions",
    ),
    ("EXCEPT (TABLE z1 (a))", 'syntax error at or near "("', None),
    ("EXCEPT (TABLE z1 WHERE (a > 1))", 'syntax error at or near "WHERE"', None),
    ("EXCEPT (TABLES IN SCHEMA n)", 'syntax error at or near "TABLES"', None),
]
"""What a server of version 19 said to CREATE PUBLICATION p FOR ALL TABLES …: the error, and the
kind that its detail names.
"""


def test_except_says_and_publishes_what_a_server_of_19_does(publisher_database, tmp_path):
    """The server here is older: the expected texts and tables were printed by PostgreSQL 19."""
    publisher_database.execute(EXCEPT)
    ours = Ours(tmp_path, publisher_database.conninfo)
    for clause, message, kind in REFUSED_BY_19:
        refused = ours.run(f"CREATE PUBLICATION p FOR ALL TABLES {clause}")
        detail = kind and f"This operation is not supported for {kind}."
        assert (refused.message, refused.detail) == (message, detail), clause
    for name, clause in (
        ("p", "EXCEPT (TABLE z1, TABLE b2, z1)"),
        ("family", "EXCEPT (TABLE parent, z1)"),
        ("alone", "EXCEPT (TABLE ONLY parent)"),
        ("roots", "EXCEPT (TABLE r)"),
        ("via", "EXCEPT (TABLE r) WITH (publish_via_partition_root)"),
    ):
        assert ours.run(f"CREATE PUBLICATION {name} FOR ALL TABLES {clause}") == Outcome(tag="CREATE PUBLICATION")
    publisher_database.execute("ALTER TABLE r DETACH PARTITION r2")
    with psycopg.connect(publisher_database.conninfo, autocommit=True) as connection:
        tables = read_publisher_tables(connection)
    with ours.target.engine.connect() as connection:
        made = {one.name: one for one in list_publications(connection)}
    # In the order of pg_publication_rel by OID.
    assert {name: [table for _, table in one.excepted] for name, one in made.items()} == {
        "p": ["z1", "b2"], "family": ["z1", "parent", "child"], "alone": ["parent"], "roots": ["r"], "via": ["r"],
    }  # fmt: skip
    listed = {name: sorted(table.name for table in members_of(one, tables)) for name, one in made.items()}
    assert listed == {
        "p": ["child", "parent", "r1", "r2"],
        "family": ["b2", "r1", "r2"],
        "alone": ["b2", "child", "r1", "r2", "z1"],
        "roots": ["b2", "child", "parent", "r2", "z1"],
        "via": ["b2", "child", "parent", "r2", "z1"],
    }
    shown = run_backslash(r"\dRp+ p", ours.target)
    assert shown.rstrip().endswith('Except tables:\n    "public.b2"\n    "public.z1"')


def test_without_a_publisher_that_of_the_subscriptions_is_asked_whatever_its_version(database, tmp_path):
    """B23, B24: the stored text of a filter is what the server itself would print."""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text, c bool)")
    ours = Ours(tmp_path, None)
    statement = "CREATE PUBLICATION p FOR TABLE t WHERE (a IN (1, 2) AND b = 'x' OR NOT c AND a + 1 > 2.5)"
    with ours.target:
        ensure_catalog(ours.target.engine)
        with ours.target.begin() as connection:
            insert_subscription(connection, "s", database.conninfo, ("p",), SubscriptionOptions(slot_name="s"))
        assert ours.run(statement) == Outcome(tag="CREATE PUBLICATION")
        database.execute(statement)
        ((printed,),) = database.execute("SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel")
        with ours.target.engine.connect() as connection:
            assert get_publication(connection, "p").tables == (TableEntry("public", "t", None, printed),)
        refused = ours.run("CREATE PUBLICATION q FOR TABLE t WHERE (random() > a)")
    assert (refused.sqlstate, refused.message) == ("0A000", "invalid publication WHERE expression")
