"""A database of which only SQLAlchemy's dialect is known: the facts, and what follows from them.

The database is SQLite through SQLAlchemy's own dialect, altered so that it has what others have.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import (
    ConflictError,
    NotSupportedError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.targets import TargetColumn
from subscriber.targets.capabilities import Fact
from subscriber.targets.generic import probes
from subscriber.targets.generic import target as generic_target
from subscriber.targets.generic.facts import DatabaseFacts, signature
from subscriber.targets.generic.target import GenericTarget, open_generic

BIGINT, TEXT, DOUBLE, NUMERIC = 20, 25, 701, 1700
_PAGE = Path(__file__).resolve().parents[4] / "docs" / "targets.md"


@pytest.fixture(scope="module")
def facts(tmp_path_factory) -> DatabaseFacts:
    url = f"sqlite:///{tmp_path_factory.mktemp('probed') / 't.db'}"
    engine = sa.create_engine(url)
    found = probes.probe(engine, "sqlite")
    assert sa.inspect(engine).get_table_names() == [], "the probes leave nothing"
    engine.dispose()
    return found


def opened(tmp_path, facts: DatabaseFacts | None, **overrides) -> GenericTarget:
    url = sa.make_url(f"sqlite:///{tmp_path / 't.db'}")
    if facts is not None:
        facts = facts.with_overrides(overrides)
    return open_generic(url, facts=facts)


def test_opening_a_database_warns_and_connects_to_nothing(caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    with opened(tmp_path, None):
        assert caplog.messages == ["sqlite is not a tested target: what it can do is found by probes"]
    assert not (tmp_path / "t.db").exists()


def test_the_probes_find_what_is_known_of_sqlite(facts):
    found = {fact.name: fact.value for fact in facts.facts.values()}
    assert found["transactions"] is found["row_counts"] is found["text_comparison"] is found["final_blanks"] is True
    assert found["transactional_ddl"] is found["column_case"] is found["signed_zero"] is False
    assert found["decimal"] is found["decimal_precision"] is None, "SQLite's numbers are floating-point numbers"
    assert (found["bigint"], found["date"], found["upsert"]) == ("BIGINT", "DATE", "ON CONFLICT")
    assert found["duplicate_key"] == "IntegrityError sqlite_errorname=SQLITE_CONSTRAINT_PRIMARYKEY"


def test_a_probe_notices_a_database_that_rounds(tmp_path):
    """refuse_not_guess: 9007199254740993 needs 54 bits."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 't.db'}")
    probing = probes.Probing(engine)
    assert probing.stored(sa.BigInteger(), (2**53 + 1,)) == "BIGINT"
    assert probing.stored(sa.Double(), (2**53 + 1,)) is None
    assert probing.stored(sa.Text(), ("007",)) == "TEXT"
    assert probing.stored(sa.Numeric(), ("007",)) is None
    engine.dispose()


def test_a_probe_notices_a_database_without_transactions(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 't.db'}", isolation_level="AUTOCOMMIT")
    found = probes.probe(engine, "sqlite")
    engine.dispose()
    assert (found["transactions"], found["savepoints"]) == (False, True)
    assert isinstance(found.refusal(), NotSupportedError)


@pytest.mark.parametrize("name", ["transactions", "row_counts", "text", "varchar", "text_comparison", "exact_names"])
def test_a_fact_that_forbids_exactness_is_refused_with_its_name(facts, tmp_path, name):
    value = None if name in ("text", "varchar") else False
    target = opened(tmp_path, facts, **{name: value})
    for use in (lambda: target.engine, lambda: target.capabilities, target.begin):
        with pytest.raises(NotSupportedError, match=f"because of fact {name}: n"):
            use()
    target.close()


def test_capabilities_follow_from_the_facts(facts, tmp_path):
    changed = {
        "savepoints": False,
        "transactional_ddl": True,
        "name_length": 30,
        "wide_names": False,
        "parameters": 900,
    }
    with opened(tmp_path, facts, **changed) as target:
        capabilities = target.capabilities
        assert (capabilities.savepoints, capabilities.transactional_ddl) == (False, True)
        assert (capabilities.limits.name_length, capabilities.limits.columns) == (30, 450)
        assert "beyond U+FFFF" in str(capabilities.limits.obstacle_of_name("😀"))


