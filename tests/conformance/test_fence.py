"""The fence around a database, transactions in progress, and the obstacles of a way back, on real
servers.
"""

from __future__ import annotations

import psycopg
import pytest

from subscriber.base.errors import PublisherNotReady
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.fence import read_only as fence
from subscriber.publisher.fence import reverse_replication
from subscriber.publisher.fence.open_transactions import open_writes
from subscriber.publisher.fence.reverse_replication import SetForward, set_forward
from tests.conftest import Database
from tests.subscribing import a_role, with_role

pytestmark = pytest.mark.server


def test_a_fence_holds_later_sessions_names_earlier_ones_and_gives_the_former_value_back(database: Database):
    database.execute(f"CREATE TABLE t (a int); ALTER DATABASE {database.name} SET default_transaction_read_only = off")
    with (
        psycopg.connect(database.conninfo, autocommit=True, application_name="pool") as early,
        connect_publisher(database.conninfo, "s") as ours,
    ):
        assert fence.fence_obstacles(ours) == []
        former = fence.own_setting(ours)
        assert former == "off"
        raised = fence.raise_fence(ours, former)
        assert (raised.database, raised.former) == (database.name, "off")
        with psycopg.connect(database.conninfo) as late, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            late.execute("INSERT INTO t VALUES (1)")
        (left,) = fence.unfenced_sessions(ours, raised.since)
        assert left.process == early.info.backend_pid
        assert 'application "pool"' in left.text
        fence.end_sessions(ours, [left, left])
        with pytest.raises(psycopg.OperationalError):
            early.execute("SELECT 1")
        with connect_publisher(database.conninfo, "s") as fenced:  # this one is read-only itself
            assert fence.own_setting(fenced) == "on"
            fence.lift_fence(fenced, former)
            assert fence.own_setting(fenced) == "off"
            fence.lift_fence(fenced, None)
            assert fence.own_setting(fenced) is None
    with psycopg.connect(database.conninfo) as again:
        again.execute("INSERT INTO t VALUES (1)")


def test_a_role_that_may_not_fence_is_told_the_statements(database: Database):
    with (
        a_role(database, "") as role,
        a_role(database, "") as writer,
        connect_publisher(with_role(database, role), "s") as ours,
    ):
        database.execute(f"ALTER ROLE {writer} SET default_transaction_read_only = off")
        statements = [statement for _, statement in fence.fence_obstacles(ours)]
        assert statements == [
            f'ALTER DATABASE "{database.name}" OWNER TO "{role}";',
            f'GRANT pg_read_all_stats TO "{role}";',
            f'ALTER ROLE "{writer}" RESET default_transaction_read_only;',
        ]
        with pytest.raises(PublisherNotReady) as caught:
            fence.raise_fence(ours, None)
        assert caught.value.sqlstate == "42501"
        owner = database.execute(f"SELECT datdba::regrole::text FROM pg_database WHERE datname = '{database.name}'")[0][
            0
        ]
        for statement in statements:
            database.execute(statement)
        try:
            assert fence.fence_obstacles(ours) == []
            fence.raise_fence(ours, None)
            fence.lift_fence(ours, None)
        finally:
            database.execute(f'ALTER DATABASE "{database.name}" OWNER TO {owner}')


@pytest.mark.parametrize("former", [None, "off"])
def test_the_statements_that_lift_a_fence_run_behind_it(database: Database, former):
    with connect_publisher(database.conninfo, "s") as ours:
        fence.raise_fence(ours, former)
    with psycopg.connect(database.conninfo, autocommit=True) as behind:
        for statement in fence.lifting_statements(database.name, former).split("; "):
            behind.execute(statement)
    with connect_publisher(database.conninfo, "s") as ours:
        assert fence.own_setting(ours) == former


