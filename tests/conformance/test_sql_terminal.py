"""``subscriber sql`` beside psql: results, lists of subscriptions, and a prompt on a real
terminal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.cli.backslash import run_backslash
from subscriber.targets import open_target
from subscriber.targets.query_result import value_text
from subscriber.testing.session.psql_table import format_result

PATIENCE = 20.0


def real_psql(database, typed: str) -> str:
    """The output of psql, in the session settings of a target."""
    answer = subprocess.run(
        [database.server.psql, "-X", "-P", "pager=off", "-d", database.conninfo, "-c", typed],
        capture_output=True,
        env={**os.environ, "PGCLIENTENCODING": "UTF8", "LC_ALL": "C", "PGTZ": "UTC"},
        check=True,
    )
    return answer.stdout.decode()


@pytest.fixture
def target(publisher_database):
    with open_target(publisher_database.url) as opened:
        yield opened


# Results ------------------------------------------------------------------------------------------


@pytest.mark.psql
@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1::int2 AS a, -2::int8 AS b, 'x'::name AS c, 1.50::numeric AS d, 'NaN'::float4 AS e, 1e15::float8 AS f",
        "SELECT true AS t, false AS f, NULL::bool AS n, '' AS empty, NULL AS null",
        "SELECT E'two\nlines' AS \"a\nb\", '漢字' AS wide, E'tab\tand\rreturn' AS control, 7 AS n UNION ALL SELECT 'x', 'é', '', NULL",
        "SELECT 'infinity'::timestamptz, '2026-01-02 03:04:05.5+00'::timestamptz, '-infinity'::date, '1 day -2 hours'::interval",
        r"SELECT '\x00ff'::bytea AS b, '{\"a\": [1, null]}'::jsonb AS j, ARRAY['a,b', NULL] AS a, ROW(1, 'x') AS r, '1'::oid AS o",
        "SELECT 'a%s' AS percent, 'ab' LIKE 'a%' AS matches",
        "SELECT 1 AS a WHERE false",
        "SELECT",
    ],
)
def test_a_result_of_a_postgresql_target_is_printed_as_psql_prints_it(target, publisher_database, query):
    query = query.replace(r"\"", '"')
    assert format_result(target.query(query)) + "\n\n" == real_psql(publisher_database, query)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([1e23, 5e-324, 2.0**-1074 * 3, 9007199254740993.0])
@given(st.lists(st.floats() | st.floats(1e13, 1e17) | st.floats(1e-6, 1e-3), min_size=1, max_size=30))
def test_a_drivers_float_reads_as_float8out_writes_it(publisher_database, numbers):
    array = ", ".join(f"'{number!r}'" for number in numbers)
    rows = publisher_database.execute(
        f"SELECT n::float8::text FROM unnest(ARRAY[{array}]) WITH ORDINALITY u(n, i) ORDER BY i"
    )
    assert [value_text(number) for number in numbers] == [text for (text,) in rows]


@pytest.mark.psql
def test_the_list_of_subscriptions_is_psqls_without_owners(tmp_path, publisher_database):
    options = "connect = false, slot_name = NONE, enabled = false, create_slot = false, binary = true, origin = 'none'"
    publisher_database.execute(
        f'CREATE SUBSCRIPTION one CONNECTION \'dbname=d host=h\' PUBLICATION p, "a b", "q""uote" WITH ({options})'
    )
    try:
        with open_target(f"sqlite:///{tmp_path}/target.db") as sqlite:
            ensure_catalog(sqlite.engine)
            given = SubscriptionOptions(slot_name=None, enabled=False, binary=True, origin="none")
            with sqlite.begin() as connection:
                insert_subscription(connection, "one", "dbname=d host=h", ["p", "a b", 'q"uote'], given)
            for command in (r"\dRs", r"\dRs+"):
                theirs = without_owner(real_psql(publisher_database, command))
                assert cells(run_backslash(command, sqlite)) == cells(theirs)
            ours = run_backslash(r"\dRs", sqlite) + "\n"
            title = real_psql(publisher_database, r"\dRs").splitlines()[0].strip()
            assert ours.splitlines()[0].strip() == title
            assert ours.endswith("\n(1 row)\n\n")
    finally:
        publisher_database.execute("DROP SUBSCRIPTION one")


def cells(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in printed.splitlines() if "|" in line]


def without_owner(printed: str) -> str:
    return "\n".join(
        "|".join(part for i, part in enumerate(line.split("|")) if i != 1) for line in printed.splitlines()
    )


# The prompt ---------------------------------------------------------------------------------------


class Terminal:
    """``subscriber sql`` on a separate terminal, and its output."""

    def __init__(self, url: str, home: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        environment = {
            **os.environ,
            "SUBSCRIBER_TARGET": url,
            "HOME": home,
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        environment.pop("XDG_STATE_HOME", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from subscriber.cli import main; main()", "sql"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - the child has one thread, and must have this terminal for Control-C
            start_new_session=True,
        )
        os.close(slave)
        self._unread = ""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def expect(self, text: str) -> str:
        """Wait for ``text``; returns the output up to its end, without the terminal's escape
        sequences.
        """
        deadline = time.monotonic() + PATIENCE
        while text not in self._unread:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited for {text!r} after: {self._unread!r}"
            try:
                written = os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                written = ""  # the terminal's other end is closed
            assert written, f"it ended before {text!r}, after: {self._unread!r}"
            self._unread += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", written).replace("\r", "")
        before, _, self._unread = self._unread.partition(text)
        return before + text

    def ends(self, keys: str) -> int:
        """The exit code after ``keys``, which are typed repeatedly, because keys before a new
        prompt belong to the old one.
        """
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.type(keys)
            self._read_on()
        return self.process.wait(1)

    def _read_on(self) -> None:
        """Read the output for a second, so that the program does not wait for its terminal."""
        until = time.monotonic() + 1
        while self.process.poll() is None and time.monotonic() < until:
            if select.select([self._master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    os.read(self._master, 65536)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._master)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


UP, INTERRUPT, END = "\x1b[A", "\x03", "\x04"


def test_a_conversation_on_a_real_terminal(publisher_database, tmp_path):
    """names_are_data: a command with a password works, and the history has it without the
    password.
    """
    name = publisher_database.name
    with contextlib.closing(Terminal(publisher_database.url, str(tmp_path))) as terminal:
        terminal.expect('Type "help" for help.')
        terminal.expect(f"{name}=>")

        terminal.type("SELECT 1 AS one,\r")
        terminal.expect(f"{name}->")
        terminal.type("'a\r")
        terminal.expect(f"{name}'>")
        terminal.type("b' AS two; SELECT 3 AS three;\r")
        assert " one | two \n-----+-----\n   1 | a  +\n     | b\n(1 row)\n\n" in terminal.expect("(1 row)\n\n")
        assert " three \n-------\n     3\n(1 row)\n\n" in terminal.expect("(1 row)\n\n")
        terminal.expect(f"{name}=>")

        terminal.type("SELECT * FROM nowhere;\r")
        terminal.expect("ERROR:  ")
        terminal.expect(f"{name}=>")

        terminal.type("SELECT 'half" + INTERRUPT)
        terminal.expect(f"{name}=>")

        terminal.type("SELECT pg_sleep(600);\r")
        deadline = time.monotonic() + PATIENCE
        while not publisher_database.execute("SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'"):
            assert time.monotonic() < deadline
        terminal.type(INTERRUPT)
        terminal.expect("ERROR:  canceling statement due to user request")
        terminal.expect(f"{name}=>")
        while publisher_database.execute(
            "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND state = 'active'"
        ):
            assert time.monotonic() < deadline

        terminal.type("CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere password=hush'\r")
        terminal.expect(f"{name}->")
        terminal.type("PUBLICATION p;\r")
        terminal.expect("ERROR:  ")
        terminal.expect(f"{name}=>")
        terminal.type(UP)
        terminal.expect("PUBLICATION p;")
        terminal.type(INTERRUPT)
        terminal.expect(f"{name}=>")

        assert terminal.ends("\\q\r") == 0
    history = tmp_path / ".local" / "state" / "subscriber" / "sql_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "+CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere'\n+PUBLICATION p;\n" in history.read_text()
    assert "hush" not in history.read_text()

    with contextlib.closing(Terminal(publisher_database.url, str(tmp_path))) as terminal:
        terminal.expect(f"{name}=>")
        time.sleep(0.5)  # the history is read in the background
        terminal.type(UP)
        terminal.expect("\\q")
        terminal.type(INTERRUPT)
        terminal.expect(f"{name}=>")
        assert terminal.ends(END) == 0
