"""Columns with transforms against a real publisher: the copy, the stream, histories, copies that
replace rows, emulated publications, the comparison and the check.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.errors import SubscriberError
from tests.conformance.test_unrepresentable_values import execute, once
from tests.crash.harness import Runner
from tests.subscribing import Session
from tests.target_databases import opened
from tests.verifying import counts, subscribe, verify

pytestmark = [pytest.mark.server, pytest.mark.slow]

SECRET = "0123456789abcdef0123456789abcdef"
MASKS = """
import pyarrow.compute as pc

def domain(values):
    return pc.replace_substring_regex(values, "^.*@", "")

domain.injective = False
"""
TRANSFORM = (
    "public.users.email = sha256, public.users.phone = partial(2, 2), public.users.born = null,"
    " public.users.city = constant(''somewhere''), public.users.note = some_masks:domain,"
    " public.accounts.email = sha256, public.bag.b = partial(1, 0), public.log.email = sha256"
)
TABLES = (
    "CREATE TABLE users (id int PRIMARY KEY, email text NOT NULL UNIQUE, phone varchar(20), born date NOT NULL, city text,"
    " note text NOT NULL DEFAULT 'a@b');"
    "ALTER TABLE users ALTER note SET STORAGE EXTERNAL;"
    "CREATE TABLE accounts (email text PRIMARY KEY REFERENCES users (email) ON UPDATE CASCADE, v int);"
    "CREATE TABLE bag (a int, b text); ALTER TABLE bag REPLICA IDENTITY FULL;"
    "CREATE TABLE log (id int PRIMARY KEY, email text);"
    "INSERT INTO users VALUES (1, 'ann@x.org', '0123456789', '2000-01-01', 'Rome', 'me@here'),"
    " (2, 'bob@y.org', NULL, '2001-01-01', NULL, 'you@there');"
    "INSERT INTO accounts VALUES ('ann@x.org', 1), ('bob@y.org', 2);"
    "INSERT INTO bag VALUES (1, 'abc'), (1, 'axy'), (2, NULL); INSERT INTO log VALUES (1, 'ann@x.org');"
    "CREATE PUBLICATION p FOR TABLE users, accounts, bag, log"
)
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n)"
USERS = "SELECT id, email, phone, born, city, note FROM users ORDER BY id"
ACCOUNTS = "SELECT email, v FROM accounts ORDER BY v"
BAG = "SELECT a, b FROM bag ORDER BY a, b"
LOG = "SELECT id, email, _op FROM log ORDER BY _lsn, _sequence, id"
CLEAR = ("ann@x.org", "bob@y.org", "eve@z.org", "0123456789", "Rome", "me@here")


def digest(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()


ANN, BOB, EVE = map(digest, ("ann@x.org", "bob@y.org", "eve@z.org"))


@pytest.fixture
def variables(tmp_path) -> dict[str, str]:
    (tmp_path / "some_masks.py").write_text(MASKS)
    (tmp_path / "secret").write_text(SECRET + "\n")
    return {
        "SUBSCRIBER_TRANSFORM_SECRET_FILE": str(tmp_path / "secret"),
        "SUBSCRIBER_FUNCTION_MODULES": "some_masks",
        "PYTHONPATH": str(tmp_path),
    }


@pytest.fixture(params=["sqlite", "postgresql"])
def runner(request, publisher_database, tmp_path, variables, monkeypatch) -> Iterator[Runner]:
    # Commands run in this process.
    monkeypatch.syspath_prepend(tmp_path)
    publisher_database.execute(TABLES)
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'target.sqlite'}"
        if request.param == "postgresql":
            target = stack.enter_context(opened("postgresql", request, tmp_path))
            url = target.engine.url.render_as_string(hide_password=False)
        runner = Runner(url, tmp_path, variables)
        stack.callback(runner.close)
        yield runner


@pytest.mark.spark
def test_copy_stream_and_history_have_the_values_of_the_target(runner, publisher_database, tmp_path):
    told = runner.call(
        "sql",
        "-c",
        f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
        f" WITH (slot_name = {publisher_database.name}, create_tables = true, history_tables = 'public.log = append',"
        f" transform = '{TRANSFORM}')",
    )
    assert told.returncode == 0, told.stderr
    assert 'table "public.accounts": its key has other values: email (sha256)' in told.stderr
    once(runner)
    copied = [
        (1, ANN, "01******89", None, "somewhere", "here"),
        (2, BOB, None, None, "somewhere", "there"),
    ]
    assert execute(runner.target, USERS) == copied
    assert execute(runner.target, ACCOUNTS) == [(ANN, 1), (BOB, 2)]
    assert sorted(execute(runner.target, "SELECT a, b FROM bag WHERE b IS NOT NULL")) == [(1, "a**"), (1, "a**")]
    assert execute(runner.target, LOG) == [(1, ANN, "insert")]

    publisher_database.execute(f"UPDATE users SET note = 'x@' || {LARGE} WHERE id = 1")
    once(runner)
    ((large,),) = execute(runner.target, "SELECT note FROM users WHERE id = 1")
    publisher_database.execute(
        "UPDATE users SET phone = '9876', born = '1999-09-09' WHERE id = 1;"  # its large note is not sent
        "UPDATE users SET email = 'eve@z.org' WHERE id = 2;"  # and the key of its account
        "UPDATE accounts SET v = 5 WHERE email = 'ann@x.org'; DELETE FROM accounts WHERE email = 'eve@z.org';"
        "DELETE FROM bag WHERE b = 'axy'; UPDATE bag SET b = 'new' WHERE b IS NULL;"
        "INSERT INTO users VALUES (3, 'new@w.org', '12', '2002-01-01', 'Oslo', 'c@d');"
        "UPDATE log SET email = 'eve@z.org'; DELETE FROM log"
    )
    once(runner)
    assert execute(runner.target, USERS) == [
        (1, ANN, "****", None, "somewhere", large),
        (2, EVE, None, None, "somewhere", "there"),
        (3, digest("new@w.org"), "**", None, "somewhere", "d"),
    ]
    assert large and "@" not in large
    assert execute(runner.target, ACCOUNTS) == [(ANN, 5)]
    assert execute(runner.target, BAG) == [(1, "a**"), (2, "n**")]
    changes = [(1, ANN, "insert"), (1, EVE, "update_postimage"), (1, None, "delete")]
    assert execute(runner.target, LOG) == changes

    # Other transforms: refused while changes would look for other values, and then copied again.
    other = "ALTER SUBSCRIPTION s SET (transform = '{}')".format(TRANSFORM.replace("partial(2, 2)", "null"))
    refused = runner.call("sql", "-c", other)
    assert refused.returncode == 1
    assert 'cannot set option "transform" for enabled subscription' in refused.stderr
    runner.sql("ALTER SUBSCRIPTION s DISABLE")
    told = runner.call("sql", "-c", other)
    assert "REFRESH TABLE public.users;" in told.stderr
    runner.sql("ALTER SUBSCRIPTION s REFRESH TABLE public.users")
    runner.sql("ALTER SUBSCRIPTION s ENABLE")
    once(runner)
    assert execute(runner.target, "SELECT id, phone, city FROM users ORDER BY id") == [
        (1, None, "somewhere"),
        (2, None, "somewhere"),
        (3, None, "somewhere"),
    ]

    # Another secret would give other hashes of the same values.
    (tmp_path / "secret").write_text("another secret, which is long enough")
    publisher_database.execute("INSERT INTO accounts VALUES ('eve@z.org', 9)")
    assert runner.once().returncode == 1
    assert execute(runner.target, ACCOUNTS) == [(ANN, 5)]
    (tmp_path / "secret").write_text(SECRET)
    once(runner)
    assert execute(runner.target, ACCOUNTS) == [(ANN, 5), (EVE, 9)]

    said = runner.log.read_text() if runner.log.exists() else ""
    shown = said + json.dumps(runner.status())
    assert not [text for text in (*CLEAR, SECRET) if text in shown]


@pytest.mark.spark
@pytest.mark.parametrize("runner", ["sqlite"], indirect=True)
def test_a_column_that_is_renamed_at_the_publisher_does_not_arrive_as_it_is(runner, publisher_database):
    runner.sql(
        f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
        f" WITH (slot_name = {publisher_database.name}, create_tables = true, transform = 'public.log.email = sha256')"
    )
    once(runner)
    execute(runner.target, "ALTER TABLE log ADD COLUMN mail text")
    publisher_database.execute("ALTER TABLE log RENAME email TO mail; INSERT INTO log VALUES (2, 'bob@y.org')")
    answer = runner.once()
    assert answer.returncode == 1
    assert 'does not send column "email" of table "public.log"' in answer.stderr
    assert execute(runner.target, "SELECT id, email, mail FROM log") == [(1, ANN, None)]


@pytest.mark.spark
@pytest.mark.parametrize("runner", ["sqlite"], indirect=True)
def test_the_filter_of_an_emulated_publication_sees_the_publisher_s_values(runner, publisher_database):
    publisher_database.execute("CREATE PUBLICATION all_rows FOR ALL TABLES; ALTER TABLE log REPLICA IDENTITY FULL")
    runner.environment["SUBSCRIBER_PUBLISHER"] = publisher_database.conninfo
    runner.sql("CREATE PUBLICATION f FOR TABLE log WHERE (email LIKE '%@x.org')")
    runner.sql(
        f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION f WITH (create_tables = true,"
        f" slot_name = {publisher_database.name}, carrier = 'all_rows', transform = 'public.log.email = sha256')"
    )
    once(runner)
    publisher_database.execute(
        "INSERT INTO log VALUES (2, 'bob@y.org'), (3, 'carl@x.org'), (4, 'dora@y.org');"
        "UPDATE log SET email = 'bob@x.org' WHERE id = 2; UPDATE log SET email = 'carl@y.org' WHERE id = 3"
    )
    once(runner)
    assert execute(runner.target, "SELECT id, email FROM log ORDER BY id") == [(1, ANN), (2, digest("bob@x.org"))]


# Comparison ---------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql", "duckdb", "mariadb"])
def session(request, publisher_database, tmp_path, variables, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("SUBSCRIBER_TRANSFORM_SECRET_FILE", "SUBSCRIBER_FUNCTION_MODULES"):
        monkeypatch.setenv(name, variables[name])
    publisher_database.execute(TABLES)
    with opened(request.param, request, tmp_path) as target:
        yield Session(target, publisher_database, str(tmp_path / "journal"))


def test_verify_compares_and_repairs_with_the_transformed_values(session):
    subscribe(session, options=f", transform = '{TRANSFORM}'")
    filled = verify(session, repair=True)
    assert [one.error for one in filled.tables] == [None] * 4
    assert session.rows(ACCOUNTS) == [(ANN, 1), (BOB, 2)]
    assert session.rows("SELECT id, email, phone, city, note FROM users ORDER BY id") == [
        (1, ANN, "01******89", "somewhere", "here"),
        (2, BOB, None, "somewhere", "there"),
    ]
    same = verify(session)
    assert [counts(one) for one in same.tables] == [(0, 0, 0)] * 4
    accounts = next(one for one in same.tables if one.table == "public.accounts")
    assert "compared as the target is to have them, after the transform: email (sha256)" in accounts.notes

    session.execute(
        "UPDATE users SET phone = '0123456789' WHERE id = 1",
        f"DELETE FROM accounts WHERE email = '{BOB}'",
        "UPDATE bag SET b = 'abc' WHERE a = 2",
    )
    found = {one.table.removeprefix("public."): counts(one) for one in verify(session).tables}
    assert found == {"users": (1, 0, 0), "accounts": (0, 1, 0), "bag": (0, 1, 1), "log": (0, 0, 0)}
    verify(session, repair=True)
    assert [counts(one) for one in verify(session).tables] == [(0, 0, 0)] * 4


# Check --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["sqlite"], indirect=True)
def test_check_says_which_keys_lose_their_meaning_and_what_is_refused(runner, publisher_database):
    def check(transform: str) -> dict[tuple[str, str], str]:
        answer = runner.call(
            "check",
            publisher_database.conninfo,
            "p",
            "--with",
            f"create_tables = true, transform = '{transform}'",
            "--json",
        )
        return {
            (one["severity"], one["object"]): one["message"]
            for one in json.loads(answer.stdout)
            if one["severity"] != "INFO" and one["area"] == "target" and one["object"] not in ("disk space", "journal")
        }

    assert check("public.users.email = sha256, public.accounts.email = sha256") == {
        ("WARN", "public.accounts"): "its key has other values: email (sha256)"
    }
    assert check("public.users.email = sha256") == {
        ("WARN", "public.accounts"): "its column email does not refer to public.users (email) any more"
    }
    assert check("public.users.email = partial(1, 1)")["WARN", "public.users"] == (
        "the unique key (email) does not tell rows apart: email (partial(1, 1))"
    )
    assert "because rows are found by it" in check("public.accounts.email = null")["FAIL", "public.accounts"]
    assert "matches no table" in check("public.user.email = null")["FAIL", "transform"]


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("postgresql", "public.users.email = sha256", "it is declared character varying(20), which does not hold"),
        ("postgresql", "public.users.id = sha256", "it is declared integer, and the values are text"),
        ("postgresql", "public.users.born = null", "it does not allow NULL in the target"),
        ("mariadb", "public.users.email = sha256", "which does not hold the value"),
        ("mariadb", "public.users.id = sha256", "the values are text"),
        ("duckdb", "public.users.id = sha256", "the values are text"),
    ],
)
def test_a_column_of_the_target_that_does_not_hold_the_values_is_refused(
    request, publisher_database, tmp_path, variables, monkeypatch, kind, text, reason
):
    for name in ("SUBSCRIBER_TRANSFORM_SECRET_FILE", "SUBSCRIBER_FUNCTION_MODULES"):
        monkeypatch.setenv(name, variables[name])
    publisher_database.execute(TABLES)
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher_database, str(Path(tmp_path, "journal")))
        session.execute("CREATE TABLE users (id int PRIMARY KEY, email varchar(20), born date NOT NULL)")
        for table in ("accounts", "bag", "log"):
            session.execute(f"CREATE TABLE {table} (a int)")
        with pytest.raises(SubscriberError) as caught:
            subscribe(session, options=f", transform = '{text}'")
        assert reason in caught.value.message