def test_the_statement_for_a_setting_of_a_role_in_one_database_removes_it(database: Database):
    with a_role(database, "") as role, connect_publisher(database.conninfo, "s") as ours:
        database.execute(f"ALTER ROLE {role} IN DATABASE {database.name} SET default_transaction_read_only = off")
        ((_, statement),) = fence.fence_obstacles(ours)
        database.execute(statement)
        assert fence.fence_obstacles(ours) == []


def test_only_transactions_of_the_database_that_write_are_named(database: Database):
    database.execute("CREATE TABLE t (a int)")
    with (
        psycopg.connect(database.conninfo, application_name="writer") as writer,
        psycopg.connect(database.conninfo) as reader,
        connect_publisher(database.conninfo, "s") as ours,
    ):
        reader.execute("SELECT * FROM t")
        assert open_writes(ours) == []
        writer.execute("INSERT INTO t VALUES (1)")
        (found,) = open_writes(ours)
        assert f"process {writer.info.backend_pid} " in found
        assert 'application "writer"' in found
        writer.execute("PREPARE TRANSACTION 'two'")
        (found,) = open_writes(ours)
        assert found.startswith('prepared transaction "two"')
        database.execute("ROLLBACK PREPARED 'two'")
        assert open_writes(ours) == []


def test_what_prevents_a_way_back_is_named_with_what_to_do(database: Database):
    database.execute("CREATE TABLE t (a int); CREATE TABLE k (a int PRIMARY KEY)")
    tables = [("public", "t"), ("public", "k"), ("public", "missing")]
    with connect_publisher(database.conninfo, "s") as ours:
        old = ours.info.server_version < reverse_replication.OLDEST_VERSION
        messages = [one.message for one in reverse_replication.target_obstacles(ours, tables)]
        assert messages[-2:] == [
            'table "public.missing" does not exist in the target',
            'table "public.t" of the target has no replica identity: the application could not update it',
        ]
        assert len(messages) == 2 + old
        found = [one.message for one in reverse_replication.publisher_obstacles(ours, [])]
        assert found == (
            ["the publisher is PostgreSQL 15, and a way back needs origin = none, which PostgreSQL 16 brought"]
            if old
            else []
        )
    if old:
        return
    with a_role(database, "") as role, connect_publisher(with_role(database, role), "s") as ours:
        (target, publisher) = (
            reverse_replication.target_obstacles(ours, [("public", "k")]),
            reverse_replication.publisher_obstacles(ours, []),
        )
        assert [one.hint.partition(": ")[2] for one in target[:2]] == [
            f'GRANT CREATE ON DATABASE "{database.name}" TO "{role}";',
            f'ALTER ROLE "{role}" REPLICATION;',
        ]
        assert target[2].message.startswith("applied changes are not marked with a replication origin")
        assert f'GRANT pg_create_subscription TO "{role}";' in publisher[0].hint


def test_publication_slot_and_subscription_are_made_and_dropped_as_often_as_one_likes(postgresql18, publisher_database):
    target = f"{publisher_database.name}_new"
    postgresql18.create_database(target)
    try:
        for name in (publisher_database.name, target):
            postgresql18.execute("CREATE TABLE t (a int PRIMARY KEY)", name)
        with (
            connect_publisher(postgresql18.conninfo(target), "s") as new,
            connect_publisher(publisher_database.conninfo, "s") as old,
        ):
            for _ in range(2):
                reverse_replication.prepare_target(new, "back", [("public", "t")])
                reverse_replication.subscribe_back(old, "back", postgresql18.conninfo(target))
            assert reverse_replication.stands(old, new, "back")
            assert not reverse_replication.came_back(old, "back")
            assert reverse_replication.confirmed_by_publisher(new, "back") is not None
            with pytest.raises(PublisherNotReady, match="the target refuses the way back"):
                reverse_replication.prepare_target(new, "other", [("public", "missing")])
            at_old, at_new = reverse_replication.dropping_statements("back")
            old.execute("SET default_transaction_read_only = on")  # as behind a fence
            for connection, statements in ((old, at_old), (new, at_new)):
                for statement in statements.split("; "):
                    connection.execute(statement)
            reverse_replication.prepare_target(new, "back", [("public", "t")])
            reverse_replication.subscribe_back(old, "back", postgresql18.conninfo(target))
            for _ in range(2):
                reverse_replication.drop_subscription_back(old, "back")
                assert not reverse_replication.stands(old, new, "back")
                reverse_replication.drop_on_target(new, "back")
            assert not reverse_replication.came_back(old, "back")
            assert reverse_replication.confirmed_by_publisher(new, "back") is None
    finally:
        postgresql18.drop_database(target)


