"""`subscriber check` and `subscriber status` say whether a standby could take the slot over: each
problem is made on two real servers, found, and put right by the statement of the finding.
"""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import get_subscription
from subscriber.commands.subscription_grammar import CreateSubscription, parse
from subscriber.migrate.check_migration import Migration, check_migration, warn_at_creation
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.failover import judge_readiness, read_failover_servers
from subscriber.publisher.server_facts import read_server_facts
from subscriber.targets import open_target
from subscriber.worker.read_status import subscription_statuses
from subscriber.worker.subscription_status import FailoverStatus
from tests.conftest import Database
from tests.crash.harness import wait_until
from tests.failover import pair_or_skip
from tests.subscribing import Session, a_role, with_role

SECONDS = 40.0
"""A standby looks for changes of slots every 30 s at the latest."""

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def pair():
    with pair_or_skip() as pair:
        pair.create_database("shop")
        pair.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t", "shop")
        yield pair


@pytest.fixture(scope="module")
def session(pair, tmp_path_factory):
    """A subscription with ``failover = true`` whose slot is synchronized."""
    folder = tmp_path_factory.mktemp("readiness")
    with open_target(f"sqlite:///{folder / 'target.db'}") as target:
        session = Session(target, Database(pair, "shop", pair.conninfo("shop")), str(folder / "journal"))
        session.execute("CREATE TABLE t (id int PRIMARY KEY)")
        session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (copy_data = false, failover = true)")
        yield session


@pytest.fixture(autouse=True)
def ready(pair, session):
    """Every test begins with standbys that are ready."""
    become_ready(pair, "s")


def become_ready(pair, slot):
    """Confirm everything, as a receiver does, until there is no problem."""
    pair.wait_until_ready(slot, confirm_in="shop")
    wait_until(lambda: not problems(pair, slot), "the standby to be ready", SECONDS)


def alter_slot(pair, slot, *, failover):
    with psycopg.connect(pair.conninfo("shop", replication="database"), autocommit=True) as connection:
        connection.execute(f"ALTER_REPLICATION_SLOT {slot} (FAILOVER {str(failover).lower()})")


def problems(pair, slot="s", **parameters):
    servers = read_failover_servers(pair.conninfo("shop", **parameters), "tests", slot)
    return judge_readiness("s", slot, servers).problems


def findings(session):
    with session.target.begin() as connection:
        found = get_subscription(connection, "s")
    migration = Migration(found.conninfo, found.publications, found.options, "s")
    return [one for one in check_migration(session.target, migration, session.settings) if "failover" in one.object]


def status(session):
    (found,) = subscription_statuses(session.target, session.settings)
    return found.failover


def place(server):
    return f"127.0.0.1:{server.port}"


def put_right(pair, remedy):
    """Run the statements of a remedy at the server that it names."""
    statements, _, there = remedy.partition(" -- at ")
    (server,) = (one for one in (pair.primary, pair.standby) if place(one) == there)
    for statement in statements.removeprefix("Start that standby, or: ").split(";"):
        if statement.strip():
            server.execute(statement)


def test_standbys_that_are_ready_are_named(pair, session):
    (finding,) = findings(session)
    assert (finding.severity, finding.message) == ("INFO", f"ready at {place(pair.standby)}")
    assert status(session) == FailoverStatus(True, (place(pair.standby),), ())


@pytest.mark.parametrize(
    ("role", "setting", "value", "message"),
    [
        ("standby", "sync_replication_slots", "off", "sync_replication_slots is off"),
        ("standby", "hot_standby_feedback", "off", "hot_standby_feedback is off"),
        ("primary", "synchronized_standby_slots", "", "synchronized_standby_slots does not name two"),
        (
            "primary",
            "synchronized_standby_slots",
            "two, gone",
            'synchronized_standby_slots names replication slot "gone", which does not exist',
        ),
    ],
)
def test_a_setting_that_prevents_a_failover_is_found_and_put_right_by_its_statement(
    pair, role, setting, value, message
):
    server = getattr(pair, role)
    server.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
    server.execute("SELECT pg_reload_conf()")
    wait_until(lambda: problems(pair), "the setting to be found", SECONDS)
    (problem,) = problems(pair)
    assert (problem.place, problem.message) == (place(server), message)
    put_right(pair, problem.remedy)
    wait_until(lambda: not problems(pair), f"this to put it right: {problem.remedy}", SECONDS)
    server.execute("ALTER SYSTEM RESET ALL")
    server.execute("SELECT pg_reload_conf()")


