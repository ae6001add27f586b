from __future__ import annotations

import logging

import pytest
import sqlalchemy as sa

from subscriber.targets.base.target import open_generic


def test_opening_an_unknown_database_warns_that_it_is_not_tested(caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    with open_generic(sa.make_url(f"sqlite:///{tmp_path / 't.db'}")):
        assert caplog.messages == ["sqlite is not a tested target: values are bound as text or Python values"]


def test_an_unknown_database_has_none_of_the_optional_roles(target):
    assert (target.prepared, target.origins, target.run_lock, target.cluster) == (None, None, None, None)


def test_nothing_is_assumed_of_an_unknown_database(target):
    capabilities = target.capabilities
    assert not (capabilities.postgresql_text or capabilities.postgresql_types or capabilities.transactional_ddl)
    assert not (capabilities.multi_rowcount or capabilities.column_case)


def test_a_failed_statement_does_not_show_its_parameters(target):
    """names_are_data: SQLAlchemy would add them to its exception's text."""
    with pytest.raises(sa.exc.OperationalError) as raised, target.engine.connect() as connection:
        connection.execute(sa.text("SELECT missing WHERE 1 = :value"), {"value": "secret"})
    assert "secret" not in str(raised.value)