def test_sequences_of_the_old_publisher_are_set_forward_and_never_back(postgresql18, publisher_database):
    old_name, new_name = publisher_database.name, f"{publisher_database.name}_new"
    postgresql18.create_database(new_name)
    old_model = """
    CREATE SEQUENCE "By ""Name"; CREATE SEQUENCE elsewhere;
    CREATE TABLE "T" (up serial, down int GENERATED ALWAYS AS IDENTITY (INCREMENT -1), small int GENERATED ALWAYS AS
     IDENTITY (MAXVALUE 5), ahead serial);
    CREATE TABLE other (a int DEFAULT nextval('elsewhere'));
    SELECT setval('"T_ahead_seq"', 100);
    """
    new_model = """
    CREATE SEQUENCE "By ""Name"; CREATE SEQUENCE named_otherwise; CREATE SEQUENCE elsewhere;
    CREATE TABLE "T" (up int DEFAULT nextval('named_otherwise'), down int GENERATED ALWAYS AS IDENTITY (INCREMENT -1),
     small serial, ahead serial);
    SELECT setval('named_otherwise', 9), setval('"By ""Name"', 4, false), setval('"T_down_seq"', -7),
     setval('"T_small_seq"', 6), setval('"T_ahead_seq"', 99), setval('elsewhere', 9);
    """
    try:
        postgresql18.execute(new_model, new_name)
        publisher_database.execute(old_model)
        with (
            connect_publisher(postgresql18.conninfo(new_name), "s") as new,
            connect_publisher(publisher_database.conninfo, "s") as old,
        ):
            old.execute("SET default_transaction_read_only = on")  # as behind a fence
            found = set_forward(old, new, [("public", "T")])
            assert found.done == [
                'sequence "public"."By ""Name" is set forward to 4',
                'sequence "public"."T_down_seq" is set forward to -7',
                'sequence "public"."T_up_seq" is set forward to 9',
            ]
            (left,) = found.left
            assert 'sequence "public"."T_small_seq" was not set forward: setval: value 6 is out of bounds' in left
            publisher_database.execute('ALTER SEQUENCE "T_small_seq" MAXVALUE 50')
            publisher_database.execute(left.partition("publisher: ")[2])
            assert set_forward(old, new, [("public", "T")]) == SetForward()
        values = publisher_database.execute(
            """SELECT nextval('"T_up_seq"'), nextval('"T_down_seq"'), nextval('"T_small_seq"'),"""
            """ nextval('"T_ahead_seq"'), nextval('"By ""Name"'), nextval('elsewhere')"""
        )
        assert values == [(10, -8, 7, 101, 4, 1)]
        with a_role(publisher_database, "") as role:
            publisher_database.execute(f'GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO "{role}"')
            postgresql18.execute("SELECT setval('\"T_up_seq\"', 1)", old_name)
            with (
                connect_publisher(postgresql18.conninfo(new_name), "s") as new,
                connect_publisher(with_role(publisher_database, role), "s") as old,
            ):
                found = set_forward(old, new, [("public", "T")])
        assert found.done == []
        assert "permission denied for sequence T_up_seq" in found.left[0]
    finally:
        postgresql18.drop_database(new_name)
