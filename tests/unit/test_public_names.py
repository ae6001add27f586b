from __future__ import annotations

import pytest

import subscriber
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.targets import open_target
from tests.frames import transaction
from tests.imports import imported_by, imported_by_command
from tests.journals import T, insert, publish, writing
from tests.streams import SLOT, SYSTEM


@pytest.mark.parametrize("name", subscriber.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(subscriber, name) is not None


def test_public_names_are_sorted():
    assert sorted(subscriber.__all__) == subscriber.__all__


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'emulte'"):
        subscriber.emulte  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), (), ("rnu",)], ids=" ".join)
def test_help_and_a_wrong_verb_import_almost_nothing(arguments):
    libraries, modules = imported_by_command(*arguments)
    assert libraries == {"click"}
    assert len(modules) <= 10


def test_a_walreceiver_does_not_import_the_modules_of_commands_and_pipeline():
    """Each subscription has a walreceiver, which is a separate process and is often started
    again.
    """
    found = imported_by("import subscriber.worker.receiver_process")
    assert "psycopg" in found
    assert not found & {"duckdb", "pandas", "pyspark", "sqlalchemy", "sqlglot", "subscriber.postgres.expressions"}


def test_the_help_of_run_imports_neither_arrow_nor_spark():
    libraries, _ = imported_by_command("run", "--help")
    assert libraries == {"click"}


@pytest.fixture
def file(tmp_path):
    """A target with the tables of the catalog, and no subscription."""
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        ensure_catalog(target.engine)
    return url


def test_status_imports_neither_arrow_nor_spark(file):
    libraries, modules = imported_by_command("status", "--target", file)
    assert libraries == {"click", "psycopg", "rich", "sqlalchemy"}
    assert len(modules) <= 140


def test_a_query_imports_neither_arrow_nor_spark_nor_a_driver(file):
    libraries, modules = imported_by_command("sql", "--target", file, "-c", "SELECT 1, 'a', NULL, 1.5")
    assert libraries == {"click", "sqlalchemy"}
    assert "subscriber.commands.dispatch" not in modules
    assert len(modules) <= 125


def test_a_command_of_postgresql_imports_what_it_needs(file):
    libraries, _ = imported_by_command("sql", "--target", file, "-c", "DROP SUBSCRIPTION IF EXISTS s")
    assert "psycopg" in libraries
    assert "pyspark" not in libraries


def test_status_of_a_subscription_with_a_journal_imports_neither_arrow_nor_spark(file, tmp_path, monkeypatch):
    """It reads the positions of the journal. The publisher does not exist."""
    create = "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false)"
    imported_by_command("sql", "--target", file, "-c", create)
    with open_target(file) as target, target.begin() as connection:
        for change in (
            f"subscription SET subslotname = '{SLOT}', systemidentifier = '{SYSTEM}'",
            "replication_origin_status SET remote_lsn = '0/200'",
        ):
            assert connection.exec_driver_sql(f"UPDATE subscriber_{change}").rowcount == 1
    monkeypatch.setenv("SUBSCRIBER_JOURNAL", str(tmp_path / "journal"))
    with writing(tmp_path / "journal" / f"{SYSTEM}_{SLOT}") as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    libraries, _ = imported_by_command("status", "--target", file)
    assert libraries == {"click", "psycopg", "rich", "sqlalchemy"}
