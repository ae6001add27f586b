"""subscriber.base.settings: numbers as in postgresql.conf, a journal that lasts, and conninfo
without secrets.
"""

import tempfile
from dataclasses import fields
from pathlib import Path

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.settings import MIB, UNREADABLE_CONNINFO, Settings, default_journal, redact_conninfo

HOME = {"HOME": "/home/ann"}


def test_an_empty_environment_gives_postgresqls_defaults():
    settings = Settings.from_environment(HOME)
    assert settings == Settings(journal="/home/ann/.local/share/subscriber/journal")
    assert settings.wal_receiver_timeout == 60
    assert settings.wal_receiver_status_interval == 10
    assert settings.wal_retrieve_retry_interval == 5
    assert settings.segment_bytes == 8 * MIB
    assert settings.max_batch_bytes == 64 * MIB


def test_every_field_is_read_from_its_variable():
    settings = Settings.from_environment(
        {
            "SUBSCRIBER_JOURNAL": "s3://bucket/j",
            "SUBSCRIBER_WAL_RECEIVER_TIMEOUT": "1s",
            "SUBSCRIBER_WAL_RECEIVER_STATUS_INTERVAL": "2s",
            "SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "3s",
            "SUBSCRIBER_SEGMENT_BYTES": "4kB",
            "SUBSCRIBER_JOURNAL_KEEP_SIZE": "2",
            "SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS": "drop 10GB",
            "SUBSCRIBER_MAX_BATCH_BYTES": "5kB",
            "SUBSCRIBER_PARTITION_BYTES": "6kB",
            "SUBSCRIBER_PASSWORD_COMMAND": "cat /run/secrets/password",
            "SUBSCRIBER_TRANSFORM_SECRET_FILE": "/run/secrets/transform",
            "SUBSCRIBER_POSTGRESQL_VERSION": "19",
            "SUBSCRIBER_METRICS_TABLES": "7",
            "SUBSCRIBER_FUNCTION_MODULES": "shop.rules, other,",
        }
    )
    password, secret = "cat /run/secrets/password", "/run/secrets/transform"
    assert settings == Settings(
        "s3://bucket/j",
        1.0,
        2.0,
        3.0,
        4096,
        2 * MIB,
        10 * 1024 * MIB,
        5120,
        6144,
        password,
        secret,
        19,
        7,
        ("shop.rules", "other"),
    )
    assert len(fields(Settings)) == 14


@pytest.mark.parametrize(
    ("text", "size"), [("", None), ("hold", None), (" hold ", None), ("drop 2", 2 * MIB), ("drop 64MB", 64 * MIB)]
)
def test_absent_consumers_are_held_or_dropped_beyond_a_size(text, size):
    assert Settings.from_environment({"SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS": text}).journal_absent_consumers == size


@pytest.mark.parametrize("text", ["drop", "hold 10GB", "10GB", "drop ten", "Drop 10GB", "drop -1", "drop 0"])
def test_a_rule_for_absent_consumers_that_is_not_one_is_refused(text):
    with pytest.raises(UsageError, match="SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS"):
        Settings.from_environment({"SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS": text})


def test_a_version_of_postgresql_is_one_of_those_that_this_program_can_be():
    assert Settings.from_environment(HOME).postgresql_version == 18
    with pytest.raises(UsageError, match='"SUBSCRIBER_POSTGRESQL_VERSION": "20"') as refusal:
        Settings.from_environment(HOME | {"SUBSCRIBER_POSTGRESQL_VERSION": "20"})
    assert refusal.value.hint == "Available values: 18, 19."


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "90s")
    assert Settings.from_environment().wal_receiver_timeout == 90


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("500ms", 0.5),
        ("1min", 60),
        ("2h", 7200),
        ("1d", 86400),
        ("250000us", 0.25),
        ("1.5min", 90),
        (" 10 s ", 10),
        ("1500", 1.5),
        ("0", 0),
        ("", 60),
        ("  ", 60),
    ],
)
def test_a_duration_is_written_as_in_postgresql(text, seconds):
    environment = HOME | {"SUBSCRIBER_WAL_RECEIVER_TIMEOUT": text}
    assert Settings.from_environment(environment).wal_receiver_timeout == pytest.approx(seconds)


