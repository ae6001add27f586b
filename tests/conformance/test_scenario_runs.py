"""``subscriber scenario`` as a user runs it: what makes a run fail, what is printed, and that
nothing is left behind.
"""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from subscriber.base.errors import ScenarioError, UsageError
from subscriber.cli.scenario import command
from subscriber.testing.library import read_scenario
from subscriber.testing.run_session import Runner
from subscriber.testing.stage import NATIVE, Setup, Stage
from tests.spark_functions import unused_functions

pytestmark = pytest.mark.server

SESSION = """-- Rows arrive
test_pub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_pub=# CREATE PUBLICATION p FOR TABLE t;
CREATE PUBLICATION
test_sub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_sub=# CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=test_pub' PUBLICATION p WITH (copy_data = false);
NOTICE:  created replication slot "s" on publisher
CREATE SUBSCRIPTION
test_pub=# INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, NULL);
INSERT 0 3
test_sub=# SELECT * FROM t ORDER BY a;
 a |  b
---+-----
 1 | one
 2 | two
 3 |
(3 rows)

test_sub=# SELECT b FROM t;
  b
-----
 two
 one

(3 rows)

test_sub=# SELECT c FROM t;
ERROR:  column "c" does not exist
LINE 1: SELECT c FROM t;
               ^
"""


@pytest.fixture
def shared_stage(scenario_stage, monkeypatch):
    """The module's servers; without them the command would start other servers."""

    class Shared:
        def __enter__(self):
            return scenario_stage

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("subscriber.cli.scenario.Stage", Shared)
    return scenario_stage


@pytest.fixture(scope="module")
def scenario_stage():
    with Stage() as stage:
        yield stage


@pytest.fixture
def run(shared_stage, tmp_path):
    def run(text=SESSION, *options, verb="run", name="001_rows"):
        file = tmp_path / f"{name}.psql"
        file.write_text(text)
        native = ["--subscriber", "native"] if verb == "run" else []
        return CliRunner().invoke(command, [verb, str(file), *native, *options])

    return run


def test_a_session_that_is_as_expected_passes(run):
    answer = run()
    assert answer.exit_code == 0, answer.output
    assert answer.output.splitlines()[-1] == "1 passed, 0 failed"


@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        pytest.param(" 2 | two\n", " 2 | too\n", id="another value"),
        pytest.param(" 2 | two\n", "", id="a row that is missing in the file"),
        pytest.param(" 3 |\n", " 3 |\n 4 |\n", id="a row that is missing in the table"),
        pytest.param(" 1 | one\n 2 | two\n", " 2 | two\n 1 | one\n", id="another order under ORDER BY"),
        pytest.param('column "c"', 'column "d"', id="another error text"),
        pytest.param("INSERT 0 3", "INSERT 0 2", id="another command tag"),
        pytest.param("(3 rows)\n\ntest_sub=# SELECT b", "(2 rows)\n\ntest_sub=# SELECT b", id="another count"),
        pytest.param(" a |  b\n", " a |  c\n", id="another heading"),
    ],
)
def test_what_is_printed_otherwise_fails_the_run(run, expected, wrong):
    assert expected in SESSION
    answer = run(SESSION.replace(expected, wrong, 1))
    assert answer.exit_code == 1
    assert answer.output.splitlines()[-1] == "0 passed, 1 failed"
    assert re.search(r"^ +line \d+, test_(pub|sub): ", answer.output, re.MULTILINE)


def test_without_order_by_rows_may_come_in_any_order(run):
    """SESSION lists row two before row one; notices and error positions are not compared."""
    text = re.sub(r"^(NOTICE|LINE 1).*\n", "", SESSION, flags=re.MULTILINE)
    assert run(text.replace("               ^\n", "")).exit_code == 0


def test_json_has_each_failing_statement_with_expected_and_actual(run):
    answer = run(SESSION.replace(" 2 | two\n", " 2 | too\n"), "--json")
    assert answer.exit_code == 1
    (one,) = json.loads(answer.output)
    assert (one["scenario"], one["subscriber"], one["postgresql"], one["verdict"]) == ("001_rows", NATIVE, 18, "failed")
    (failure,) = one["failures"]
    assert (failure["line"], failure["node"]) == (13, "test_sub")
    assert " 2 | too" in failure["expected"]
    assert " 2 | two" in failure["actual"]


def test_a_publication_s_command_that_a_subscriber_takes_otherwise_than_the_server_fails_its_statement(
    shared_stage, tmp_path, monkeypatch
):
    """A subscriber has no roles, so it refuses what the server does."""
    monkeypatch.setattr(Stage, "_functions", unused_functions())  # nothing is replicated
    file = tmp_path / "001_owner.psql"
    file.write_text(
        "-- t\ntest_pub=# CREATE PUBLICATION p;\nCREATE PUBLICATION\n"
        "test_pub=# ALTER PUBLICATION p OWNER TO CURRENT_USER;\nALTER PUBLICATION\n"
        "test_sub=# SELECT 1 AS a;\n a\n---\n 1\n(1 row)\n"
    )
    arguments = ["run", str(file), "--publications", "emulated"]
    answer = CliRunner().invoke(command, [*arguments, "--json"])
    assert answer.exit_code == 1, answer.output
    (one,) = json.loads(answer.output)
    assert (one["publications"], one["verdict"]) == ("emulated", "failed")
    (failure,) = one["failures"]
    assert (failure["line"], failure["difference"], failure["error"]) == (4, [], None)
    assert failure["disagreement"][0].startswith(
        'node "test_sub" was given the same command and refused it: ERROR:  0A000'
    )
    assert failure["disagreement"][-1] == "the server accepted it"
    assert "      the server accepted it\n" in CliRunner().invoke(command, arguments).output


