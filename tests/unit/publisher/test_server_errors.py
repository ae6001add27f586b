"""The publisher's errors: PostgreSQL's own words in our tree, with what to do next."""

from __future__ import annotations

import pytest

from subscriber.errors import PublisherNotReady, PublisherUnavailable, SlotInUse
from subscriber.publisher.server_errors import connection_refused, server_error


@pytest.mark.parametrize("sqlstate", ["22021", "22P05"])
def test_bytes_that_are_no_text_are_not_shown(sqlstate):
    """names_are_data"""
    error = server_error('invalid byte sequence for encoding "UTF8": 0xe4 0x78', sqlstate, detail="0xe4")
    assert error.message == "a text of the publisher cannot be read as UTF8"
    assert "0xe4" not in error.report()


@pytest.mark.parametrize(
    ("sqlstate", "kind", "transient"),
    [
        ("55006", SlotInUse, True),
        ("57P01", PublisherUnavailable, True),
        ("57P03", PublisherUnavailable, True),
        ("53300", PublisherUnavailable, True),
        ("08006", PublisherUnavailable, True),
        ("XX000", PublisherUnavailable, True),
        ("58P01", PublisherUnavailable, True),
        ("42704", PublisherNotReady, False),
        ("55000", PublisherNotReady, False),
        ("42501", PublisherNotReady, False),
        ("22023", PublisherNotReady, False),
    ],
)
def test_the_server_s_sqlstate_decides_whether_trying_again_may_help(sqlstate, kind, transient):
    error = server_error("text", sqlstate, detail="d", hint="h")
    assert (type(error), error.transient, error.sqlstate) == (kind, transient, sqlstate)
    assert (error.message, error.detail, error.hint) == ("text", "d", "h")


def test_a_slot_in_use_gets_a_next_step():
    assert "Another receiver" in str(server_error("active", "55006").hint)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ('FATAL:  password authentication failed for user "u"', PublisherNotReady),
        ('FATAL:  database "d" does not exist', PublisherNotReady),
        ('FATAL:  role "u" does not exist', PublisherNotReady),
        ("FATAL:  no pg_hba.conf entry for replication connection", PublisherNotReady),
        ("fe_sendauth: no password supplied", PublisherNotReady),
        ('definition of service "x" not found', PublisherNotReady),
        ("Connection refused", PublisherUnavailable),
        ("timeout expired", PublisherUnavailable),
        ("FATAL:  the database system is starting up", PublisherUnavailable),
        ("FATAL:  sorry, too many clients already", PublisherUnavailable),
    ],
)
def test_a_connection_that_fails_is_transient_unless_somebody_must_act_first(reason, kind):
    error = connection_refused(reason)
    assert type(error) is kind
    assert error.refused == reason
    assert error.message == f"could not connect to the publisher: {reason}"
    assert error.hint


@pytest.mark.parametrize(
    ("reason", "kind", "hint"),
    [
        ("FATAL:  permission denied to start WAL sender", PublisherNotReady, 'ALTER ROLE "u" REPLICATION;'),
        ("FATAL:  must be superuser or replication role to start walsender", PublisherNotReady, 'ALTER ROLE "u" REPLICATION;'),
        ('FATAL:  role "u" is not permitted to log in', PublisherNotReady, 'ALTER ROLE "u" LOGIN;'),
        ('FATAL:  permission denied for database "d"', PublisherNotReady, 'GRANT CONNECT ON DATABASE … TO "u"'),
        ("FATAL:  number of requested standby connections exceeds max_wal_senders (currently 1)", PublisherUnavailable, "max_wal_senders"),
        ('FATAL:  number of requested standby connections exceeds "max_wal_senders" (currently 1)', PublisherUnavailable, "max_wal_senders"),
    ],
)  # fmt: skip
def test_a_refused_connection_is_told_what_to_run_at_the_publisher(reason, kind, hint):
    error = connection_refused(reason, "u")
    assert type(error) is kind
    assert hint in str(error.hint)
    assert "host" not in str(error.hint)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("permission denied to use replication slots", "ALTER ROLE"),
        ("must be superuser or replication role to use replication slots", "ALTER ROLE"),
        ("permission denied for table film", "GRANT SELECT ON TABLE"),
        ("permission denied for relation film", "GRANT SELECT ON TABLE"),
        ("permission denied for schema s", "GRANT USAGE ON SCHEMA"),
    ],
)
def test_a_privilege_that_is_missing_is_told_with_who_can_give_it(message, hint):
    error = server_error(message, "42501")
    assert hint in str(error.hint)
    assert server_error(message, "42501", hint="the server's own").hint == "the server's own"
