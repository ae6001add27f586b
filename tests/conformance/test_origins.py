"""Changes that are applied to PostgreSQL are marked with a replication origin, as PostgreSQL's own
worker marks them (C32, C55).
"""

from __future__ import annotations

import logging

import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import open_target
from tests.conftest import fresh_database
from tests.frames import frame, prepared, relation, transaction, values

T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
AT = 841_000_000_000_000
"""Microseconds since 2000: 2026-08-25 19:06:40 UTC."""


@pytest.fixture
def database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture
def target(database):
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    with open_target(database.url) as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))
        yield opened
        with opened.begin() as connection:
            assert opened.origins is not None
            opened.origins.drop(connection, "pg_1")


@pytest.fixture
def origin(database, target):
    """The name of the program's origin."""
    ((number,),) = database.execute("SELECT oid::text FROM pg_database WHERE datname = current_database()")
    return f"subscriber_{number}_pg_1"


def apply(target, *messages, start=100, end=1000):
    applier = ExactApplier(target, subscription="sub", subid=1)
    return applier.apply([frame([T], messages, text=True)], start=LSN(start), end=LSN(end))


def insert(*texts):
    return m.Insert(16384, values(*texts))


WRITTEN_BY = (
    "SELECT a, roname FROM t, pg_xact_commit_timestamp_origin(t.xmin) v LEFT JOIN pg_replication_origin o"
    " ON o.roident = v.roident ORDER BY a"
)


def test_applied_rows_are_marked_with_origin_position_and_time(target, database, origin):
    """C32: those of the last remote commit"""
    apply(target, *transaction(200, insert("1", "x"), timestamp=1), *transaction(300, insert("2", "x"), timestamp=AT))
    assert database.execute(WRITTEN_BY) == [(1, origin), (2, origin)]
    assert database.execute("SELECT DISTINCT pg_xact_commit_timestamp(xmin)::text FROM t") == [
        ("2026-08-25 19:06:40+00",)
    ]
    assert database.execute(f"SELECT pg_replication_origin_progress('{origin}', true)::text") == [("0/3E8",)]


def test_whoever_has_the_connection_next_writes_as_itself(target, database, origin):
    """Another process may use the origin, too."""
    apply(target, *transaction(200, insert("1", "x")))
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO public.t VALUES (2, 'own')")
    assert database.execute(WRITTEN_BY) == [(1, origin), (2, None)]
    database.execute(f"SELECT pg_replication_origin_session_setup('{origin}')")


def test_what_was_applied_is_not_passed_on_to_who_wants_no_origin(target, database):
    """C38, C55: a chain of servers, with origin = none at its end"""
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    for slot in ("none", "any"):
        database.execute(f"SELECT pg_create_logical_replication_slot('{slot}_{database.name}', 'pgoutput')")
    apply(target, *transaction(200, insert("1", "applied")))
    database.execute("INSERT INTO t VALUES (2, 'here')")

    def changes(wanted: str) -> int:
        rows = database.execute(
            f"SELECT data FROM pg_logical_slot_get_binary_changes('{wanted}_{database.name}', NULL, NULL,"
            f" 'proto_version', '4', 'publication_names', 'p', 'origin', '{wanted}')"
        )
        return sum(data[:1] == b"I" for (data,) in rows)

    assert (changes("any"), changes("none")) == (2, 1)


def test_a_prepared_transaction_is_marked_when_it_commits(target, database, origin):
    """C32, C49: the commit is that of another session"""
    apply(target, *prepared(400, insert("1", "x")))
    assert database.execute(WRITTEN_BY) == [(1, origin)]


def test_a_role_that_may_not_use_origins_applies_all_the_same(target, database, caplog):
    """There is one warning; the functions are for superusers unless they are granted."""
    role = f"plain_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN")
    database.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    try:
        with open_target(database.url.replace("postgres@", f"{role}@")) as plain:
            caplog.set_level(logging.WARNING)
            for start, end in ((100, 200), (200, 300)):
                apply(plain, *transaction(end, insert(str(end), "x")), start=start, end=end)
        assert database.execute(WRITTEN_BY) == [(200, None), (300, None)]
        assert caplog.text.count("may not use replication origins") == 1
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_several_writers_have_origins_that_are_no_others_and_are_dropped_together(target, database, origin):
    """C20, C34, C38"""
    with target.engine.connect() as first, target.engine.connect() as second:
        assert target.origins.set(first, "pg_1_1")
        assert target.origins.set(second, "pg_1_2")
        first.exec_driver_sql("INSERT INTO public.t VALUES (1, 'x')")
        first.commit()
        second.exec_driver_sql("INSERT INTO public.t VALUES (2, 'x')")
        second.commit()
    assert database.execute(WRITTEN_BY) == [(1, f"{origin}_1"), (2, f"{origin}_2")]
    database.execute("INSERT INTO t VALUES (3, 'own')")
    for name in ("pg_1", "pg_1_2"):
        with target.engine.connect() as connection:
            assert target.origins.set(connection, name)
            others: sa.Select[int] = sa.select(sa.column("a", sa.Integer)).select_from(sa.text("public.t"))
            found = connection.execute(others.where(target.origins.others(connection))).scalars().all()
        assert found == [3]
    with target.begin() as connection:
        target.origins.drop(connection, "pg_1")
    assert database.execute(f"SELECT count(*) FROM pg_replication_origin WHERE roname LIKE '{origin}%'") == [(0,)]


def test_an_origin_is_dropped_with_its_subscription(target, database, origin):
    apply(target, *transaction(200, insert("1", "x")))
    known = f"SELECT count(*) FROM pg_replication_origin WHERE roname = '{origin}'"
    assert database.execute(known) == [(1,)]
    with target.begin() as connection:
        target.origins.drop(connection, "pg_1")
    assert database.execute(known) == [(0,)]
    # The next subscription with the same number may begin while another process works.
    apply(target, *transaction(300, insert("2", "x")), start=1000, end=1100)
    assert database.execute(known) == [(1,)]
