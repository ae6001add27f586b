"""subscription.commands.emulated, as far as no publisher is needed; the rest is beside the server
in tests/conformance.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber import catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands import publication_commands, run_command
from subscriber.commands.subscription_grammar import parse
from subscriber.commands.subscription_statements import Query
from subscriber.errors import NotSupportedError, SubscriberError, UsageError
from subscriber.publication.definition import Publication
from subscriber.schema.publisher_tables import PublisherTables
from subscriber.settings import Settings
from subscriber.targets import open_target


class Session:
    """Commands on a SQLite target that has the publications p and q."""

    def __init__(self, folder) -> None:
        self.target = open_target(f"sqlite:///{folder / 'target.db'}")
        self.said: list[str] = []
        self._settings = Settings(journal=str(folder / "journal"))
        catalog.ensure_catalog(self.target.engine)
        with self.target.begin() as connection:
            for name in ("p", "q"):
                catalog.insert_publication(connection, Publication(name), "ann")

    def run(self, sql: str, publisher: str | None = None) -> str:
        command = parse(sql)
        assert not isinstance(command, Query)
        return run_command(self.target, command, self._settings, self.said.append, publisher)

    def refused(self, sql: str) -> SubscriberError:
        with pytest.raises(SubscriberError) as caught:
            self.run(sql)
        return caught.value

    def subscribe(self, name: str, conninfo: str, publications: tuple[str, ...], carrier: str | None = None) -> None:
        options = SubscriptionOptions(slot_name=name, carrier=carrier)
        with self.target.begin() as connection:
            catalog.insert_subscription(connection, name, conninfo, publications, options)

    @property
    def names(self) -> list[str]:
        with self.target.engine.connect() as connection:
            return [publication.name for publication in catalog.list_publications(connection)]


@pytest.fixture
def session(tmp_path):
    opened = Session(tmp_path)
    with opened.target:
        yield opened


def test_names_that_are_dropped_are_all_there_or_none_is_dropped(session):
    error = session.refused("DROP PUBLICATION p, nope")
    assert (error.sqlstate, error.message) == ("42704", 'publication "nope" does not exist')
    assert session.names == ["p", "q"]
    assert session.run("DROP PUBLICATION IF EXISTS p, nope, p") == "DROP PUBLICATION"
    assert session.names == ["q"]
    assert session.said == ['NOTICE:  publication "nope" does not exist, skipping']


def test_a_publication_that_a_subscription_goes_by_is_dropped_with_a_warning(session):
    session.subscribe("mine", "host=a", ("p", "q"), carrier="everything")
    session.subscribe("servers", "host=a", ("p",))
    session.run("DROP PUBLICATION p")
    assert session.names == ["q"]
    (said,) = session.said
    assert said.startswith('WARNING:  subscription "mine" cannot continue without publication "p"\nHINT:  ')


def test_there_is_nobody_to_give_a_publication_to(session):
    named = session.refused("ALTER PUBLICATION nope OWNER TO me")
    assert (type(named), named.sqlstate, named.message) == (UsageError, "42704", 'role "me" does not exist')
    assert session.refused("ALTER PUBLICATION nope OWNER TO CURRENT_USER").sqlstate == "42704"
    assert isinstance(session.refused("ALTER PUBLICATION p OWNER TO CURRENT_USER"), NotSupportedError)


def test_a_publisher_is_needed_where_names_are_looked_up_and_only_there(session):
    """names_are_data: connection strings are shown without passwords."""
    assert session.run("ALTER PUBLICATION p SET (publish = 'insert')") == "ALTER PUBLICATION"
    assert session.run("ALTER PUBLICATION p RENAME TO r") == "ALTER PUBLICATION"
    session.subscribe("s", "host=a password=hush", ("p",))
    session.subscribe("t", "host=b password=hush", ("p",))
    error = session.refused("ALTER PUBLICATION r ADD TABLE t")
    assert error.message == "the publisher of the publication's tables is not known"
    assert error.detail == "The target's subscriptions have different publishers: host=a; host=b."
    assert "--publisher" in (error.hint or "")


def test_the_publication_is_looked_for_before_the_publisher(session):
    assert session.refused("CREATE PUBLICATION p FOR TABLE t").sqlstate == "42710"
    assert session.refused("ALTER PUBLICATION nope ADD TABLE t").sqlstate == "42704"


def test_a_change_that_another_command_made_meanwhile_is_not_overwritten(session, monkeypatch):
    asked = []

    def tables(target, publisher) -> PublisherTables:
        asked.append(publisher)
        with target.begin() as connection:
            catalog.replace_publication(connection, replace(Publication("p"), via_root=True))
        return PublisherTables(180000, {}, frozenset(), schemas=frozenset({"s"}))

    monkeypatch.setattr(publication_commands, "_tables", tables)
    with pytest.raises(UsageError) as caught:
        session.run("ALTER PUBLICATION p ADD TABLES IN SCHEMA s", "host=a")
    assert (caught.value.sqlstate, asked) == ("40001", ["host=a"])
    with session.target.engine.connect() as connection:
        assert catalog.get_publication(connection, "p") == Publication("p", via_root=True)
