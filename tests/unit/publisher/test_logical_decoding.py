"""Which settings of a server, by its version, prevent logical decoding. The texts of PostgreSQL 18
are compared with a server in tests/conformance/test_publisher.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.publisher.server_facts import DecodingSettings, read_decoding_settings
from tests.scripted_server import VERSIONS, ScriptedServer

OLD = DecodingSettings(
    version=180004, wal_level="logical", effective_wal_level=None, is_standby=False, output_plugin_libraries=None
)
NEW = replace(OLD, version=190000, wal_level="replica", effective_wal_level="replica")
STANDBY = replace(NEW, is_standby=True)
ADVICE_OF_19 = 'Set "wal_level" >= "logical" or create at least one logical slot when "wal_level" = "replica".'


@pytest.mark.parametrize("version", VERSIONS)
def test_replica_is_enough_from_19_on(version):
    """Before the first logical slot, and with one."""
    found = [
        bool(replace(OLD, version=version, wal_level="replica", effective_wal_level=effective).obstacles())
        for effective in ("replica", "logical")
    ]
    assert found == [version < 190000] * 2


def test_the_wal_level_is_read_in_the_same_way_from_every_version():
    row = {"wal_level": "replica", "effective": "logical", "standby": True, "libraries": "pgoutput"}
    for version in VERSIONS:
        server = ScriptedServer({"current_setting('wal_level')": [row]}, version=version)
        assert read_decoding_settings(server.connection) == DecodingSettings(
            version=version,
            wal_level="replica",
            effective_wal_level="logical",
            is_standby=True,
            output_plugin_libraries="pgoutput",
        )


def test_minimal_is_refused_in_19_with_its_hint_and_the_statement():
    (one,) = replace(NEW, wal_level="minimal", effective_wal_level="minimal").obstacles()
    assert (one.message, one.sqlstate) == ('replication slots can only be used if "wal_level" >= "replica"', "55000")
    assert one.finding == 'wal_level is "minimal", and logical decoding needs "replica" or "logical"'
    statement = "ALTER SYSTEM SET wal_level = 'replica';"
    assert one.hint("target") == f"{ADVICE_OF_19} Run at the target: {statement} and restart it."
    assert one.remedy("publisher") == f"{statement} -- and restart the publisher"


def test_a_standby_of_19_depends_on_its_primary():
    assert replace(STANDBY, wal_level="replica", effective_wal_level="logical").obstacles() == []
    (one,) = replace(STANDBY, wal_level="logical").obstacles()
    assert one.message == 'logical decoding on standby requires "effective_wal_level" >= "logical" on the primary'
    assert one.finding == 'effective_wal_level is "replica", and logical decoding needs "logical"'
    assert one.hint("publisher") == (
        f"{ADVICE_OF_19} Run at the primary: ALTER SYSTEM SET wal_level = 'logical'; and restart it."
    )
    assert one.remedy("publisher").endswith("-- and restart the primary")


@pytest.mark.parametrize(
    "libraries", ["pgoutput, test_decoding", "wal2json,pgoutput", ' "pgoutput" , wal2json', '"a, b", pgoutput']
)
def test_the_plugin_may_be_anywhere_in_the_list_of_libraries(libraries):
    assert replace(OLD, output_plugin_libraries=libraries).obstacles() == []


@pytest.mark.parametrize(
    ("libraries", "values"),
    [
        ("", "'pgoutput'"),
        ("test_decoding", "'test_decoding', 'pgoutput'"),
        ("wal2json, PGOUTPUT", "'wal2json', 'PGOUTPUT', 'pgoutput'"),
        ('"a, pgoutput", b', "'a, pgoutput', 'b', 'pgoutput'"),
        ("$libdir/pgoutput", "'$libdir/pgoutput', 'pgoutput'"),
    ],
)
def test_a_list_without_the_plugin_is_an_obstacle_with_the_statement_that_keeps_the_others(libraries, values):
    """The server compares the names as they stand."""
    (one,) = replace(NEW, output_plugin_libraries=libraries).obstacles()
    assert (one.message, one.sqlstate) == ('library "pgoutput" may not be used as an output plugin', "42501")
    statements = f"ALTER SYSTEM SET output_plugin_libraries = {values}; SELECT pg_reload_conf();"
    assert one.remedy("publisher") == statements
    assert one.hint("publisher") == f"Run at the publisher: {statements}"
