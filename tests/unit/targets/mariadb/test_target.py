"""Opening a MariaDB target: the URL, the names, and the statements of a session."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.targets import open_target
from subscriber.targets.mariadb.transactions import MariaDBFacts, learn


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
def test_the_driver_is_pymysql_if_the_url_names_none(scheme):
    with open_target(f"{scheme}://user@host/db") as target:
        assert target.engine.dialect.driver == "pymysql"
        assert target.capabilities.database == "MariaDB"


def test_another_driver_is_refused():
    with pytest.raises(NotSupportedError, match="mysqldb") as raised:
        open_target("mysql+mysqldb://user@host/db")
    assert raised.value.hint == "Write the URL as mysql+pymysql://..."


@pytest.mark.parametrize("url", ["mariadb://user@host", "mariadb://user@host/"])
def test_a_url_without_a_database_is_refused(url):
    with pytest.raises(UsageError, match="names no database"):
        open_target(url)


def test_an_option_of_the_driver_is_accepted():
    with open_target("mariadb://user@host/db?connect_timeout=10") as target:
        arguments = target.engine.dialect.create_connect_args(target.engine.url)[1]
    assert arguments["connect_timeout"] == 10


def test_a_connection_uses_utf8mb4_whatever_the_url_says():
    with open_target("mariadb://user@host/db?charset=latin1") as target:
        assert target.engine.dialect.create_connect_args(target.engine.url)[1]["charset"] == "utf8mb4"


def test_every_name_is_quoted(target):
    """names_are_data: the reserved words depend on the server and its version."""
    table = sa.table("t`", sa.column("plain"))
    statement = sa.select(table.c.plain)
    assert str(statement.compile(dialect=target.engine.dialect)) == "SELECT `t```.`plain` \nFROM `t```"


def test_a_new_table_has_the_character_set_utf8mb4(target):
    table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer()))
    created = str(sa.schema.CreateTable(table).compile(dialect=target.engine.dialect))
    assert " ".join(created.split()) == "CREATE TABLE `t` ( `a` INTEGER ) CHARACTER SET utf8mb4"


def test_mariadb_does_not_record_the_origin_of_a_row(target):
    """C20, C32"""
    assert target.origins is None
    assert target.row_versions.columns() == ()


def test_a_password_that_needs_another_package_is_refused_with_its_name(target, monkeypatch):
    """caching_sha2_password, MySQL's default."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(
            "'cryptography' package is required for sha256_password or caching_sha2_password auth methods"
        )

    monkeypatch.setattr("subscriber.targets.mariadb.target.MariaDBConnection.__init__", refuse)
    with pytest.raises(UsageError, match="cryptography") as raised, target.engine.connect():
        pass
    assert 'pip install "PyMySQL[rsa]"' in str(raised.value.hint)


def test_a_server_without_xa_transactions_prepares_none(target):
    learn(target.engine.dialect, MariaDBFacts())
    assert target.prepared is not None
    learn(target.engine.dialect, MariaDBFacts(has_xa=False))
    assert target.prepared is None


def test_names_are_in_lower_case_where_the_server_stores_them_so(target):
    """names_are_data: tables that differ only in case have the same name then."""
    learn(target.engine.dialect, MariaDBFacts(lower_case_tables=True))
    assert target.ddl.qualified("public", "Users") == target.ddl.qualified("public", "users") == (None, "users")
    assert target.ddl.qualified("S", "T") == (None, "s.t")
