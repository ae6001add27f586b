"""Which statements can query the catalogs of subscriptions, and how. What the views answer:
tests/conformance/test_target_node.py.
"""

from __future__ import annotations

import json
import re
from typing import cast

import pytest
import sqlalchemy as sa

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import SUBSCRIPTION_STATS
from subscriber.targets import open_target
from subscriber.testing.nodes.session_catalogs import (
    Facts,
    can_ask,
    describing_query,
    make_views,
    with_temporary_names,
    with_title,
)
from subscriber.testing.session.psql import PsqlSession
from tests.subscriptions import create_subscription


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


def test_19_describes_what_is_new_in_the_order_of_its_psql():
    """The headings that psql 19 printed."""
    assert re.findall(r'AS "([^"]+)"', describing_query(verbose=True, major=19)) == [
        "Name", "Owner", "Enabled", "Publication", "Binary", "Streaming", "Two-phase commit", "Disable on error",
        "Origin", "Password required", "Run as owner?", "Failover", "Server", "Retain dead tuples",
        "Max retention duration", "Retention active", "Synchronous commit", "Conninfo", "Receiver timeout", "Skip LSN",
        "Description",
    ]  # fmt: skip


class Asked:
    """A psql session that only keeps what it is asked."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def ask(self, statement: str) -> list[str]:
        self.statements.append(statement)
        return []


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        (
            "pg_subscription",
            {
                "subserver": 0, "subretaindeadtuples": False, "submaxretention": 0, "subretentionactive": False,
                "subwalrcvtimeout": "-1", "subconninfo": "dbname=test_pub",
            },
        ),
        (
            "pg_stat_subscription_stats",
            {"sync_error_count": 3, "sync_table_error_count": 3, "sync_seq_error_count": 0, "confl_update_deleted": 0},
        ),
    ],
)  # fmt: skip
def test_the_views_have_the_columns_of_19(tmp_path, view, columns):
    """A version takes the columns that it has."""
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        ensure_catalog(target.engine)
        create_subscription(target)
        facts = Facts(
            database=1, owner=10, major=19, version=19, shown_conninfo=lambda _: "dbname=test_pub", received={}, process=1,
            journals=str(tmp_path),
        )  # fmt: skip
        psql = Asked()
        with target.begin() as connection:
            connection.execute(sa.update(SUBSCRIPTION_STATS).values(sync_error_count=3))
            make_views(cast(PsqlSession, psql), connection, [view], facts)
    (statement,) = psql.statements
    (row,) = json.loads(statement[statement.index("'[") + 1 : statement.rindex("]'") + 1])
    assert {name: row[name] for name in columns} == columns


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
