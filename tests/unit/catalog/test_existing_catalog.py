"""A look at a target creates neither a file nor a catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetUnavailable, UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.existing_catalog import existing_catalog, existing_subscription, missing_catalog
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.targets import Target, open_target


@pytest.fixture
def empty(tmp_path) -> Iterator[Target]:
    with open_target(f"sqlite:///{tmp_path / 'empty.db'}") as opened:
        yield opened


def test_a_target_without_a_file_has_no_catalog_and_gets_no_file(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'new.db'}") as target, existing_catalog(target) as connection:
        assert connection is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with (
        open_target(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}") as target,
        pytest.raises(TargetUnavailable, match="is not available"),
    ):
        existing_subscription(target, "s")


def test_a_database_without_a_catalog_does_not_get_one(empty):
    with empty.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (a INT)")
    with existing_catalog(empty) as connection:
        assert connection is None
    with empty.engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["mine"]


def test_a_catalog_can_be_read(target):
    with existing_catalog(target) as connection:
        assert connection is not None
        assert list_subscriptions(connection) == []


def test_a_subscription_that_does_not_exist_is_an_error_whether_there_is_a_catalog_or_not(empty):
    hints = []
    for _ in range(2):
        with pytest.raises(UsageError, match='subscription "s" does not exist') as raised:
            existing_subscription(empty, "s")
        assert raised.value.sqlstate == "42704"
        hints.append(raised.value.hint)
        ensure_catalog(empty.engine)
    assert hints == [
        f"There is no file {empty.file}. Is the target URL correct?",
        "`subscriber status` lists the subscriptions of a target.",
    ]


def test_a_database_without_a_catalog_is_named_without_its_password():
    with open_target("mysql+pymysql://u:s3cret@h/d?charset=utf8mb4") as target:
        assert missing_catalog(target) == "mysql+pymysql://u:***@h/d has no subscriptions"


def test_a_catalog_of_an_earlier_version_gets_what_is_new(target):
    with target.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE subscriber_subscription DROP COLUMN subunrepresentable")
        connection.exec_driver_sql("DROP TABLE subscriber_cutover")
    with existing_catalog(target) as connection:
        assert connection is not None
        assert list_subscriptions(connection) == []
        assert sa.inspect(connection).has_table("subscriber_cutover")