def test_a_name_in_upper_case_is_refused_where_names_are_folded(facts):
    limits = facts.with_overrides({"unquoted_names": "upper case"}).capabilities().limits
    assert limits.obstacle_of_name("USERS") == (
        'the name "USERS" is in upper case, as which names without quotes are stored'
    )
    assert limits.obstacle_of_name("users") is limits.obstacle_of_name("Users") is None
    assert facts.capabilities().limits.obstacle_of_name("USERS") is None


@pytest.mark.parametrize(
    ("type_oid", "name", "key", "declared"),
    [
        (BIGINT, "bigint", False, "BIGINT"),
        (26, "oid", False, "BIGINT"),
        (TEXT, "text", False, "TEXT"),
        (TEXT, "text", True, "VARCHAR(255)"),
        (1043, "character varying(20)", False, "VARCHAR(20)"),
        (1043, "character varying(2000)", False, "TEXT"),
        (NUMERIC, "numeric(10,2)", False, "NUMERIC(10, 2)"),
        (NUMERIC, "numeric(18,2)", False, "NUMERIC(18, 2)"),
        (NUMERIC, "numeric(19,2)", False, "TEXT"),
        (NUMERIC, "numeric", True, "VARCHAR(255)"),
        (16, "boolean", False, "TEXT"),
    ],
)
def test_a_type_that_the_database_does_not_hold_is_declared_as_text(facts, tmp_path, type_oid, name, key, declared):
    with opened(tmp_path, facts, boolean=None, decimal="NUMERIC", decimal_precision=18) as target:
        assert target.ddl.column_type(type_oid, name, key=key) == declared
        column = TargetColumn("c", declared, target.ddl.storage(declared))
        target.values.check_column(type_oid, column)


def test_a_column_that_was_not_probed_is_refused_with_types_that_were(facts, tmp_path):
    with opened(tmp_path, facts) as target, pytest.raises(TargetRelationError) as raised:
        target.values.check_column(BIGINT, TargetColumn("c", "MONEY", "MONEY"))
    assert raised.value.hint == "Declare the column as one of: SMALLINT, INTEGER, BIGINT, VARCHAR, TEXT."


@pytest.mark.parametrize(
    ("overrides", "type_oid", "storage", "values"),
    [
        ({"empty_texts": False}, TEXT, "TEXT", pa.array(["", "x"])),
        ({"special_doubles": False}, DOUBLE, "DOUBLE", pa.array([1.0, float("inf")])),
        ({}, 1082, "DATE", pa.array(["0044-03-15 BC"])),
        ({}, BIGINT, "SMALLINT", pa.array([40_000])),
    ],
)
def test_a_value_that_the_database_would_change_is_refused(facts, tmp_path, overrides, type_oid, storage, values):
    column = TargetColumn("c", storage, storage)
    with opened(tmp_path, facts, **overrides) as target:
        with pytest.raises(UnsupportedValue) as raised:
            target.values.bind_values(type_oid, column, values)
        mask = target.values.unrepresentable_values(type_oid, column, values)
    assert raised.value.column == "c"
    assert mask.to_pylist().count(True) == 1


def test_a_text_that_is_too_long_by_blanks_is_shortened_only_if_postgresql_would(facts, tmp_path):
    column, long = TargetColumn("c", "VARCHAR(3)", "VARCHAR"), pa.array(["abc  "])
    with opened(tmp_path, facts) as target:
        assert target.values.bind_values(1043, column, long) == ["abc"]
        with pytest.raises(UnsupportedValue, match="too long"):
            target.values.bind_values(TEXT, column, long)


