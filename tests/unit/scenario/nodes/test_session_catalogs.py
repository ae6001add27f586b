"""Which statements can query the catalogs of subscriptions, and how. What the views answer:
tests/conformance/test_target_node.py.
"""

from __future__ import annotations

import re

import pytest

from subscriber.scenario.nodes.session_catalogs import can_ask, describing_query, with_temporary_names, with_title


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM pg_subscription",
        "WITH s AS (SELECT 1) SELECT * FROM pg_subscription",
        "TABLE pg_subscription",
        "INSERT INTO t SELECT subname FROM pg_subscription",
        "DO $$ BEGIN PERFORM subname FROM pg_subscription; END $$",
        "SELECT 'pg_subscription'",
    ],
)
def test_a_statement_that_reads_or_writes_rows_can_ask(text):
    assert can_ask(text.split()[0].lower(), text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS SELECT * FROM pg_subscription",
        "PREPARE p AS SELECT * FROM pg_subscription",
        "DECLARE c CURSOR FOR SELECT * FROM pg_subscription",
    ],
)
def test_an_object_that_would_exist_longer_than_the_views_cannot_ask(text):
    assert not can_ask(text.split()[0].lower(), text)


@pytest.mark.parametrize(
    "text",
    [
        "DO $$ BEGIN PERFORM 1 FROM pg_catalog.pg_subscription; END $$",
        """DO $$ BEGIN PERFORM 1 FROM "pg_catalog" . "pg_subscription"; END $$""",
        "DO 'BEGIN PERFORM PG_STAT_RESET_SUBSCRIPTION_STATS(NULL); END'",
    ],
)
def test_a_qualified_name_inside_of_a_string_cannot_be_replaced(text):
    assert not can_ask("do", text)


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT * FROM pg_subscription", "SELECT * FROM pg_subscription"),
        ("SELECT * FROM pg_catalog.pg_subscription s", "SELECT * FROM pg_temp.pg_subscription s"),
        ('SELECT * FROM "pg_catalog" . pg_subscription', "SELECT * FROM pg_temp . pg_subscription"),
        ("SELECT * FROM PG_CATALOG.PG_SUBSCRIPTION", "SELECT * FROM pg_temp.PG_SUBSCRIPTION"),
        ("SELECT * FROM mine.pg_subscription", "SELECT * FROM mine.pg_subscription"),
        ("SELECT * FROM pg_catalog.pg_class", "SELECT * FROM pg_catalog.pg_class"),
        ("SELECT 'pg_catalog.pg_subscription'", "SELECT 'pg_catalog.pg_subscription'"),
        ("SELECT 1 -- pg_catalog.pg_subscription", "SELECT 1 -- pg_catalog.pg_subscription"),
        ("SELECT pg_stat_reset_subscription_stats(1)", "SELECT pg_temp.pg_stat_reset_subscription_stats(1)"),
        (
            "SELECT pg_catalog.pg_stat_reset_subscription_stats(oid) FROM pg_catalog.pg_subscription",
            "SELECT pg_temp.pg_stat_reset_subscription_stats(oid) FROM pg_temp.pg_subscription",
        ),
    ],
)
def test_a_statement_uses_the_temporary_views(text, rewritten):
    assert with_temporary_names(text) == rewritten


@pytest.mark.parametrize(
    ("major", "absent"),
    [(15, {"Origin", "Password required", "Run as owner?", "Failover"}), (16, {"Failover"}), (17, set())],
)
def test_a_version_describes_only_what_it_has(major, absent):
    """The columns of describeSubscriptions in psql/describe.c."""
    headings = set(re.findall(r'AS "([^"]+)"', describing_query(verbose=True, major=major)))
    assert {"Origin", "Password required", "Run as owner?", "Failover"} - headings == absent
    assert {"Name", "Owner", "Enabled", "Publication", "Binary", "Streaming", "Skip LSN"} <= headings


def test_the_short_description_has_four_columns():
    assert re.findall(r'AS "([^"]+)"', describing_query(verbose=False, major=18)) == [
        "Name",
        "Owner",
        "Enabled",
        "Publication",
    ]


def test_a_title_is_centred_above_its_table():
    table = " a  | b \n----+---\n(0 rows)\n"
    assert with_title("List", table) == f"  List\n{table}"
