from __future__ import annotations

import logging
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from subscriber.base.errors import TargetUnavailable, UsageError
from subscriber.targets import dialects, open_target
from subscriber.targets.generic.target import GenericTarget


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("sqlite:///{}/t.db", "SQLite"),
        ("duckdb:///{}/t.duckdb", "DuckDB"),
        ("mysql://user@host/db", "MariaDB"),
        ("mariadb+pymysql://user@host/db", "MariaDB"),
        ("postgresql+psycopg://user@host/db", "PostgreSQL"),
        ("postgresql://user@host/db", "PostgreSQL"),
    ],
)
def test_the_urls_dialect_chooses_the_target(url, database, tmp_path):
    assert open_target(url.format(tmp_path)).capabilities.database == database


def test_a_dialect_that_nobody_asks_for_is_not_imported(tmp_path):
    """Its driver need not be installed."""
    program = f"""
import sys
from subscriber.targets import open_target
open_target("sqlite:///{tmp_path / "t.db"}")
print(*(name for name in ("duckdb", "pymysql", "psycopg") if name in sys.modules))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "\n"


def test_another_dialect_is_opened_with_a_warning(caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(dialects, "DIALECTS", {})
    caplog.set_level(logging.WARNING)
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        assert target.errors.database == "sqlite"
    assert "sqlite is not a tested target" in caplog.text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("no url, secret", "the target URL is not a SQLAlchemy URL"),
        ("postgresql://user:secret@host:port/db", "the target URL is not a SQLAlchemy URL"),
        ("nonsense://user:secret@host/db", 'unknown database "nonsense"'),
        ("oracle+oracledb://user:secret@host/db", r'driver of "oracle\+oracledb" is not installed'),
        ("sqlite://", "an in-memory SQLite database cannot be a target"),
        ("sqlite:///:memory:", "an in-memory SQLite database cannot be a target"),
        ("sqlite:///file:x?mode=memory&uri=true", "an in-memory SQLite database cannot be a target"),
        ("postgresql://user:one@secret@host/db", "ambiguous where the password of the target URL ends"),
        ("postgresql://user:secret@host/db?nonsense=1", 'invalid connection option "nonsense"'),
        ("postgresql://user:secret@host/db?connect_timeout=soon", "bad value for connect_timeout"),
        ("mariadb://user:secret@host/db?nonsense=1", 'unknown option "nonsense"'),
        ("sqlite:///t.db?nonsense=1", "options that SQLite does not know, among nonsense"),
    ],
)
def test_a_url_that_is_no_target_is_a_usage_error(url, message):
    """names_are_data: and no password shows"""
    with pytest.raises(UsageError, match=message) as raised:
        open_target(url)
    assert raised.value.hint
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("url", "install"),
    [("duckdb:///t.duckdb", 'pip install "subscriber[duckdb]"'), ("oracle+oracledb://h/d", "pip install oracledb")],
)
def test_a_driver_that_is_not_installed_is_named_with_what_installs_it(url, install, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb_engine", None)
    with pytest.raises(UsageError, match="is not installed") as raised:
        open_target(url)
    assert str(raised.value.hint).endswith(install)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("missing/t.db", "There is no folder"),
        ("file/t.db", "is not a folder"),
        ("folder", "is a folder; a file is needed"),
    ],
)
def test_a_path_that_cannot_be_is_told_from_a_file_that_is_busy(scheme, place, said, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    target = open_target(f"{scheme}:///{tmp_path / place}")
    with pytest.raises(TargetUnavailable) as raised, target.begin():
        pass
    assert said in str(raised.value.hint)


def test_a_target_that_does_not_answer_says_where_it_was_looked_for():
    with pytest.raises(TargetUnavailable) as raised, open_target("mariadb://user:secret@127.0.0.1:1/db").begin():
        pass
    assert "'127.0.0.1'" in str(raised.value.detail)
    assert "target's URL" in str(raised.value.hint)
    assert "secret" not in raised.value.report()


def test_a_certificate_that_is_not_there_is_no_traceback():
    target = open_target("mariadb://user@127.0.0.1:1/db?ssl_ca=/nowhere/ca.pem")
    with pytest.raises(TargetUnavailable, match="SSL_CONNECTION_ERROR") as raised, target.begin():
        pass
    assert "No such file" in str(raised.value.detail)


# A package that registers a database --------------------------------------------------------------

_ACME = re.compile(r"```python\n# acme_target\.py\n(.*?)```", re.DOTALL)
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-target.md"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package of docs/adding-a-target.md, installed in a folder of the path."""
    (code,) = _ACME.findall(_PAGE.read_text())
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "acme_target.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))

    def register(name: str, value: str) -> None:
        info = folder / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[subscriber.targets]\nacme = {value}\nsqlite = {value}\n")

    register("acme", "acme_target:open_acme")
    return register


def test_a_package_registers_a_database_with_facts_and_roles(package, tmp_path):
    with open_target(f"acme:///{tmp_path / 't.db'}") as target:
        assert isinstance(target, GenericTarget)
        assert type(target.transactions).__name__ == "AcmeTransactions"
        facts = target.known_facts()
        assert (facts["savepoints"], facts["name_length"]) == (False, 40)
        assert facts.facts["savepoints"].found == "registered"
        assert not target.capabilities.savepoints


def test_a_package_does_not_replace_a_database_of_ours(package, tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        assert target.capabilities.database == "SQLite"


def test_two_packages_for_one_database_are_refused(package, tmp_path):
    package("other", "other_target:open_acme")
    with pytest.raises(UsageError, match="several packages"):
        open_target(f"acme:///{tmp_path / 't.db'}")