def test_a_number_without_a_unit_has_the_unit_of_postgresqls_setting():
    """wal_receiver_timeout is in milliseconds there, wal_receiver_status_interval in seconds."""
    environment = HOME | {
        "SUBSCRIBER_WAL_RECEIVER_TIMEOUT": "20000",
        "SUBSCRIBER_WAL_RECEIVER_STATUS_INTERVAL": "20",
        "SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "20000",
    }
    settings = Settings.from_environment(environment)
    assert settings.wal_receiver_timeout == settings.wal_receiver_status_interval == 20
    assert settings.wal_retrieve_retry_interval == 20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64 * MIB),
        ("64kB", 65536),
        ("65536B", 65536),
        ("65536", 65536),
        ("1GB", 1024 * MIB),
        ("0.5MB", MIB // 2),
    ],
)
def test_a_size_is_written_as_in_postgresql(text, size):
    found = Settings.from_environment(HOME | {"SUBSCRIBER_SEGMENT_BYTES": text}).segment_bytes
    assert found == size
    assert isinstance(found, int)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "soon"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "10 parsecs"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "10S"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "10s 5ms"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "nan"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "1_000"),
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "s"),
        ("SUBSCRIBER_SEGMENT_BYTES", "64mb"),
        ("SUBSCRIBER_SEGMENT_BYTES", "64MiB"),
        ("SUBSCRIBER_MAX_BATCH_BYTES", "64s"),
        ("SUBSCRIBER_MAX_BATCH_BYTES", "٣"),
    ],
)
def test_an_invalid_value_is_refused_with_the_variable_and_the_units(variable, text):
    with pytest.raises(UsageError) as caught:
        Settings.from_environment(HOME | {variable: text})
    assert caught.value.message == f'invalid value for parameter "{variable}": "{text}"'
    assert caught.value.sqlstate == "22023"
    assert ('"ms"' if "TIMEOUT" in variable else '"kB"') in caught.value.report()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SUBSCRIBER_WAL_RECEIVER_TIMEOUT", "-1"),
        ("SUBSCRIBER_WAL_RECEIVER_STATUS_INTERVAL", "25d"),
        ("SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL", "0"),
        ("SUBSCRIBER_SEGMENT_BYTES", "0"),
        ("SUBSCRIBER_SEGMENT_BYTES", "1.5GB"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(variable, text):
    with pytest.raises(UsageError, match=r"outside the valid range") as caught:
        Settings.from_environment(HOME | {variable: text})
    assert f'{text} is outside the valid range for parameter "{variable}" (' in caught.value.message


@pytest.mark.parametrize(
    ("environment", "platform", "journal"),
    [
        (HOME, "linux", "/home/ann/.local/share/subscriber/journal"),
        (HOME | {"XDG_DATA_HOME": "/data"}, "linux", "/data/subscriber/journal"),
        (HOME | {"XDG_DATA_HOME": "relative"}, "linux", "/home/ann/.local/share/subscriber/journal"),
        (HOME | {"XDG_DATA_HOME": ""}, "linux", "/home/ann/.local/share/subscriber/journal"),
        (HOME | {"XDG_DATA_HOME": "/data"}, "darwin", "/home/ann/Library/Application Support/subscriber/journal"),
    ],
)
def test_the_journal_is_in_the_data_folder_of_the_user(environment, platform, journal):
    assert default_journal(environment, platform) == journal


def test_without_a_home_folder_the_journal_is_not_in_a_temporary_folder():
    """Invariant slot_after_disk: what the slot has confirmed exists nowhere else."""
    journal = Path(default_journal({}, "linux"))
    assert journal.is_absolute()
    assert not journal.is_relative_to(tempfile.gettempdir())


@pytest.mark.parametrize(
    ("conninfo", "shown"),
    [
        ("host=h dbname=d", "host=h dbname=d"),
        ("host=h password=secret dbname=d", "host=h dbname=d"),
        ("password = 'se cr\\'et' host=h", "host=h"),
        ("host=h password=se\\ cret user=u", "host=h user=u"),
        ("host=h password=", "host=h"),
        ("host = 'a b'\n\tuser=u", "host = 'a b' user=u"),
        ("sslpassword=secret sslkey=/k host=h", "sslkey=/k host=h"),
        ("oauth_client_secret=secret scram_client_key=secret scram_server_key=secret host=h", "host=h"),
        ("passfile=/etc/pgpass host=h", "passfile=/etc/pgpass host=h"),
        ("", ""),
        ("postgresql://", "postgresql://"),
        ("postgresql://me:secret@h:5432/d", "postgresql://me@h:5432/d"),
        ("postgres://me:secret@/d", "postgres://me@/d"),
        ("postgresql://me:se%40cret@h1:1,[::1]:2/d?sslmode=require", "postgresql://me@h1:1,[::1]:2/d?sslmode=require"),
        ("postgresql://h/d?password=secret&user=u", "postgresql://h/d?user=u"),
        ("postgresql://h/d?pass%77ord=secret", "postgresql://h/d"),
        ("postgresql:///d?host=/run/pg&sslpassword=secret", "postgresql:///d?host=/run/pg"),
    ],
)
def test_a_connection_string_is_shown_without_its_secrets(conninfo, shown):
    """Invariant names_are_data: no message, log or metric carries a password."""
    assert redact_conninfo(conninfo) == shown


@pytest.mark.parametrize(
    "conninfo",
    [
        "secret",
        "host=h password='secret",
        "host=h secret",
        "PostgreSQL://me:secret@h/d?sslmode=require",
        "mysql://me:secret@h/d?x=y",
        "postgresql://me:sec/ret@h/d",
        "postgresql://me:sec?ret@h/d",
        "postgresql://me:sec@ret@h/d",
        "postgresql://me:secret",
        "postgresql://[::1/secret",
        "postgresql://h/d?secret",
    ],
)
def test_a_connection_string_that_libpq_cannot_read_is_not_shown(conninfo):
    assert redact_conninfo(conninfo) == UNREADABLE_CONNINFO
