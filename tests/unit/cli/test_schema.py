"""``subscriber schema`` without a server. With one: tests/conformance/test_schema_step.py."""

from __future__ import annotations

import pytest

from subscriber.catalog.own_tables import CATALOG
from subscriber.targets import open_target
from tests.subscriptions import create_subscription


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'target.db'}"


@pytest.mark.parametrize("arguments", [("diff",), ("apply", "--before")])
def test_a_subscription_that_does_not_exist_is_an_error_and_no_file_is_created(run, url, tmp_path, arguments):
    ended = run("schema", *arguments, "s", "--target", url)
    assert ended.code == 1
    assert 'subscription "s" does not exist' in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apply", "s"), "--before or --after"),
        (("apply", "--before", "--after", "s"), "--before or --after"),
        (("diff", "--ddl", "--json", "s"), "--ddl excludes"),
    ],
)
def test_wrong_usage_is_told(run, url, arguments, message):
    ended = run("schema", *arguments, "--target", url)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_a_publisher_that_does_not_answer_is_an_error_without_its_password(run, url):
    with open_target(url) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
        create_subscription(target, conninfo="host=127.0.0.1 port=1 dbname=x password=hush")
    ended = run("schema", "diff", "s", "--target", url)
    assert ended.code == 1
    assert "ERROR" in ended.err
    assert "hush" not in ended.out + ended.err
