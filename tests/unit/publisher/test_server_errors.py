"""What servers, poolers and libpq say: PostgreSQL's own words in our tree, with what to do next."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable, SlotInUse, SlotLost
from subscriber.publisher.server_errors import CONNECTING, RULES, _rule, connection_refused, server_error

SAID = [
    # lost
    ("42704", 'replication slot "s" does not exist', SlotLost, "RECREATE SLOT"),
    ("55000", 'can no longer access replication slot "s"', SlotLost, "RECREATE SLOT"),
    ("55000", 'can no longer get changes from replication slot "s"', SlotLost, "RECREATE SLOT"),
    ("55000", 'cannot read from logical replication slot "s"', SlotLost, "RECREATE SLOT"),
    ("58P01", "requested WAL segment 000000010000000000000003 has already been removed", SlotLost, "RECREATE SLOT"),
    # a failover, a switchover, a standby
    ("55000", 'replication slot "p" specified in parameter "synchronized_standby_slots" does not have active_pid', PublisherUnavailable, "synchronized_standby_slots"),
    ("55000", 'physical replication slot "p" specified in parameter "synchronized_standby_slots" has been invalidated', PublisherUnavailable, "synchronized_standby_slots"),
    ("22023", 'replication slot "p" specified in parameter "synchronized_standby_slots" does not exist', PublisherUnavailable, "synchronized_standby_slots"),
    ("55000", 'cannot use replication slot "s" for logical decoding', PublisherUnavailable, "target_session_attrs=primary"),
    ("55000", "replication slots cannot be used on RO (Read Only) node", PublisherUnavailable, "target_session_attrs=primary"),
    ("55000", 'logical decoding on standby requires "wal_level" >= "logical" on the primary', PublisherUnavailable, "target_session_attrs=primary"),
    ("55000", "recovery is in progress", PublisherUnavailable, "target_session_attrs=primary"),
    ("0A000", "logical decoding cannot be used while in recovery", PublisherUnavailable, "target_session_attrs=primary"),
    ("25006", "cannot execute CREATE PUBLICATION in a read-only transaction", PublisherUnavailable, "target_session_attrs=primary"),
    # the slot and its settings
    ("55006", 'replication slot "s" is active for PID 7', SlotInUse, "Another receiver"),
    ("53400", "all replication slots are in use", PublisherUnavailable, "max_replication_slots"),
    ("55000", 'logical decoding requires "wal_level" >= "logical"', PublisherNotReady, "ALTER SYSTEM SET wal_level"),
    ("55000", "logical decoding requires wal_level >= logical", PublisherNotReady, "ALTER SYSTEM SET wal_level"),
    ("42704", 'publication "P q" does not exist', PublisherNotReady, 'Create publication "P q" at the publisher'),
    # privileges
    ("42501", "permission denied to use replication slots", PublisherNotReady, "ALTER ROLE"),
    ("42501", "must be superuser or replication role to use replication slots", PublisherNotReady, "ALTER ROLE"),
    ("42501", "permission denied for table Film", PublisherNotReady, 'GRANT SELECT ON TABLE "Film" TO'),
    ("42501", "permission denied for relation film", PublisherNotReady, "GRANT SELECT ON TABLE film TO"),
    ("42501", "permission denied for schema s", PublisherNotReady, "GRANT USAGE ON SCHEMA s TO"),
    ("42501", 'library "pgoutput" may not be used as an output plugin', PublisherNotReady, "output_plugin_libraries = …, 'pgoutput';"),
    # poolers and faults of servers
    ("08P01", "extended query protocol not supported in a replication connection", PublisherUnavailable, "pooler"),
    ("42601", 'syntax error at or near "IDENTIFY_SYSTEM"', PublisherNotReady, "pooler"),
    ("XX000", "invalid memory alloc request size 1073741824", PublisherUnavailable, "newest minor release"),
    ("53100", 'could not extend file "base/5/1": No space left on device', PublisherUnavailable, "free space"),
    # by class
    ("08006", "text", PublisherUnavailable, None),
    ("25P03", "terminating connection due to idle-in-transaction timeout", PublisherUnavailable, None),
    ("40001", "canceling statement due to conflict with recovery", PublisherUnavailable, None),
    ("40P01", "deadlock detected", PublisherUnavailable, None),
    ("53300", "text", PublisherUnavailable, None),
    ("55P03", "could not obtain lock on relation", PublisherUnavailable, None),
    ("57P01", "terminating connection due to administrator command", PublisherUnavailable, None),
    ("57P03", "text", PublisherUnavailable, None),
    ("58P01", "could not open file", PublisherUnavailable, None),
    ("XX000", "text", PublisherUnavailable, None),
    # why a connection failed
    (CONNECTING, "FATAL:  permission denied to start WAL sender", PublisherNotReady, 'ALTER ROLE "u" REPLICATION;'),
    (CONNECTING, "FATAL:  must be superuser or replication role to start walsender", PublisherNotReady, 'ALTER ROLE "u" REPLICATION;'),
    (CONNECTING, 'FATAL:  role "u" is not permitted to log in', PublisherNotReady, 'ALTER ROLE "u" LOGIN;'),
    (CONNECTING, 'FATAL:  permission denied for database "d"', PublisherNotReady, 'GRANT CONNECT ON DATABASE d TO "u"'),
    (CONNECTING, "FATAL:  no pg_hba.conf entry for replication connection", PublisherNotReady, "pg_hba.conf"),
    (CONNECTING, "FATAL:  pg_hba.conf rejects connection for host", PublisherNotReady, "pg_hba.conf"),
    (CONNECTING, 'FATAL:  PAM authentication failed for user "u"', PublisherNotReady, "SUBSCRIBER_PASSWORD_COMMAND"),
    (CONNECTING, 'FATAL:  password authentication failed for user "u"', PublisherNotReady, "password"),
    (CONNECTING, "fe_sendauth: no password supplied", PublisherNotReady, "password"),
    (CONNECTING, "FATAL:  Tenant or user not found", PublisherNotReady, "pooler"),
    (CONNECTING, "FATAL:  unsupported startup parameter: extra_float_digits", PublisherNotReady, "pooler"),
    (CONNECTING, 'FATAL:  database "d" does not exist', PublisherNotReady, "dbname"),
    (CONNECTING, 'FATAL:  role "u" does not exist', PublisherNotReady, "create the role"),
    (CONNECTING, 'definition of service "x" not found', PublisherNotReady, "PGSERVICEFILE"),
    (CONNECTING, "SSL error: certificate verify failed", PublisherNotReady, "sslrootcert"),
    (CONNECTING, 'server certificate for "a" does not match host name "b"', PublisherNotReady, "names another host"),
    (CONNECTING, 'root certificate file "/x/root.crt" does not exist', PublisherNotReady, "sslrootcert"),
    (CONNECTING, 'private key file "/x/key" has group or world access', PublisherNotReady, "chmod 600"),
    (CONNECTING, "SSL error: tlsv1 alert unknown ca", PublisherNotReady, "sslcert"),
    (CONNECTING, "server does not support SSL, but SSL was required", PublisherNotReady, "sslmode"),
    (CONNECTING, "server is in hot standby mode", PublisherUnavailable, "target_session_attrs"),
    (CONNECTING, "session is read-only", PublisherUnavailable, "target_session_attrs"),
    (CONNECTING, "FATAL:  number of requested standby connections exceeds max_wal_senders (currently 1)", PublisherUnavailable, "max_wal_senders"),
    (CONNECTING, 'FATAL:  number of requested standby connections exceeds "max_wal_senders" (currently 1)', PublisherUnavailable, "max_wal_senders"),
    (CONNECTING, "FATAL:  sorry, too many clients already", PublisherUnavailable, "max_connections"),
    (CONNECTING, "FATAL:  the database system is starting up", PublisherUnavailable, "starts, stops or recovers"),
    (CONNECTING, "Connection refused", PublisherUnavailable, "host and port"),
    (CONNECTING, "timeout expired", PublisherUnavailable, "host and port"),
    (CONNECTING, "something that no rule knows", PublisherUnavailable, "CONNECTION"),
    # the rest
    ("22023", "text", PublisherNotReady, None),
    ("55000", "text", PublisherNotReady, None),
]  # fmt: skip


@pytest.mark.parametrize(("sqlstate", "message", "kind", "hint"), SAID)
def test_sqlstate_and_message_decide_what_failed_and_what_to_do(sqlstate, message, kind, hint):
    error = connection_refused(message, "u") if sqlstate == CONNECTING else server_error(message, sqlstate)
    assert type(error) is kind
    assert error.stops == (kind is SlotLost)
    if hint is None:
        assert error.hint is None
    else:
        assert hint in str(error.hint)
        assert "{" not in str(error.hint)


def test_every_rule_is_the_first_that_fits_something_a_server_says():
    assert {id(_rule(sqlstate, message)) for sqlstate, message, _, _ in SAID} == set(map(id, RULES))


@pytest.mark.parametrize("sqlstate", ["22021", "22P05"])
def test_bytes_that_are_no_text_are_not_shown(sqlstate):
    """names_are_data"""
    error = server_error('invalid byte sequence for encoding "UTF8": 0xe4 0x78', sqlstate, detail="0xe4")
    assert error.message == "a text of the publisher cannot be read as UTF8"
    assert "0xe4" not in error.report()


def test_the_server_s_own_words_are_kept():
    error = server_error("permission denied for table t", "42501", detail="d", hint="the server's own")
    assert (error.message, error.sqlstate, error.detail, error.hint) == (
        "permission denied for table t",
        "42501",
        "d",
        "the server's own",
    )


def test_a_hint_of_the_server_without_a_statement_is_replaced():
    told = 'If it is safe …, add it to "output_plugin_libraries" and reload the server configuration.'
    error = server_error('library "pgoutput" may not be used as an output plugin', "42501", hint=told)
    assert "ALTER SYSTEM SET output_plugin_libraries" in str(error.hint)


def test_a_refused_connection_keeps_libpq_s_reason():
    error = connection_refused("Connection refused")
    assert (error.refused, error.message) == (
        "Connection refused",
        "could not connect to the publisher: Connection refused",
    )


def test_of_several_hosts_the_reason_that_needs_an_action_counts():
    reason = 'connection to "a" failed: Connection refused\nconnection to "b" failed: FATAL:  password authentication failed for user "u"'
    assert "password" in str(connection_refused(reason).hint)


def test_a_role_that_is_not_known_is_named_by_its_place():
    assert "the user of the subscription's CONNECTION" in str(
        connection_refused("permission denied to start WAL sender").hint
    )
