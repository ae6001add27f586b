"""Opening a PostgreSQL target. The errors of its URL are in tests/unit/targets/test_dialects.py."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError
from subscriber.targets import open_target


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_the_driver_is_psycopg_if_the_url_names_none(scheme):
    with open_target(f"{scheme}://user@host/db") as target:
        assert (target.engine.dialect.driver, target.capabilities.database) == ("psycopg", "PostgreSQL")


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg", "pg8000"])
def test_another_driver_is_refused(driver):
    with pytest.raises(NotSupportedError, match=driver) as raised:
        open_target(f"postgresql+{driver}://user@host/db")
    assert raised.value.hint == "Write the URL as postgresql+psycopg://..."


@pytest.mark.parametrize("options", ["sslmode=require&connect_timeout=10", "target_session_attrs=read-write"])
def test_options_are_libpqs(options):
    with open_target(f"postgresql://user@host/db?{options}") as target:
        assert target.engine.url.query


def test_rows_are_bound_by_position(target):
    insert = sa.insert(sa.table("t", sa.column("a"), sa.column("b"))).values(a=sa.bindparam("x"), b=sa.bindparam("y"))
    assert str(insert.compile(dialect=target.engine.dialect)) == "INSERT INTO t (a, b) VALUES (%s, %s)"


def test_a_postgresql_target_has_every_optional_role(target):
    assert None not in (target.prepared, target.origins, target.run_lock, target.cluster)