def test_texts_are_compared_with_their_final_blanks_where_the_database_ignores_them(facts, tmp_path):
    """C17: a row is not found by another text."""
    column, other = TargetColumn("c", "VARCHAR(9)", "VARCHAR"), TargetColumn("c", "BIGINT", "BIGINT")
    clause: sa.ColumnClause[str] = sa.column("c")
    with opened(tmp_path, facts, final_blanks=False) as target:
        matching = target.matching
        written = str(matching.finds(column, clause, sa.literal("x")).compile(compile_kwargs={"literal_binds": True}))
        assert written == "c = 'x' AND (c || '.') = (CAST('x' AS VARCHAR(9)) || '.')"
        same = matching.is_same(column, clause, sa.literal("x")).compile(compile_kwargs={"literal_binds": True})
        assert str(same) == "(c || '.') IS NOT DISTINCT FROM (CAST('x' AS VARCHAR(9)) || '.')"
        assert str(matching.finds(other, clause, sa.literal(1))) == "c = :param_1"


def test_a_database_with_a_catalog_is_probed_once(facts, tmp_path, monkeypatch):
    url = sa.make_url(f"sqlite:///{tmp_path / 't.db'}")
    calls: list[str] = []

    def probe(_engine, database):
        calls.append(database)
        return facts

    monkeypatch.setattr(generic_target, "probe", probe)
    with open_generic(url) as target:
        ensure_catalog(target.engine)
    for _ in range(2):
        with open_generic(url, overrides={"savepoints": False}) as target:
            assert target.known_facts() == facts.with_overrides({"savepoints": False})
    assert calls == ["sqlite", "sqlite"], "before there was a catalog, and then once"
    with open_generic(url) as target, target.begin() as connection:
        connection.exec_driver_sql("UPDATE subscriber_target_fact SET server = 'an older one'")
    with open_generic(url) as target:
        assert target.known_facts() == facts, "registered facts are not stored"
    assert len(calls) == 3


# Errors -------------------------------------------------------------------------------------------


class Refused(sqlite3.DatabaseError):
    def __init__(self, sqlstate: str, sqlcode: int = 0) -> None:
        super().__init__("the value secret")
        self.sqlstate, self.sqlcode = sqlstate, sqlcode


@pytest.mark.parametrize(
    ("error", "kind", "sqlstate"),
    [
        (Refused("23000", -803), ConflictError, "23505"),
        (Refused("23000", -625), ConflictError, "23502"),
        (Refused("23000", -297), ConflictError, "23000"),
        (Refused("22001"), UnsupportedValue, "22001"),
        (Refused("40001"), TargetUnavailable, None),
    ],
)
def test_an_error_is_recognized_by_what_the_probes_have_provoked(facts, tmp_path, error, kind, sqlstate):
    """Also where it has SQLAlchemy's most general class, and without its text (names_are_data)."""
    provoked = {"duplicate_key": signature(Refused("23000", -803)), "null": signature(Refused("23000", -625))}
    with opened(tmp_path, facts, **provoked) as target:
        found = target.errors.translate(sa.exc.DatabaseError("INSERT", None, error))
    assert (type(found), found.sqlstate) == (kind, sqlstate or found.sqlstate)
    assert "secret" not in found.report()


def test_an_error_that_fits_two_constraints_is_neither(facts, tmp_path):
    with opened(tmp_path, facts, duplicate_key="Error", duplicate_unique="Error", null="Error") as target:
        error = sa.exc.IntegrityError("INSERT", None, type("Error", (sqlite3.IntegrityError,), {})())
        assert target.errors.translate(error).sqlstate == "23000"


# The page -----------------------------------------------------------------------------------------


def test_the_page_lists_every_fact_with_its_meaning():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (probe|dialect) \|$", _PAGE.read_text(), re.MULTILINE)
    assert rows == [(one.name, one.meaning, one.found) for one in probes.PROBES]


def test_a_registered_fact_says_so(facts):
    changed = facts.with_overrides({"savepoints": False})
    assert changed.facts["savepoints"] == Fact("savepoints", False, "registered")
    assert changed.facts["savepoints"].shown == "no"
