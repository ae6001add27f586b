"""CREATE SUBSCRIPTION, REFRESH and DROP report problems that would otherwise be found later, or
never.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.base.errors import PublisherNotReady, SubscriberError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.copy_plan import plan_copy, table_files
from subscriber.publisher.server_publications import ServerPublications
from subscriber.publisher.table_checks import tables_without_identity, unreadable_tables
from subscriber.targets import open_target
from tests.subscribing import Session, a_role, with_role
from tests.target_databases import KINDS, applied_to

pytestmark = pytest.mark.server


@pytest.fixture
def session(publisher_database, tmp_path) -> Iterator[Session]:
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        yield Session(target, publisher_database, str(tmp_path / "journal"))


@pytest.fixture(params=KINDS)
def any_session(request, publisher_database, tmp_path) -> Iterator[Session]:
    """A session for each kind of target."""
    with applied_to(request.param, request, tmp_path) as on:
        on.execute("DELETE FROM subscriber_replication_origin_status")
        yield Session(on.target, publisher_database, str(tmp_path / "journal"))


CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p"

# Tables without a replica identity ----------------------------------------------------------------


def test_create_subscription_names_tables_without_replica_identity_and_the_statement_to_run(session):
    """Without the warning only the publisher's application would fail, with "cannot update
    table".
    """
    session.publisher.execute("CREATE TABLE film (title text); CREATE PUBLICATION p FOR TABLE film")
    (told,) = session.warnings(f"{CREATE} WITH (create_tables)")
    with pytest.raises(psycopg.Error) as refused:
        session.publisher.execute("UPDATE film SET title = ''")
    assert (refused.value.diag.message_primary or "x") in told
    assert told.startswith(
        'WARNING:  published table "public.film" has no replica identity\nDETAIL:  At the publisher, UPDATE and'
    )
    statement = told.partition("HINT:  Run at the publisher: ")[2]
    assert statement == 'ALTER TABLE "public"."film" REPLICA IDENTITY FULL;'
    session.publisher.execute(statement)
    session.publisher.execute("UPDATE film SET title = ''; DELETE FROM film")
    assert session.warnings("ALTER SUBSCRIPTION s REFRESH PUBLICATION") == []


def test_a_refresh_names_new_tables_without_replica_identity(session):
    session.publisher.execute(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE a; CREATE PUBLICATION q"
    )
    assert session.warnings(f"{CREATE} WITH (create_tables)") == []
    session.publisher.execute("CREATE TABLE b (id int); ALTER PUBLICATION p ADD TABLE b")
    (told,) = session.warnings("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert '"public.b"' in told
    session.publisher.execute("CREATE TABLE c (id int); ALTER PUBLICATION q ADD TABLE c")
    (told,) = session.warnings("ALTER SUBSCRIPTION s ADD PUBLICATION q")
    assert told.startswith('WARNING:  2 published tables have no replica identity: "public.b", "public.c"\n')


IDENTITIES = """
    CREATE TABLE full_ (a int); ALTER TABLE full_ REPLICA IDENTITY FULL;
    CREATE TABLE keyed (a int PRIMARY KEY);
    CREATE TABLE nothing (a int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
    CREATE TABLE deferred (a int, PRIMARY KEY (a) DEFERRABLE);
    CREATE TABLE "by Index" (a int NOT NULL, b int NOT NULL, c int UNIQUE, UNIQUE (a, b));
    CREATE UNIQUE INDEX "The one" ON "by Index" (b); CREATE UNIQUE INDEX ON "by Index" (a) WHERE b > 0;
    CREATE TABLE lost (a int NOT NULL); CREATE UNIQUE INDEX lost_key ON lost (a); ALTER TABLE lost REPLICA IDENTITY USING INDEX lost_key;
    DROP INDEX lost_key;
    CREATE TABLE root (a int) PARTITION BY LIST (a); CREATE TABLE leaf1 PARTITION OF root FOR VALUES IN (1);
    CREATE TABLE leaf2 PARTITION OF root (PRIMARY KEY (a)) FOR VALUES IN (2);
    CREATE TABLE appended (a int);
    CREATE PUBLICATION everything FOR TABLE full_, keyed, nothing, deferred, "by Index", lost;
    CREATE PUBLICATION via_root FOR TABLE root WITH (publish_via_partition_root);
    CREATE PUBLICATION leaves FOR TABLE root WITH (publish = 'insert, delete');
    CREATE PUBLICATION inserts FOR TABLE appended WITH (publish = 'insert, truncate');
"""


def test_the_warning_names_exactly_the_tables_that_the_server_refuses_to_change(database):
    """Versions 15, 16 and 18. A partition needs an identity itself, even if only its root is named.
    Each statement repairs its table.
    """
    database.execute(IDENTITIES)
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        found = tables_without_identity(connection, ["everything", "via_root", "inserts"])
        leaves = tables_without_identity(connection, ["leaves"])
    assert [(one.name, one.statement.partition("IDENTITY ")[2]) for one in found] == [
        ("by Index", 'USING INDEX "The one"'),
        ("deferred", "FULL"),
        ("leaf1", "FULL"),
        ("lost", "FULL"),
        ("nothing", "DEFAULT"),
    ]
    assert [(one.name, one.updates, one.deletes) for one in leaves] == [("leaf1", False, True)]
    refused = []
    for name in ("full_", "keyed", "nothing", "deferred", '"by Index"', "lost", "leaf1", "leaf2", "appended"):
        try:
            database.execute(f"UPDATE {name} SET a = 1")
        except psycopg.errors.ObjectNotInPrerequisiteState:
            refused.append(name.strip('"'))
    assert sorted(refused) == [one.name for one in found]
    for one in found:
        database.execute(one.statement)
        database.execute(f'UPDATE "{one.name}" SET a = 1')


def test_with_an_emulated_publication_the_warning_names_the_carriers_tables(session):
    session.publisher.execute(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int); CREATE PUBLICATION carrier FOR ALL TABLES"
    )
    command = parse("CREATE PUBLICATION p FOR TABLE a")
    assert not isinstance(command, Query)
    run_command(session.target, command, session.settings, print, session.publisher.conninfo)
    (told,) = session.warnings(f"{CREATE} WITH (carrier = carrier, create_tables)")
    assert told.startswith('WARNING:  published table "public.b" has no replica identity')


# Privileges ---------------------------------------------------------------------------------------


def test_create_subscription_names_tables_that_the_role_may_not_read_and_the_grant(session):
    """For the columns of a list and for whole tables. The GRANT of the warning is sufficient."""
    session.publisher.execute(
        'CREATE TABLE open (id int PRIMARY KEY); CREATE TABLE "Shut" (id int PRIMARY KEY); CREATE TABLE part (id int PRIMARY KEY, a int);'
        "CREATE SCHEMA hidden; CREATE TABLE hidden.t (id int PRIMARY KEY);"
        'CREATE PUBLICATION p FOR TABLE open, "Shut", part (id), hidden.t'
    )
    with a_role(session.publisher, "REPLICATION") as role:
        session.publisher.execute(
            f"GRANT SELECT ON open TO {role}; GRANT SELECT (id) ON part TO {role}; GRANT pg_monitor TO {role}"
        )
        create = (
            f"CREATE SUBSCRIPTION s CONNECTION '{with_role(session.publisher, role)}' PUBLICATION p WITH (create_tables"
        )
        assert session.warnings(f"{create}, copy_data = false)") == []
        session.run("DROP SUBSCRIPTION s")
        (told,) = session.warnings(f"{create})")
        assert told == (
            f'WARNING:  role "{role}" does not have the privilege to read 2 published tables: "hidden.t", "public.Shut"\n'
            "DETAIL:  The initial copy fails for each of them until the privilege is granted.\n"
            f'HINT:  Run at the publisher: GRANT USAGE ON SCHEMA "hidden" TO "{role}"; GRANT SELECT ON TABLE "hidden"."t" TO "{role}";'
            f' GRANT SELECT ON TABLE "public"."Shut" TO "{role}";'
        )
        session.publisher.execute(told.partition("publisher: ")[2])
        with psycopg.connect(with_role(session.publisher, role), autocommit=True) as connection:
            everything = [
                PublishedTable("hidden", "t", columns=("id",)),
                PublishedTable("public", "Shut", columns=("id",)),
            ]
            assert unreadable_tables(connection, everything) == []


def test_a_failed_copy_names_the_missing_grant(database):
    """Versions 15, 16 and 18. A role that may read only the published columns can copy them, but
    not by ranges of ctid.
    """
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 2); CREATE PUBLICATION p FOR TABLE t (id)"
    )
    with a_role(database, "") as role, psycopg.connect(with_role(database, role)) as connection:
        files = table_files(connection, [("public", "t")])["public", "t"]
        with pytest.raises(PublisherNotReady, match=r": permission denied for table t$") as raised:
            plan_copy(connection, ServerPublications(connection, ["p"]), "public", "t", 1 << 20, files)
        assert (raised.value.relation, raised.value.sqlstate) == ("public.t", "42501")
        assert raised.value.hint == f'Run at the publisher: GRANT SELECT ON TABLE "public"."t" TO "{role}";'
        connection.rollback()
        database.execute(f"GRANT SELECT (id) ON t TO {role}")
        plan = plan_copy(connection, ServerPublications(connection, ["p"]), "public", "t", 1 << 20, files)
        (whole,) = plan.ranges
        with connection.cursor() as cursor, cursor.copy(plan.query.command(whole, "text").encode()) as copy:
            assert list(copy.rows()) == [("1",)]


def test_a_role_that_may_not_replicate_gets_the_statement_to_run(database):
    """The text of PostgreSQL 16 differs from that of 15. Both errors are lasting, until somebody
    changes the role.
    """
    with a_role(database, "") as role:
        with pytest.raises(PublisherNotReady) as raised:
            ReplicationConnection(with_role(database, role), "s")
        statement = str(raised.value.hint).removeprefix("Run at the publisher, as a superuser: ")
        assert statement == f'ALTER ROLE "{role}" REPLICATION;'
        database.execute(statement)
        ReplicationConnection(with_role(database, role), "s").close()


# Shapes -------------------------------------------------------------------------------------------


TABLES = ("lacking", "extra", "keyless", "fits")


def test_create_subscription_warns_of_tables_that_do_not_fit(any_session):
    """PostgreSQL's commands accept such tables and its workers fail. So the command succeeds, and
    warns with the texts of ``run``.
    """
    session = any_session
    session.publisher.execute(
        "CREATE TABLE lacking (id int PRIMARY KEY, a text);"
        "CREATE TABLE extra (id int PRIMARY KEY); CREATE TABLE keyless (id int PRIMARY KEY); CREATE TABLE fits (id int PRIMARY KEY, a text);"
        "CREATE PUBLICATION p FOR TABLE lacking, extra, keyless, fits"
    )
    session.execute(
        "CREATE TABLE lacking (id int PRIMARY KEY)",
        "CREATE TABLE extra (id int PRIMARY KEY, must int NOT NULL, may int, has int NOT NULL DEFAULT 7)",
        "CREATE TABLE keyless (id int)",
        "CREATE TABLE fits (a varchar(900), id int PRIMARY KEY, more int)",
    )
    told = {table: text for text in session.warnings(CREATE) for table in TABLES if table in text}
    assert {table: text.partition("\n")[0].removeprefix("WARNING:  ") for table, text in told.items()} == {
        "extra": 'relation "public.extra" of the target requires a value for column: "must"',
        "keyless": (
            'logical replication target relation "public.keyless" has neither REPLICA IDENTITY index nor PRIMARY KEY'
            " and published relation does not have REPLICA IDENTITY FULL"
        ),
        "lacking": 'logical replication target relation "public.lacking" is missing replicated column: "a"',
    }
    assert "The publisher has (id integer, a text), the target (id" in told["lacking"]
    assert "ALTER TABLE" in told["lacking"]
    with session.target.engine.connect() as connection:
        assert session.target.shapes.reflect(connection, "public", "lacking").column("a") is None


def test_create_subscription_warns_of_a_column_that_would_change_values(session):
    session.publisher.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric); CREATE PUBLICATION p FOR TABLE t")
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n NUMERIC)")
    (told,) = session.warnings(CREATE)
    assert told.startswith('WARNING:  table "public.t": column "n" declared "NUMERIC" cannot hold type numeric exactly')
    assert "The publisher has (id integer, n numeric), the target (id INT, n NUMERIC)." in told


def test_columns_that_will_be_added_cause_no_warning_and_are_not_added_yet(any_session):
    """Other differences still cause a warning."""
    session = any_session
    session.publisher.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); CREATE PUBLICATION p FOR TABLE t")
    session.execute("CREATE TABLE t (id int PRIMARY KEY, must int NOT NULL)")
    (told,) = session.warnings(f"{CREATE} WITH (schema_changes = add_columns)")
    assert told.startswith('WARNING:  relation "public.t" of the target requires a value for column: "must"')
    with session.target.engine.connect() as connection:
        assert [column.name for column in session.target.shapes.reflect(connection, "public", "t").columns] == [
            "id",
            "must",
        ]


def test_a_refresh_compares_shapes_by_the_names_of_the_map(session):
    session.publisher.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    session.execute('CREATE TABLE "other.u" (id int PRIMARY KEY)')
    assert session.warnings(f"{CREATE} WITH (map = 'public.t => other.u', create_tables)") == []
    session.publisher.execute("ALTER TABLE t ADD COLUMN n int")
    (told,) = session.warnings("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert told.startswith('WARNING:  logical replication target relation "other.u" is missing replicated column: "n"')


def test_an_insert_only_publication_needs_no_key_at_the_target(session):
    session.publisher.execute(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')"
    )
    session.execute("CREATE TABLE t (id int)")
    assert session.warnings(CREATE) == []


# DROP SUBSCRIPTION --------------------------------------------------------------------------------


def test_a_drop_names_tables_that_were_not_copied_before_it_drops_the_slot(session):
    session.publisher.execute(
        "".join(f"CREATE TABLE t{number} (id int PRIMARY KEY);" for number in range(7))
        + "CREATE PUBLICATION p FOR ALL TABLES"
    )
    session.run(f"{CREATE} WITH (create_tables)")
    told, dropped = session.run("DROP SUBSCRIPTION s")
    assert told.partition("\n")[0] == (
        'WARNING:  7 tables of subscription "s" were never copied: "public.t0", "public.t1", "public.t2", "public.t3", "public.t4" and 2 more'
    )
    assert dropped == 'NOTICE:  dropped replication slot "s" on publisher'
    session.run(f"{CREATE} WITH (copy_data = false)")
    assert session.run("DROP SUBSCRIPTION s") == [dropped]


# MariaDB's privileges -----------------------------------------------------------------------------


def test_mariadb_names_the_statement_and_the_table_that_a_privilege_is_missing_for(mariadb):
    name = f"test_{os.getpid()}_denied"
    mariadb.create_database(name)
    try:
        with open_target(mariadb.url(name)) as owner, owner.engine.connect() as connection:
            for statement in (
                "CREATE TABLE t (a int, b int)",
                f"CREATE USER {name} IDENTIFIED BY 'x'",
                f"GRANT SELECT, UPDATE (a) ON {name}.t TO {name}",
            ):
                connection.exec_driver_sql(statement)
        with open_target(as_user(mariadb.url(name), name)) as target:
            for statement, expected in (
                (
                    "INSERT INTO t VALUES (1, 2)",
                    f'permission denied: INSERT on table "{name}.t" (error 1142, TABLEACCESS_DENIED_ERROR)',
                ),
                (
                    "UPDATE t SET b = 1",
                    'permission denied: UPDATE on column "b" of table "t" (error 1143, COLUMNACCESS_DENIED_ERROR)',
                ),
            ):
                with pytest.raises(SubscriberError) as raised, target.begin() as connection:
                    connection.exec_driver_sql(statement)
                assert (raised.value.message, raised.value.sqlstate) == (expected, "42501")
                assert str(raised.value.hint).startswith("Run in the target: GRANT ")
                assert f"'{name}'@" in str(raised.value.hint)
    finally:
        with open_target(mariadb.url("mysql")) as owner, owner.engine.connect() as connection:
            connection.exec_driver_sql(f"DROP USER IF EXISTS {name}")
        mariadb.drop_database(name)


def as_user(url: str, user: str) -> str:
    return sa.make_url(url).set(username=user, password="x").render_as_string(hide_password=False)


# Publications that do not exist -------------------------------------------------------------------


def test_a_misspelt_publication_is_told_with_the_one_that_is_meant(session):
    """CREATE SUBSCRIPTION, the receiver and check. PostgreSQL 18 gives the same warning."""
    session.publisher.execute("CREATE PUBLICATION shop; CREATE PUBLICATION other")
    without_slot = "WITH (slot_name = NONE, enabled = false, create_slot = false)"
    said = session.run(f"CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION shopp {without_slot}")
    meant = 'Perhaps you meant the publication "shop".'
    assert f'WARNING:  publication "shopp" does not exist on the publisher\nHINT:  {meant}' in said
    with (
        connect_publisher(session.publisher.conninfo, "s") as server,
        pytest.raises(PublisherNotReady, match='publication "shopp" does not exist') as refused,
    ):
        PublisherClient(server).check_publications(["shopp"])
    assert refused.value.hint == f"{meant} ALTER SUBSCRIPTION ... SET PUBLICATION names another one."
    migration = Migration(session.publisher.conninfo, ("shopp",), SubscriptionOptions())
    remedies = [one.remedy for one in check_migration(session.target, migration, session.settings)]
    assert meant in remedies
    assert not any("CREATE PUBLICATION" in str(remedy) for remedy in remedies)


def test_a_publication_that_is_like_no_other_is_only_missing(session):
    session.publisher.execute("CREATE PUBLICATION shop")
    without_slot = "WITH (slot_name = NONE, enabled = false, create_slot = false)"
    said = session.run(f"CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION orders {without_slot}")
    assert 'WARNING:  publication "orders" does not exist on the publisher' in said
