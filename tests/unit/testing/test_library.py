"""Scenario files are found and read."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ScenarioError, UsageError
from subscriber.testing.library import find_scenarios, read_scenario
from tests.sessions import SESSION


@pytest.fixture
def library(tmp_path):
    """A folder with three scenarios, one of them in a folder of its own."""
    for name in ("b.psql", "a.psql", "deeper/c.psql", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SESSION)
    return tmp_path


def test_the_files_of_a_folder_are_sorted(library):
    assert [file.name for file in find_scenarios([library])] == ["a.psql", "b.psql", "c.psql"]


def test_each_file_is_found_once_in_the_order_of_the_paths(library):
    found = find_scenarios([library / "b.psql", library, library / "a.psql"])
    assert [file.name for file in found] == ["b.psql", "a.psql", "c.psql"]


def test_a_file_may_have_any_name(library):
    assert find_scenarios([library / "README.md"]) == [library / "README.md"]


def test_no_path_is_no_file():
    assert find_scenarios([]) == []


def test_a_path_that_does_not_exist_is_named(library):
    with pytest.raises(UsageError, match="absent: no such file or folder"):
        find_scenarios([library, library / "absent"])


def test_a_folder_without_scenarios_is_an_error(library):
    (library / "empty").mkdir()
    with pytest.raises(UsageError, match="empty: there is no scenario in this folder"):
        find_scenarios([library / "empty"])


def test_a_scenario_has_the_name_of_its_file(library):
    scenario = read_scenario(library / "a.psql")
    assert (scenario.name, len(scenario.statements)) == ("a", 5)


def test_an_error_is_placed_in_the_file(library):
    (library / "a.psql").write_text("-- Title\ntest_pub=# SELECT 1;\n 1\ntest_pub=# SELECT 'open\n")
    with pytest.raises(ScenarioError) as raised:
        read_scenario(library / "a.psql")
    assert raised.value.context == f"{library / 'a.psql'}:4"


def test_a_file_that_is_not_utf8_is_an_error(library):
    (library / "a.psql").write_bytes(b"-- \xff\n")
    with pytest.raises(ScenarioError, match="invalid byte sequence") as raised:
        read_scenario(library / "a.psql")
    assert raised.value.context == f"{library / 'a.psql'}:1"
