"""``pytest --subscriber-target URL``, in a pytest of its own."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from subscriber.targets import open_target

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest with the plugin, wherever this package is installed or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    url = f"sqlite:///{pytester.path / 't.db'}"

    def checks(*arguments: str) -> pytest.RunResult:
        options = "-p", "subscriber.testing.pytest_plugin", "--subscriber-target", url, "--subscriber-quick"
        result: pytest.RunResult = pytester.runpytest_subprocess(*options, *arguments)
        return result

    return checks


def test_each_check_of_the_kit_is_a_test(run, pytester):
    pytester.makepyfile("def test_of_the_package(): pass")
    result = run("-v", "-k", "(values and int) or of_the_package or savepoint or undone")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        [
            "*::test_of_the_package PASSED*",
            "*values: smallint PASSED*",
            "*values: integer[[]] PASSED*",
            "*transactions: a part is undone PASSED*",
            "*= conformance =*",
            " values * smallint * holds *",
            "6 hold, 0 refused, 0 failed",
        ]
    )


def test_a_check_that_fails_is_a_failed_test_and_one_that_is_refused_is_skipped(run, pytester):
    pytester.makeconftest(
        """
        from subscriber.base.errors import NotSupportedError, TargetError
        from subscriber.testing import conformance_kit as kit

        def refused(target):
            raise NotSupportedError("it has no such tables")

        def failed(target):
            raise TargetError("a statement failed")

        kit._QUICK = (kit.Check("values", "one", refused), kit.Check("values", "two", failed))
        """
    )
    result = run("-rs")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["TargetError: a statement failed", "0 hold, 1 refused, 1 failed", "SKIPPED*refused: it has no such tables*"],
        consecutive=False,
    )


def test_a_database_that_is_in_use_ends_the_run(run, pytester):
    with open_target(f"sqlite:///{pytester.path / 't.db'}") as target, target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE conformance_t (a INTEGER)")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the target is in use*", "HINT:  Name an empty database."])


def test_without_the_option_nothing_is_added(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_of_the_package(): pass")
    result = pytester.runpytest_subprocess("-p", "subscriber.testing.pytest_plugin")
    result.assert_outcomes(passed=1)


def test_the_package_registers_the_plugin():
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())
    (name,) = project["project"]["entry-points"]["pytest11"].values()
    assert hasattr(import_module(name), "pytest_addoption")