def test_a_standby_whose_connection_names_no_database_or_that_has_no_slot_is_found(pair):
    standby = pair.standby
    before = dict(standby.settings)
    standby.reload(
        {
            "primary_conninfo": before["primary_conninfo"].replace("dbname=postgres", ""),
            "primary_slot_name": "",
            "sync_replication_slots": "off",
        }
    )
    pair.primary.reload({"synchronized_standby_slots": ""})
    wait_until(lambda: len(problems(pair)) == 3, "the settings to be read", SECONDS)
    assert [one.message for one in problems(pair)] == [
        "sync_replication_slots is off",
        "primary_slot_name is empty",
        "primary_conninfo has no dbname",
    ]
    pair.execute("DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN")
    wait_until(
        lambda: standby.execute("SELECT FROM pg_roles WHERE rolname = 'poor'"), "the role at the standby", SECONDS
    )
    # The role may not read primary_conninfo.
    assert len(problems(pair, user="poor")) == 2
    standby.reload(before)
    pair.primary.reload({"synchronized_standby_slots": standby.name})


def test_a_slot_that_is_missing_at_the_standby_or_behind_it_is_found(pair):
    pair.execute("SELECT pg_create_logical_replication_slot('behind', 'pgoutput')", "shop")
    pair.execute("INSERT INTO t VALUES (1); DELETE FROM t", "shop")
    # The slot of the other subscription at the standby needs older rows no more.
    xmin = "SELECT catalog_xmin::text::int8 FROM pg_replication_slots WHERE slot_name = '{}'"
    ((behind,),) = pair.execute(xmin.format("behind"))

    def passed():
        pair.confirm("s", "shop")
        return pair.standby.execute(xmin.format("s")) > [(behind,)]

    wait_until(passed, "the other slot to pass", SECONDS)
    pair.standby.reload({"sync_replication_slots": "off"})
    alter_slot(pair, "behind", failover=True)
    wait_until(lambda: len(problems(pair, "behind")) == 2, "the setting to be read", SECONDS)
    assert problems(pair, "behind")[1].message == 'replication slot "behind" is not there'
    pair.standby.reload({"sync_replication_slots": "on"})
    temporary = ['replication slot "behind" is temporary']
    wait_until(lambda: [one.message for one in problems(pair, "behind")] == temporary, "the slot", SECONDS)
    become_ready(pair, "behind")
    pair.execute("SELECT pg_drop_replication_slot('behind')")


def test_a_slot_without_failover_is_found_and_altered(pair, session):
    """`failover` of the slot is not what the catalog says."""
    alter_slot(pair, "s", failover=False)
    (problem,) = (one for one in problems(pair) if one.place == place(pair.primary))
    assert problem.message == 'replication slot "s" has failover = false, although the subscription has failover = true'
    assert f"{problem.place}: {problem.message}" in status(session).problems
    for statement in problem.remedy.split("; "):
        session.run(statement.rstrip(";"))
    become_ready(pair, "s")


def test_a_host_that_does_not_answer_is_found_without_a_long_wait(pair, session):
    pair.standby.stop()
    found = problems(pair)
    assert [one.place for one in found] == [place(pair.standby), place(pair.primary)]
    assert re.match(r"the server does not answer: .*Connection refused", found[0].message)
    assert found[1].message == 'synchronized_standby_slots names replication slot "two", which is used by no standby'
    pair.standby.start()
    alone = make_conninfo(pair.primary.conninfo("shop"))
    session.run(f"ALTER SUBSCRIPTION s CONNECTION '{alone}'")
    wait_until(lambda: not problems(pair), "the standby to stream", SECONDS)
    (finding,) = findings(session)
    assert finding.severity == "INFO"
    assert finding.message.startswith("CONNECTION names no standby")
    assert status(session) == FailoverStatus(None, (), ())
    session.run("ALTER SUBSCRIPTION s CONNECTION '$pub'")


