"""Tables of the user that have names of subscriber's catalog: only the very table that the target's
catalog occupies is in the way, and the command says so before anything is created.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.table_states import relations_of
from subscriber.commands.check_publications import read_unknown
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import parse
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.postgres.publication.publication_statements import CreatePublication
from subscriber.postgres.schema.relation_names import parse_names
from tests.subscribing import Session
from tests.target_databases import KINDS, opened

pytestmark = pytest.mark.server

NAME = "subscriber_subscription"
HERE, CRM = f"public.{NAME}", f"crm.{NAME}"
ELSEWHERE = f"{HERE} => public.published_subscriber_subscription"


@pytest.fixture
def publisher(publisher_database):
    publisher_database.execute(
        f"CREATE SCHEMA crm; CREATE TABLE {CRM} (id int PRIMARY KEY, plan text);"
        f" CREATE TABLE {HERE} (id int PRIMARY KEY, plan text); CREATE PUBLICATION everything FOR ALL TABLES"
    )
    return publisher_database


@pytest.mark.parametrize("carrier", [None, "everything"], ids=["server", "emulated"])
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_table_in_the_place_of_the_catalog_is_refused(kind, carrier, request, publisher, tmp_path):
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher, str(tmp_path / "journal"))
        if carrier is not None:
            command = parse("CREATE PUBLICATION everything FOR ALL TABLES")
            assert isinstance(command, CreatePublication)
            run_command(target, command, session.settings, print, publisher=publisher.conninfo)
        options = SubscriptionOptions(create_tables=True, carrier=carrier)

        def failed(**changes):
            migration = Migration(publisher.conninfo, ("everything",), replace(options, **changes))
            found = check_migration(target, migration, session.settings)
            return [(one.area, one.object, one.reason, one.remedy) for one in found if one.severity == "FAIL"]

        reason = "The target has a table of subscriber's catalog in this place."
        remedy = f"Replicate it into a table of another name: WITH (map = '{ELSEWHERE}')."
        assert failed() == [("target", HERE, reason, remedy)]
        assert failed(map=parse_names(ELSEWHERE)) == []
        create = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION everything WITH (create_tables"
        if carrier is not None:
            create += f", carrier = '{carrier}'"
        with pytest.raises(UsageError) as raised:
            session.run(f"{create})")
        error = raised.value
        assert (error.sqlstate, error.relation, error.detail, error.hint) == ("42809", HERE, reason, remedy)
        assert publisher.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [
            (0,)
        ]
        said = session.run(f"{create}, map = '{ELSEWHERE}')")
        assert not any("not replicated" in text for text in said)
        subscription = existing_subscription(target, "s")
        with target.engine.connect() as connection:
            relations = relations_of(connection, subscription.subid)
            found = target.shapes.reflect(connection, "crm", NAME)
        assert [(one.schema, one.name) for one in relations] == [("crm", NAME), ("public", NAME)]
        assert found is not None and found.key == ("id",)
        assert schema_difference(target, "s").objects == ()
        assert read_unknown(target, subscription, [("public", NAME)]).tables == (CRM,)
        session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        session.run("DROP SUBSCRIPTION s")


def test_a_database_of_mariadb_is_the_schema_of_its_name(request, publisher_database, tmp_path):
    """Table t of a schema s may be table t of database s, and this may be that of the catalog."""
    with opened("mariadb", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        ensure_catalog(target.engine)
        own = target.url.database
        publisher_database.execute(
            f"CREATE SCHEMA {own}; CREATE TABLE {own}.subscriber_lease (id int PRIMARY KEY);"
            " CREATE PUBLICATION p FOR ALL TABLES"
        )
        with pytest.raises(UsageError, match=f'cannot use relation "{own}.subscriber_lease"'):
            session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (create_tables)")
