from __future__ import annotations

import subprocess
import sys

import pytest

import subscriber


@pytest.mark.parametrize("name", subscriber.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(subscriber, name) is not None


def test_public_names_are_sorted():
    assert sorted(subscriber.__all__) == subscriber.__all__


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'emulte'"):
        subscriber.emulte  # noqa: B018


def _imported_by(code: str) -> set[str]:
    """The modules that a new Python process has imported after running the code."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_help_does_not_import_spark():
    code = "from subscriber.cli import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass"
    assert "pyspark" not in _imported_by(code)


def test_a_walreceiver_does_not_import_the_modules_of_commands_and_pipeline():
    """Each subscription has a walreceiver, which is a separate process and is often started
    again.
    """
    found = _imported_by("import subscriber.runtime.receiver_process")
    assert "psycopg" in found
    assert not found & {"duckdb", "pandas", "pyspark", "sqlalchemy", "sqlglot", "subscriber.filters"}