def test_a_subscription_of_several_hosts_without_failover_is_found(pair, session):
    session.run("ALTER SUBSCRIPTION s DISABLE")
    session.run("ALTER SUBSCRIPTION s SET (failover = false)")
    (finding,) = findings(session)
    assert (finding.severity, finding.message) == (
        "WARN",
        "CONNECTION names 2 hosts, but the subscription does not have failover = true",
    )
    for statement in str(finding.remedy).split("; "):
        session.run(statement.rstrip(";"))


def test_hosts_without_the_state_that_a_server_must_have_are_found(pair, session):
    migration = Migration(pair.conninfo("shop", target_session_attrs="any"), ("p",), SubscriptionOptions())
    found = [one for one in check_migration(session.target, migration, session.settings) if one.object == "CONNECTION"]
    assert [(one.severity, one.message) for one in found] == [
        ("WARN", "CONNECTION names several hosts without target_session_attrs")
    ]


def test_create_subscription_warns_of_settings_and_does_not_miss_the_slot_that_it_has_just_made(pair, session):
    pair.standby.reload({"hot_standby_feedback": "off"})
    wait_until(lambda: problems(pair), "the setting to be read", SECONDS)
    command = parse(f"CREATE SUBSCRIPTION s CONNECTION '{pair.conninfo('shop')}' PUBLICATION p WITH (failover = true)")
    assert isinstance(command, CreateSubscription)
    said: list[str] = []
    warn_at_creation(session.target, command, session.settings, said.append)
    warnings = [text for text in said if "failover to" in text]
    assert [text.split("\n")[0] for text in warnings] == [
        f"WARNING:  failover to {place(pair.standby)}: hot_standby_feedback is off"
    ]
    pair.standby.reload({"hot_standby_feedback": "on"})


def test_patroni_is_told_which_slots_it_must_keep(pair, session):
    session.run("ALTER SUBSCRIPTION s DISABLE")
    session.run("ALTER SUBSCRIPTION s SET (failover = false)")
    with psycopg.connect(pair.conninfo("postgres", application_name="Patroni heartbeat")):
        with (
            a_role(session.publisher, "") as role,
            connect_publisher(with_role(session.publisher, role), "tests") as connection,
        ):
            assert read_server_facts(connection).is_managed_by_patroni
        with session.target.begin() as connection:
            found = get_subscription(connection, "s")
        migration = Migration(found.conninfo, found.publications, found.options, "s")
        (finding,) = (
            one for one in check_migration(session.target, migration, session.settings) if one.object == "Patroni"
        )
    assert "SET (failover = true)" in str(finding.remedy)
    assert "'slots.s={type: logical, database: shop, plugin: pgoutput}'" in str(finding.remedy)
    session.run("ALTER SUBSCRIPTION s SET (failover = true)")
    session.run("ALTER SUBSCRIPTION s ENABLE")


def test_a_slot_that_an_old_primary_has_kept_is_found_and_dropped_by_its_statement(pair):
    """The synchronization of all slots of the standby ends with an error until then."""
    pair.switch_over(leftovers=True)
    wait_until(lambda: problems(pair), "the leftover", SECONDS)
    (problem,) = problems(pair)
    assert problem.message == "the standby has a slot of its own with the name of a slot of the primary: s"
    said = 'exiting from slot synchronization because same name slot "s" already exists on the standby'
    wait_until(lambda: said in pair.standby.log(), "the server to say so", SECONDS)
    put_right(pair, problem.remedy)


def test_an_old_primary_that_came_back_beside_the_new_one_is_found(pair):
    pair.kill_primary()
    pair.promote()
    pair.standby.start()
    (problem,) = (one for one in problems(pair) if one.place == place(pair.standby))
    assert re.match(r"the server is a primary on timeline \d, but 127.0.0.1:\d+ is one on timeline \d", problem.message)
    pair.rejoin()
