"""Connection strings and errors: PostgreSQL's own words, in our tree, without passwords."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import OperationalError, pq
from psycopg.conninfo import conninfo_to_dict

from subscriber.errors import PublisherNotReady, PublisherUnavailable, SlotInUse, UsageError
from subscriber.publisher.connection import (
    NAP_SECONDS,
    ReplicationConnection,
    check_conninfo,
    connection_refused,
    server_error,
    session_conninfo,
)


def parameters(conninfo: str) -> dict[str, Any]:
    return conninfo_to_dict(session_conninfo(conninfo, "sub"))


def test_the_session_prints_values_in_the_one_form_that_is_read():
    options = parameters("dbname=d")["options"]
    for setting in (
        "datestyle=ISO",
        "intervalstyle=postgres",
        "extra_float_digits=3",
        "timezone=UTC",
        "bytea_output=hex",
    ):
        assert f"-c {setting}" in options
    assert parameters("dbname=d")["client_encoding"] == "UTF8"


def test_the_user_s_own_parameters_stay():
    given = parameters("host=h port=6000 dbname=d user=u password=p connect_timeout=3 options='-c statement_timeout=5'")
    assert (given["host"], given["port"], given["user"], given["password"]) == ("h", "6000", "u", "p")
    assert given["connect_timeout"] == "3"
    assert given["options"].startswith("-c statement_timeout=5 -c datestyle=ISO")


def test_our_session_settings_come_last_and_win():
    """Values in another form would be read wrongly."""
    assert parameters("dbname=d options='-c datestyle=German'")["options"].endswith("bytea_output=hex")
    assert parameters("dbname=d client_encoding=latin1")["client_encoding"] == "UTF8"


@pytest.mark.parametrize("sqlstate", ["22021", "22P05"])
def test_bytes_that_are_no_text_are_not_shown(sqlstate):
    """names_are_data"""
    error = server_error('invalid byte sequence for encoding "UTF8": 0xe4 0x78', sqlstate, detail="0xe4")
    assert error.message == "a text of the publisher cannot be read as UTF8"
    assert "0xe4" not in error.report()


def test_a_uri_is_as_good():
    given = parameters("postgresql://u:p@h:6000/d")
    assert (given["host"], given["dbname"], given["password"]) == ("h", "d", "p")


def test_the_subscription_s_name_is_the_application_s_unless_given():
    assert parameters("dbname=d")["fallback_application_name"] == "sub"
    assert parameters("dbname=d application_name=mine")["application_name"] == "mine"


@pytest.mark.parametrize("bad", ["password=s3cret host", "nonsense=1 password=s3cret", "postgresql://u:s3cret@[::1/d"])
def test_a_string_that_libpq_does_not_read_is_refused_without_repeating_it(bad):
    """Invariant names_are_data: it may hold a password."""
    with pytest.raises(UsageError, match="invalid connection string syntax") as caught:
        session_conninfo(bad, "sub")
    assert "s3cret" not in caught.value.report()
    assert caught.value.sqlstate == "42601"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("test_pub", 'missing "=" after "test_pub" in connection info string'),
        ("dbname=d server=here", 'invalid connection option "server"'),
        ("host='h", "unterminated quoted string in connection info string"),
        ("password=one s3cret", 'missing "=" after "…" in connection info string'),
        ("sslpassword=one s3cret=x", 'invalid connection option "…"'),
        ("oauth_client_secret=one s3cret", 'missing "=" after "…" in connection info string'),
        ("mysql://u:s3cret@h/d", 'missing "=" after "…" in connection info string'),
        ("s3cret@h", 'missing "=" after "…" in connection info string'),
        ("postgresql://u:s3cret%zz@h/d", None),
        ("postgresql://u:s3cret@h/d?s3cret", None),
    ],
)
def test_libpq_s_reason_is_told_as_far_as_it_cannot_hold_a_password(bad, reason):
    """C54: PostgreSQL tells all of it."""
    with pytest.raises(UsageError) as caught:
        check_conninfo(bad)
    assert caught.value.message == "invalid connection string syntax" + (f": {reason}" if reason else "")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("bad", ["u:one@s3cret@h/d", "u:7/s3cret@h/d", "u:one?s3cret@h/d"])
def test_a_password_whose_end_is_ambiguous_is_refused(bad):
    """names_are_data: libpq takes its rest for a host, a port or a database, which its
    errors show.
    """
    with pytest.raises(UsageError, match="invalid connection string syntax") as caught:
        check_conninfo(f"postgresql://{bad}")
    assert "s3cret" not in caught.value.report()
    assert caught.value.hint
    assert check_conninfo("postgresql://u:one%40s3cret@h/d")["password"] == "one@s3cret"


def test_the_kind_of_connection_is_not_the_user_s_to_say():
    """As in PostgreSQL, whose subscriber says it itself; an ordinary connection with it takes no
    ordinary statements.
    """
    assert "replication" not in parameters("dbname=d replication=database")


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


# The stream ---------------------------------------------------------------------------------------


class Libpq:
    """libpq's connection, scripted: what get_copy_data gives, one after the other."""

    def __init__(self, *script: Any, result: Any = None) -> None:
        self.script = list(script)
        self.result = result
        self.consumed = 0
        self.error_message = b"server closed the connection unexpectedly\n"
        self.socket = 0

    def get_copy_data(self, _asynchronous: int) -> tuple[int, bytes]:
        step = self.script.pop(0) if self.script else DRY
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, tuple) else (len(step), step)

    def consume_input(self) -> None:
        self.consumed += 1
        if self.script and isinstance(self.script[0], OperationalError):
            raise self.script.pop(0)

    def get_result(self) -> Any:
        return self.result

    def put_copy_data(self, data: bytes) -> None:
        raise OperationalError("gone")

    def flush(self) -> int:
        return 0


