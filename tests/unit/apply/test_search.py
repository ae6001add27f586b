"""Rows that are stored otherwise than the publisher sends them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.targets.generic.target import generic_target
from tests.frames import frame, relation, transaction, values

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_a_row_that_is_stored_otherwise_is_found_with_parameters_by_place_or_by_name(tmp_path, paramstyle):
    """C14: only what is searched by is bound as it is stored"""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with generic_target(url, sa.create_engine(url, paramstyle=paramstyle)) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            connection.exec_driver_sql("CREATE TABLE t (a TEXT, b TEXT, PRIMARY KEY (a, b))")
            connection.exec_driver_sql("INSERT INTO t VALUES ('1.0', 'x'), ('1.000', 'y'), ('10', 'y')")
        remote = relation("public.t", {"a": "numeric", "b": "text"}, ["a", "b"])
        move = m.Update(16384, "K", values("1.00", "y"), values("1.00", "z"))
        applier = ExactApplier(target, subscription="sub", subid=1)
        applier.apply([frame([remote], transaction(200, move))], start=START, end=END)
        with target.begin() as connection:
            rows = connection.exec_driver_sql("SELECT a, b FROM t ORDER BY b").all()
        assert rows == [("1.0", "x"), ("10", "y"), ("1.00", "z")]
