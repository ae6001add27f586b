"""A value that a target cannot store stops its transaction with relation, column, type and LSN, and
is in no error and no log.
"""

from __future__ import annotations

import logging
import os
import traceback
from itertools import count

import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ApplyError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import open_target
from tests.frames import frame, relation, transaction, values

_numbers = count(1)
CANARY = "cana" + "ry"  # tracebacks quote source lines
NUMBER = "424242424242" + ".4242"
MOMENT = "294276-12-31 23" + ":59:59.4242"

REFUSED = [
    ("sqlite", "b INTEGER", "text", CANARY, "22P02", True),
    ("sqlite", "b INT", "numeric", NUMBER, "22003", True),
    ("sqlite", "b REAL", "numeric", "4242424242424242424242" + ".42", "22003", True),
    ("sqlite", "b CHARACTER VARYING(3)", "text", CANARY, "22001", True),
    ("sqlite", "b TEXT CHECK (length(b) < 3)", "text", CANARY, "23514", False),
    ("duckdb", "b INTEGER", "text", CANARY, "22P02", True),
    ("duckdb", "b DECIMAL(5,2)", "numeric", NUMBER, "22003", True),
    ("duckdb", "b TIMESTAMP", "timestamp", MOMENT, "22008", True),
    ("duckdb", "b VARCHAR CHECK (length(b) < 3)", "text", CANARY, "23514", False),
    ("mariadb", "b INT", "text", CANARY, "22P02", True),
    ("mariadb", "b DECIMAL(5,2)", "numeric", NUMBER, "22003", True),
    ("mariadb", "b DATETIME(6)", "timestamp", MOMENT, "22008", True),
    ("mariadb", "b VARCHAR(3)", "text", CANARY, "22001", True),
    ("mariadb", "b TINYTEXT", "text", CANARY * 100, "22001", True),
    ("mariadb", "b TEXT CHARACTER SET latin1 COLLATE latin1_bin", "text", CANARY + "😀", "22021", True),
    ("mariadb", "b TEXT, CONSTRAINT short CHECK (length(b) < 3)", "text", CANARY, "23514", False),
    ("postgresql", "b int", "text", CANARY, "22P02", True),
    ("postgresql", "b smallint", "int8", "424242424242", "22003", True),
    ("postgresql", "b varchar(3)", "text", CANARY, "22001", True),
    ("postgresql", "b timestamp", "text", CANARY, "22007", True),
    ("postgresql", "b text CONSTRAINT short CHECK (length(b) < 3)", "text", CANARY, "23514", False),
]
"""Target, the column, the publisher's type, a value, the SQLSTATE, and whether the error can name
the column.
"""


@pytest.fixture
def target(request, kind, tmp_path):
    name = f"refused_{os.getpid()}_{next(_numbers)}"
    if kind in ("sqlite", "duckdb"):
        with open_target(f"{kind}:///{tmp_path / name}.db") as opened:
            yield opened
        return
    server = request.getfixturevalue("mariadb" if kind == "mariadb" else "postgresql18")
    server.create_database(name)
    try:
        with open_target(server.url(name)) as opened:
            yield opened
    finally:
        server.drop_database(name)


@pytest.mark.parametrize(("kind", "column", "type_name", "value", "sqlstate", "named"), REFUSED)
def test_a_refused_value_is_in_no_error_and_no_log(target, caplog, kind, column, type_name, value, sqlstate, named):
    """C35, C37, names_are_data: inserted or updated"""
    caplog.set_level(logging.DEBUG)
    table = "public.t" if kind == "postgresql" else "t"
    with target.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table} (a INTEGER NOT NULL, {column}, PRIMARY KEY (a))")
        connection.exec_driver_sql(f"INSERT INTO {table} (a) VALUES (1)")
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    applier = ExactApplier(target, subscription="sub", subid=1)
    remote = relation("public.t", {"a": "int4", "b": type_name}, ["a"])
    changes: dict[str, m.Message] = {
        "INSERT": m.Insert(16384, values("2", value)),
        "UPDATE": m.Update(16384, None, None, values("1", value)),
    }
    for action, change in changes.items():
        with pytest.raises(ApplyError) as raised:
            applier.apply([frame([remote], transaction(200, change))], start=LSN(100), end=LSN(1000))
        error = raised.value
        assert (error.sqlstate, error.relation, error.column) == (sqlstate, "public.t", "b" if named else None)
        place = 'relation "public.t" column "b"' if named else 'relation "public.t"'
        assert f'"{action}" for replication target {place} in transaction 731, finished at 0/C0' in str(error.context)
        for text in (caplog.text, error.report(), "".join(traceback.format_exception(error))):
            assert value not in text
            assert CANARY not in text