def test_recording_writes_what_postgresql_prints(run, tmp_path):
    bare = "".join(f"{line}\n" for line in SESSION.splitlines() if line.startswith(("-- ", "test_")))
    answer = run(bare, verb="record")
    assert answer.exit_code == 0, answer.output
    file = tmp_path / "001_rows.psql"
    assert " 2 | two\n" in file.read_text()
    assert run(file.read_text()).exit_code == 0
    assert "no changes" in run(file.read_text(), verb="record").output


def test_a_statement_that_hangs_is_ended_and_the_file_is_left_as_it_is(run, tmp_path):
    text = "-- t\ntest_pub=# SELECT pg_sleep(60);\n"
    answer = run(text, "--timeout", "0.5")
    assert answer.exit_code == 1
    assert "did not end within 0.5 s" in answer.output
    answer = run(text, "--timeout", "0.5", verb="record")
    assert answer.exit_code == 1
    assert "was not changed" in answer.output
    assert (tmp_path / "001_rows.psql").read_text() == text


def test_subscriptions_that_do_not_settle_are_told_with_their_state(run):
    """The subscriber waits for a lock that the session's second connection holds."""
    text = (
        SESSION.split("test_sub=# SELECT b", maxsplit=1)[0]
        + "test_sub/2=# BEGIN;\nBEGIN\ntest_sub/2=*# LOCK TABLE t;\nLOCK TABLE\n"
        + "test_pub=# INSERT INTO t VALUES (4);\nINSERT 0 1\ntest_sub=# SELECT 1 FROM t;\n"
    )
    answer = run(text, "--timeout", "2")
    assert answer.exit_code == 1
    assert 'the subscriptions of node "test_sub" did not settle within 2 s' in answer.output
    assert 'subscription "s": enabled' in answer.output


def test_nothing_is_left_behind_by_a_session_that_leaves_everything(shared_stage, tmp_path):
    file = tmp_path / "left.psql"
    file.write_text(
        SESSION.split("test_sub=# SELECT b", maxsplit=1)[0]
        + "test_pub=# CREATE ROLE left_behind; ALTER SYSTEM SET work_mem = '3MB'; SELECT pg_reload_conf();\n"
        + "test_pub=# SELECT pg_replication_origin_create('left');\n"
        + "test_pub=# BEGIN; INSERT INTO t VALUES (9); PREPARE TRANSACTION 'left';\n"
        + "test_pub=# SELECT pg_create_logical_replication_slot('left', 'pgoutput') IS NULL;\n"
        + "test_pub/2=# BEGIN; LOCK TABLE t;\n"
    )
    shared_stage.tidy()
    # The last command waits for the prepared transaction until the session's timeout.
    result = Runner(shared_stage, 5.0).run(read_scenario(file), Setup(NATIVE, 18))
    assert not result.leftover
    for query in (
        "SELECT datname FROM pg_database WHERE datname LIKE 'test%'",
        "SELECT slot_name FROM pg_replication_slots",
        "SELECT gid FROM pg_prepared_xacts",
        "SELECT subname FROM pg_subscription",
        "SELECT rolname FROM pg_roles WHERE rolname = 'left_behind'",
        "SELECT roname FROM pg_replication_origin",
        "SELECT name FROM pg_settings WHERE name = 'work_mem' AND setting = '3072'",
    ):
        for server in shared_stage.servers(18):
            assert server.execute(query) == [], query


def test_a_template_is_a_scenario_that_passes(run, shared_stage, tmp_path):
    answer = CliRunner().invoke(command, ["new", "120_mine", "--folder", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert run((tmp_path / "120_mine.psql").read_text()).exit_code == 0


def test_a_template_overwrites_nothing(tmp_path):
    (tmp_path / "mine.psql").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        CliRunner().invoke(command, ["new", "mine", "--folder", str(tmp_path)], catch_exceptions=False)
    assert (tmp_path / "mine.psql").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "nowhere.psql"], "nowhere.psql: no such file or folder"),
        (["run", ".", "--subscriber", "oracle"], 'unknown subscriber "oracle"'),
        (["run", ".", "--subscriber", "native", "--publications", "emulated"], "cannot evaluate publications"),
        (["new", "../up"], "is not a valid name for a scenario"),
    ],
)
def test_a_mistake_in_the_arguments_is_said(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    with pytest.raises(UsageError, match=re.escape(complaint)):
        CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_a_file_that_is_no_session_is_refused_with_its_line(tmp_path):
    file = tmp_path / "001_rows.psql"
    file.write_text("-- t\noutput before any prompt\n")
    with pytest.raises(ScenarioError) as refused:
        CliRunner().invoke(command, ["run", str(file)], catch_exceptions=False)
    assert str(refused.value.context).endswith("001_rows.psql:2")
