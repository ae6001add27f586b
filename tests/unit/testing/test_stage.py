"""The setups of a run. The servers of a stage: tests/conformance/test_scenario_runs.py."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.stage import NATIVE, Setup, Stage, check_subscriber, is_publisher

URL = "postgresql+psycopg://ann:hush@db1/shop?connect_timeout=3&password=hush"


@pytest.mark.parametrize(
    ("setup", "text"),
    [
        (Setup(), "native, PostgreSQL 18"),
        (Setup("sqlite", 16), "sqlite, PostgreSQL 16"),
        (Setup("duckdb", 18, "emulated"), "duckdb, PostgreSQL 18, emulated publications"),
        (Setup("duckdb", 18, "emulated", 19), "duckdb, PostgreSQL 18, emulated publications, as PostgreSQL 19"),
        (Setup("duckdb", 18, "server", 19), "duckdb, PostgreSQL 18, as PostgreSQL 19"),
        (Setup("native", 18, "server", 19), "native, PostgreSQL 18"),
        (Setup(URL, 18), "postgresql+psycopg://ann:***@db1/shop, PostgreSQL 18"),
    ],
    ids=str,
)
def test_a_setup_is_shown_as_people_read_it(setup, text):
    assert str(setup) == text


def test_no_password_is_in_the_repr_of_a_setup():
    """names_are_data"""
    assert "hush" not in repr(Setup(URL)) + str(Setup(URL))


@pytest.mark.parametrize("subscriber", [NATIVE, "sqlite", "duckdb", "mariadb", "postgresql", URL, "sqlite:///x.db"])
def test_known_subscribers_and_urls_are_accepted(subscriber):
    check_subscriber(subscriber)


def test_an_unknown_subscriber_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r'^unknown subscriber "oracle"$') as raised:
        check_subscriber("oracle")
    for known in ("native", "sqlite", "duckdb", "mariadb", "postgresql"):
        assert known in (raised.value.hint or "")


def test_postgresqls_own_subscriber_cannot_evaluate_publications():
    with pytest.raises(UsageError, match="cannot evaluate publications"):
        check_subscriber(NATIVE, "emulated")
    check_subscriber("sqlite", "emulated")


@pytest.mark.parametrize(
    ("node", "publishes"), [("test_pub", True), ("a_pub2", True), ("test_sub", False), ("pub", False)]
)
def test_a_publisher_is_known_by_its_name(node, publishes):
    assert is_publisher(node) == publishes


def test_a_stage_that_has_opened_nothing_has_nothing_to_remove():
    with Stage() as stage:
        stage.tidy()
