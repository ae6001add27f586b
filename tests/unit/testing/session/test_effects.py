"""What a statement does to a session: whether subscriptions settle before it, after it, or not at
all.
"""

from __future__ import annotations

import pytest

from subscriber.testing.session.psql_input import (
    Effect,
    effect_of,
    may_change_publications,
    may_commit,
    publication_command,
    reads_publications,
    replace_conninfo,
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "-- a comment\nselect 1",
        "INSERT INTO t VALUES (1)",
        "TRUNCATE t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "(SELECT 1)",
        "CREATE TABLE t (a int); TABLE t",
    ],
)
def test_what_reads_or_writes_rows_waits_for_the_subscriptions(text):
    assert effect_of(text) is Effect.ROWS


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
        "alter subscription s disable",
        "SET a = 1; ALTER SUBSCRIPTION s ENABLE",
    ],
)
def test_a_subscription_that_is_made_or_altered_is_waited_for(text):
    assert effect_of(text) is Effect.SUBSCRIPTION


@pytest.mark.parametrize(
    "text", ["DROP SUBSCRIPTION s", "CREATE TABLE select_me (a int)", "ALTER TABLE t ADD b int", r"\d t", ""]
)
def test_definitions_wait_for_nothing(text):
    assert effect_of(text) is Effect.OTHER


@pytest.mark.parametrize("text", ["SELECT 1; ALTER SUBSCRIPTION s ENABLE;", r"SELECT command FROM t \gexec"])
def test_what_does_both_or_may_do_both_waits_before_and_after(text):
    assert effect_of(text) is Effect.ROWS | Effect.SUBSCRIPTION


def test_only_the_string_after_connection_is_replaced():
    text = "CREATE SUBSCRIPTION connection\n CONNECTION 'dbname=a ''b''' -- CONNECTION 'c'\n PUBLICATION p;"
    replaced = replace_conninfo(text, lambda given: f"{given} port='1'")
    assert replaced == text.replace("'dbname=a ''b'''", "'dbname=a ''b'' port=''1'''")


def test_a_connection_of_no_subscription_is_left_alone():
    assert replace_conninfo("SELECT connection 'dbname=a'", str.upper) == "SELECT connection 'dbname=a'"


def test_a_text_that_does_not_parse_is_the_server_s_to_refuse():
    assert (
        replace_conninfo("ALTER SUBSCRIPTION s CONNECTION 'open", str.upper) == "ALTER SUBSCRIPTION s CONNECTION 'open"
    )


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("-- new\nCREATE PUBLICATION p FOR TABLE t;", "CREATE PUBLICATION p FOR TABLE t;"),
        ("drop publication p", "drop publication p"),
        ("CREATE PUBLICATION p; CREATE PUBLICATION q;", None),
        ("CREATE TABLE publication (a int);", None),
        (r"\dRp", None),
        ("DROP PUBLICATION 'open", None),
    ],
)
def test_a_command_that_stands_alone_is_given_to_the_subscribers_too(text, command):
    assert publication_command(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "ALTER PUBLICATION p DROP TABLE t",
        "SELECT 1; DROP TABLE t;",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "DO $$ BEGIN EXECUTE 'DROP PUBLICATION p'; END $$",
        r"SELECT command FROM t \gexec",
    ],
)
def test_what_becomes_of_tables_may_change_publications_too(text):
    assert may_change_publications(text)


@pytest.mark.parametrize("text", ["CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", r"\d t", "COMMIT"])
def test_new_tables_and_rows_change_no_publication(text):
    assert not may_change_publications(text)


@pytest.mark.parametrize(("text", "commits"), [("COMMIT", True), ("SELECT 1; end;", True), ("ROLLBACK", False)])
def test_a_transaction_s_changes_can_be_applied_from_its_commit_on(text, commits):
    assert may_commit(text) is commits


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT tablename FROM pg_publication_tables", True),
        ("TABLE pg_catalog.pg_publication", True),
        ("SELECT * FROM pg_get_publication_tables('p')", True),
        ("SELECT * FROM pg_get_publication_sequences('p')", True),
        ("SELECT 'pg_publication'", False),
        ("INSERT INTO t SELECT pubname FROM pg_publication", False),
    ],
)
def test_a_query_that_shows_publications_is_told_from_one_that_changes_rows(text, reads):
    assert reads_publications(text) is reads
