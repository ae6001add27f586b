"""Connection strings of the publisher: the settings of the session, and no password in an error."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable, UsageError
from subscriber.publisher.conninfo import (
    check_conninfo,
    check_session,
    hosts_of,
    replication_conninfo,
    session_conninfo,
)

REPORTED = {"DateStyle": "ISO, DMY", "IntervalStyle": "postgres", "TimeZone": "UTC", "client_encoding": "UTF8"}


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


def test_a_replication_connection_has_no_search_path():
    given = conninfo_to_dict(replication_conninfo("dbname=d options='-c search_path=mine'", "sub"))
    assert given["replication"] == "database"
    options = str(given["options"])
    assert options.startswith("-c search_path=mine -c datestyle=ISO")
    assert options.endswith("-c search_path=")


def test_the_password_command_is_asked_for_each_connection(tmp_path, monkeypatch):
    """So that a new password takes effect at the next one."""
    file = tmp_path / "password"
    monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", f"cat {file}")
    for password in ("first", "second"):
        file.write_text(f"{password}\n")
        assert parameters("host=h dbname=d user=u")["password"] == password
        assert conninfo_to_dict(replication_conninfo("dbname=d", "sub"))["password"] == password


def test_the_password_command_gets_the_server_as_variables_of_libpq(monkeypatch):
    monkeypatch.setenv(
        "SUBSCRIBER_PASSWORD_COMMAND", 'echo "$PGHOST $PGHOSTADDR $PGPORT $PGUSER $PGDATABASE $PGSERVICE"'
    )
    given = "host='$(touch here)' hostaddr=127.0.0.2 port=6000 user=u dbname=d service=x"
    assert parameters(given)["password"] == "$(touch here) 127.0.0.2 6000 u d x"
    assert parameters("postgresql://u@a:1,b:2/d")["password"] == "a,b  1,2 u d "


@pytest.mark.parametrize("own", ["password=mine", "passfile=/mine", "postgresql://u:mine@h/d"])
def test_a_connection_string_that_says_its_password_does_not_run_the_command(own, tmp_path, monkeypatch):
    """It belongs to this server, and the command to all servers."""
    monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", f"touch {tmp_path}/ran; echo other")
    given = parameters(own)
    assert "mine" in (given.get("password") or given["passfile"])
    assert "other" not in given.values()
    assert not (tmp_path / "ran").exists()


def test_a_connection_string_is_checked_without_running_the_password_command(monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", "exit 1")
    check_conninfo("host=h")
    with pytest.raises(PublisherUnavailable):
        session_conninfo("host=h", "sub")


def test_a_session_with_the_settings_that_were_asked_for_is_accepted():
    check_session(REPORTED.get)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DateStyle", "German, DMY"),
        ("DateStyle", "SQL, ISO"),
        ("IntervalStyle", "iso_8601"),
        ("TimeZone", "Europe/Zurich"),
        ("client_encoding", "LATIN1"),
        ("TimeZone", None),
    ],
)
def test_a_session_with_other_settings_is_refused(name, value, monkeypatch):
    """Whatever stands before the server: values in another form would be read wrongly."""
    monkeypatch.delenv("PGTZ", raising=False)
    monkeypatch.delenv("PGDATESTYLE", raising=False)
    with pytest.raises(PublisherNotReady, match=f'the session has {name} "{value or ""}", although') as caught:
        check_session((REPORTED | {name: value}).get)
    assert "pooler" in str(caught.value.hint)
    assert "ignore_startup_parameters" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("conninfo", "places"),
    [
        ("host=a,b port=1,2 dbname=d", {"a:1": "1", "b:2": "2"}),
        ("host=a,b port=1", {"a:1": "1", "b:1": "1"}),
        ("host=a,b", {"a:5432": None, "b:5432": None}),
        ("postgresql://u@a:1,b:2/d?target_session_attrs=primary", {"a:1": "1", "b:2": "2"}),
        ("hostaddr=127.0.0.1,127.0.0.2 port=,7", {"127.0.0.1:5432": None, "127.0.0.2:7": "7"}),
        ("dbname=d", {"localhost:5432": None}),
    ],
)
def test_each_host_of_a_connection_string_gets_one_of_its_own(conninfo, places):
    found = hosts_of(conninfo)
    assert {place: conninfo_to_dict(one).get("port") or None for place, one in found.items()} == places
    assert not any("target_session_attrs" in one or "," in one for one in found.values())
