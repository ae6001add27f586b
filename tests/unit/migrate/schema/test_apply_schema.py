"""Objects are built one by one; one that is refused does not stop the others."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ApplyError, SubscriberError, TargetUnavailable
from subscriber.base.progress_lines import shown_by
from subscriber.migrate.schema import apply_schema as apply_schema_module
from subscriber.migrate.schema.apply_schema import BuildOutcome, apply_schema
from subscriber.migrate.schema.schema_object import SchemaComparison, SchemaObject
from subscriber.postgres.schema.shape import IndexKey, IndexShape
from subscriber.targets import open_target
from subscriber.targets.table_changes import NewCheck, NewIdentity, NewIndex
from tests.unit.targets.tables import execute, reflected, rows


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        execute(opened, "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (1)")
        yield opened


def built(target, phase, *changes):
    table = reflected(target, "t")
    objects = tuple(
        SchemaObject(kind="index", name=str(number), phase="after", relation="public.t", table=table, change=change)
        for number, change in enumerate(changes)
    )
    seen: list[tuple[str, int, int]] = []
    with shown_by(lambda *told: seen.append(told)):
        outcomes = apply_schema(target, SchemaComparison("s", "SQLite", objects), phase)
    assert seen == [("building objects", number, len(outcomes)) for number in range(1, len(outcomes) + 1)]
    return [(one.object.name, one.refusal) for one in outcomes]


def index(name, *, unique=False):
    return NewIndex(IndexShape(name=name, keys=(IndexKey("a"),), unique=unique), name, ("a",))


def test_what_is_refused_is_told_and_the_others_are_built(target):
    outcomes = built(target, "after", index("u", unique=True), NewIdentity("a"), index("i"))
    assert [name for name, _ in outcomes] == ["0", "1", "2"]
    assert [bool(refusal) for _, refusal in outcomes] == [True, True, False]
    assert "duplicate key" in outcomes[0][1]
    assert rows(target, "SELECT name FROM sqlite_master WHERE type = 'index'") == [{"name": "i"}]


def test_an_object_that_waits_for_a_function_is_left_out(target):
    waiting = SchemaObject(kind="index", name="i", phase="after", reason="it calls f()", ddl="X", waits_for=("f()",))
    (outcome,) = apply_schema(target, SchemaComparison("s", "SQLite", (waiting,)), "after")
    assert outcome == BuildOutcome(waiting, "it calls f()", left_out=True)


def test_the_other_phase_is_left_alone(target):
    assert built(target, "before", index("i")) == []


def test_a_check_that_rows_violate_changes_nothing(target):
    ((_, refusal),) = built(target, "after", NewCheck("c", "a > 1"))
    assert "check constraint" in refusal
    assert rows(target, "SELECT count(*) AS n FROM t") == [{"n": 2}]


def test_an_object_is_tried_again_after_a_transient_error_and_not_after_another(target, monkeypatch):
    errors: list[SubscriberError] = [TargetUnavailable("deadlock"), TargetUnavailable("deadlock")]
    build = apply_schema_module._build_one

    def building(database, one):
        if errors:
            raise errors.pop()
        build(database, one)

    monkeypatch.setattr(apply_schema_module, "_build_one", building)
    monkeypatch.setattr(apply_schema_module, "PAUSES", (0.0, 0.0))
    assert built(target, "after", index("i")) == [("0", "")]
    errors += [ApplyError("refused")]
    assert built(target, "after", index("j")) == [("0", "refused")]