def stream(*script: Any, result: Any = None) -> ReplicationConnection:
    made = ReplicationConnection.__new__(ReplicationConnection)
    made._pg = Libpq(*script, result=result)  # type: ignore[assignment]
    made._failure = None
    return made


DRY = (0, b"")
END = (-1, b"")


def test_what_is_buffered_is_handed_out_together():
    connection = stream(b"one", b"two")
    assert connection.read() == [b"one", b"two"]
    assert connection._pg.consumed == 1  # type: ignore[attr-defined]


def test_no_more_than_a_limit_is_handed_out_at_once():
    """libpq's buffer may have hundreds of megabytes after a large row."""
    row = b"x" * 600_000
    connection = stream(row, row, row)
    assert connection.read() == [row, row]
    assert connection._pg.consumed == 0  # type: ignore[attr-defined]
    assert connection.read() == [row]


def test_what_came_before_the_end_of_the_stream_is_handed_out_first():
    connection = stream(b"one", END)
    assert connection.read() == [b"one"]
    for _ in range(2):
        with pytest.raises(PublisherUnavailable, match="has ended"):
            connection.read()


def test_a_dry_buffer_is_filled_once_before_the_caller_waits():
    assert stream(DRY, b"late").read() == [b"late"]
    connection = stream(DRY, DRY)
    assert connection.read() == []
    assert connection._pg.consumed == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("script", [[OperationalError("x")], [DRY, OperationalError("x")]], ids=["copy", "socket"])
def test_a_lost_connection_is_transient(script):
    with pytest.raises(PublisherUnavailable, match="could not receive data from WAL stream: server closed") as caught:
        stream(*script).read()
    assert caught.value.transient


def test_a_connection_lost_while_sending_is_transient_too():
    with pytest.raises(PublisherUnavailable):
        stream().send(b"r")


@pytest.mark.parametrize("result", [None, SimpleNamespace(status=pq.ExecStatus.COMMAND_OK)])
def test_the_end_of_the_stream_has_postgresql_s_words(result):
    """Rule C36."""
    with pytest.raises(PublisherUnavailable, match=r"^data stream from publisher has ended$"):
        stream(END, result=result).read()


def test_an_error_in_the_stream_is_the_server_s_own():
    fields = {
        pq.DiagnosticField.MESSAGE_PRIMARY: b'publication "p" does not exist',
        pq.DiagnosticField.SQLSTATE: b"42704",
        pq.DiagnosticField.MESSAGE_DETAIL: b"detail",
    }
    result = SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=fields.get)
    with pytest.raises(PublisherNotReady) as caught:
        stream(END, result=result).read()
    error = caught.value
    assert (error.message, error.sqlstate, error.detail) == ('publication "p" does not exist', "42704", "detail")


def test_an_error_without_sqlstate_is_a_lost_connection():
    result = SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=lambda field: None)
    with pytest.raises(PublisherUnavailable, match="server closed the connection unexpectedly"):
        stream(END, result=result).read()


def test_while_much_arrives_waiting_naps_first_so_that_the_socket_fills(monkeypatch):
    naps: list[float] = []
    monkeypatch.setattr("time.sleep", naps.append)
    monkeypatch.setattr("select.select", lambda *arguments: naps.append(arguments[-1]))
    stream().wait(1.0, more=True)
    stream().wait(0.001, more=True)
    assert naps == [NAP_SECONDS, 1.0 - NAP_SECONDS, 0.001, 0.0]


def test_while_little_arrives_a_commit_is_taken_at_once(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("napped"))
    waits: list[float] = []
    monkeypatch.setattr("select.select", lambda *arguments: waits.append(arguments[-1]))
    stream().wait(1.0, more=False)
    assert waits == [1.0]
