"""A target as a whole. Its roles are tested one by one in the dialects' folders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.errors import AlreadyRunning, TargetError
from subscriber.targets import open_target
from tests.unit.targets.tables import execute, rows


def test_a_query_is_answered_as_text(target):
    execute(target, "CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, NULL)")
    result = target.query("SELECT a, b FROM t")
    assert (result.names, result.rows) == (("a", "b"), [("1", None)])


def test_a_percent_sign_of_a_query_is_no_parameter(target):
    """names_are_data"""
    assert target.query("SELECT 'x' LIKE '%', '%s', ':a', '100%%'").rows == [("1", "%s", ":a", "100%%")]


def test_the_changes_of_a_query_are_rolled_back(target):
    execute(target, "CREATE TABLE t (a)")
    target.query("INSERT INTO t VALUES (1) RETURNING a")
    assert rows(target, "SELECT * FROM t") == []


def test_an_error_of_a_query_is_translated(target):
    with pytest.raises(TargetError, match="no such table: missing"):
        target.query("SELECT * FROM missing")


def test_an_error_of_a_block_is_translated(target):
    with pytest.raises(TargetError, match="no such table"), target.reporting(), target.engine.connect() as connection:
        connection.exec_driver_sql("SELECT * FROM missing")


def test_one_runner_holds_the_run_lock_if_there_is_one(target):
    with target.running(), open_target(target.url) as other:
        with pytest.raises(AlreadyRunning), other.running():
            pass
        without = replace(other, run_lock=None)
        with without.running(), without.running():
            pass


def test_a_target_is_closed_with_its_block(target):
    with target as opened:
        opened.query("SELECT 1")
        assert opened.engine.pool.checkedin() == 1
    assert target.engine.pool.checkedin() == 0
