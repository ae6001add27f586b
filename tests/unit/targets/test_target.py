"""A target as a whole. Its roles are tested one by one in the dialects' folders."""

from __future__ import annotations

import os
import sqlite3
import threading
from dataclasses import replace

import pytest

from subscriber.base.errors import AlreadyRunning, TargetError
from subscriber.targets import open_target
from subscriber.targets.capabilities import Limits, read_version
from subscriber.targets.database_files import hint_at, obstacle
from subscriber.targets.target import TableRoles, Target
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


# Limits of tables: what exceeds them is said, and names are shortened.


FEW = Limits(columns=3, keys=2, key_columns=2, name_length=20, last_character="\uffff", final_blank=False)
BYTES = Limits(name_length=20, name_in_bytes=True)


@pytest.mark.parametrize(
    ("columns", "keys", "said"),
    [
        (3, (("a", "b"), ("c",)), []),
        (4, (), ["it has 4 columns, and 3 are possible"]),
        (1, (("a",), ("b",), ("c",)), ["it has 3 keys, and 2 are possible"]),
        (1, (("a", "b", "c"),), ["its key (a, b, c) has 3 columns, and 2 are possible"]),
    ],
)
def test_each_limit_that_is_exceeded_is_said(columns, keys, said):
    assert list(FEW.obstacles(columns=columns, keys=keys)) == said
    assert list(Limits().obstacles(columns=columns, keys=keys)) == []


@pytest.mark.parametrize(
    ("limits", "name", "said"),
    [
        (FEW, "ö" * 20, None),
        (FEW, "ö" * 21, f'the name "{"ö" * 21}" has 21 characters, and 20 are possible'),
        (BYTES, "ö" * 10, None),
        (BYTES, "ö" * 11, f'the name "{"ö" * 11}" has 22 bytes, and 20 are possible'),
        (FEW, "a😀", 'the name "a😀" has a character beyond U+FFFF'),
        (FEW, "a ", 'the name "a " ends with a blank'),
        (Limits(), "😀 " * 99, None),
    ],
)
def test_a_name_that_is_not_taken_is_said_with_the_reason(limits, name, said):
    assert limits.obstacle_of_name(name) == said


@pytest.mark.parametrize("limits", [FEW, BYTES])
def test_a_long_name_becomes_another_one_that_is_taken(limits):
    assert limits.shortened("short") == "short"
    first, second = limits.shortened("ö" * 30 + "1"), limits.shortened("ö" * 30 + "2")
    assert first != second
    assert first.startswith("ööö")
    assert limits.obstacle_of_name(first) is None
    assert first == limits.shortened("ö" * 30 + "1")


# The version of a database of which only SQLAlchemy's dialect is known.


def test_the_version_is_that_of_the_dialect(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target, target.engine.connect() as connection:
        facts = read_version(connection)
        assert facts.version == ".".join(map(str, sqlite3.sqlite_version_info))
        assert facts.largest_value is None
        connection.dialect.server_version_info = None
        assert read_version(connection).version is None


def test_duckdb_has_its_own_version(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 't.duckdb'}") as target, target.engine.connect() as connection:
        version = target.read_facts(connection).version
        assert version is not None
        assert version != "8.0"
        assert version[0].isdigit()


# The roles that read and write tables; tests of a role stand in the folder of its dialect.


NAMES = ("shapes", "values", "matching", "writing", "loading", "reader", "ddl", "sequences", "row_versions", "objects")


@pytest.fixture
def created() -> list[TableRoles]:
    return []


@pytest.fixture
def counted(target, created) -> Target:
    """A target that counts how often its roles are created."""

    def open_table_roles() -> TableRoles:
        roles = TableRoles(**{name: object() for name in NAMES})  # type: ignore[arg-type]
        created.append(roles)
        return roles

    counting: Target = replace(target, open_table_roles=open_table_roles)
    return counting


def test_the_first_use_of_a_role_creates_all_roles_once(counted, created):
    assert created == []
    assert counted.shapes is counted.shapes
    assert counted.bulk is None
    assert [roles.shapes for roles in created] == [counted.shapes]


def test_a_target_has_no_attribute_of_another_name(counted, created):
    with pytest.raises(AttributeError, match="'shape'"):
        counted.shape  # noqa: B018
    assert created == []


def test_all_threads_get_the_same_roles(counted, created):
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(counted.shapes)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == len(created) == 1


def test_a_role_that_was_set_stays(counted, monkeypatch):
    monkeypatch.setitem(vars(counted), "shapes", "mine")
    assert counted.bulk is None
    assert counted.shapes == "mine"


def test_a_target_has_its_roles(target):
    roles = target.open_table_roles()
    for name, role in vars(roles).items():
        assert type(getattr(target, name)) is type(role)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_takes_other_roles(target, name):
    roles = replace(target.open_table_roles(), **{name: "mine"})
    assert getattr(replace(target, open_table_roles=lambda: roles), name) == "mine"


# Why a target's file cannot be opened.


def test_a_file_that_can_be_created_or_written_has_no_obstacle(tmp_path):
    assert obstacle(str(tmp_path / "t.db")) is None
    (tmp_path / "t.db").touch()
    assert obstacle(str(tmp_path / "t.db")) is None


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("missing/t.db", "There is no folder {}/missing."),
        ("file/t.db", "{}/file is not a folder."),
        ("folder", "{}/folder is a folder; a file is needed."),
    ],
)
def test_what_is_at_the_path_may_be_the_obstacle(tmp_path, path, sentence):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert obstacle(str(tmp_path / path)) == sentence.format(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write every file")
@pytest.mark.parametrize(
    ("place", "words"), [("t.db", "may not be read and written"), ("", "may make no files in the folder")]
)
def test_a_missing_permission_may_be_the_obstacle(tmp_path, place, words):
    (tmp_path / "t.db").touch()
    denied = tmp_path / place
    denied.chmod(0o400 if place else 0o500)
    found = obstacle(str(tmp_path / "t.db"))
    denied.chmod(0o700)
    assert words in str(found)


def test_a_hint_says_how_a_path_is_written_in_the_url():
    assert hint_at("There is no folder /x.", "sqlite") == (
        "There is no folder /x. Correct that, or the target URL: sqlite:////absolute/path or sqlite:///relative/path."
    )
