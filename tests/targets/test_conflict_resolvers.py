"""Conflict resolvers on every target. Each transaction is first written optimistically, and then,
when it has a conflict, in the publisher's order.
"""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.apply import reorder
from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.resolver_functions import RowsInConflict
from subscriber.apply.exact import BulkApplier
from subscriber.base.errors import ConflictError, ConflictResolverError, NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.base.settings import FUNCTION_MODULES
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS
from subscriber.targets import Target
from tests.appliers import obeying
from tests.changes import delete, insert, update
from tests.frames import frame, relation, transaction

T = relation("public.t", {"a": "int4", "b": "text", "c": "int4"}, ["a"])
F = relation("public.f", {"a": "int4", "b": "text"}, identity="f", oid=2)


@pytest.fixture(autouse=True)
def _always_reorder(monkeypatch):
    for name, least in {"_LEAST_RUNS": 0, "_LEAST_SAVED": 0, "_LEAST_MESSAGES": 1}.items():
        monkeypatch.setattr(reorder, name, least)


class Replica:
    """A target with the tables t (two keys, and a column of its own) and f (no key)."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._end = 100
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))
        self.execute(
            "CREATE TABLE t (own VARCHAR(9) DEFAULT 'mine', c INTEGER UNIQUE, a INTEGER PRIMARY KEY, b VARCHAR(9))",
            "CREATE TABLE f (a INTEGER, b VARCHAR(9))",
        )

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self.target.engine.begin() as connection:
            for statement in statements:
                result = connection.exec_driver_sql(statement)
                rows = [tuple(row) for row in result] if result.returns_rows else []
        return rows

    def rows(self) -> list[tuple[Any, ...]]:
        return self.execute("SELECT a, b, c, own FROM t ORDER BY a")

    def recorded(self) -> list[tuple[Any, ...]]:
        """The conflicts but those of other origins, which only some targets find."""
        found = self.execute(
            "SELECT conflict_type, resolution, remote_applied FROM subscriber_conflict"
            " WHERE conflict_type NOT IN ('update_origin_differs', 'delete_origin_differs') ORDER BY conflictid"
        )
        return [(kind, resolution, None if applied is None else bool(applied)) for kind, resolution, applied in found]

    def apply(self, *changes: m.Message, timestamp: int = 1_000_000, **resolvers: str) -> ApplyResult:
        """Apply one transaction."""
        rules: Rules = obeying(conflict_resolvers=NO_RESOLVERS.altered(resolvers))
        applier = BulkApplier(self.target, subscription="sub", subid=1, read_rules=lambda _: rules)
        start, self._end = self._end, self._end + 100
        text = self.target.capabilities.postgresql_text
        messages = transaction(self._end, *changes, timestamp=timestamp)
        return apply_batch(applier, lambda: [frame([T, F], messages, text=text)], LSN(start), LSN(self._end))


@pytest.fixture
def replica(target) -> Replica:
    if target.url.drivername == "example" or target.url.drivername.startswith("firebird"):
        pytest.skip("its columns have other types than the tables of these tests")
    return Replica(target)


# insert_exists ------------------------------------------------------------------------------------


def test_an_insert_of_a_row_that_exists_is_an_error_by_default(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    with pytest.raises(ConflictError, match="conflict=insert_exists"):
        replica.apply(insert("1", "remote", "20"), update_missing="error")
    assert replica.rows() == [(1, "local", 10, "kept")]


def test_apply_remote_gives_the_row_that_exists_the_new_values(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    changes = [insert(str(key), "remote", str(20 * key)) for key in range(1, 30)]
    result = replica.apply(*changes, insert_exists="apply_remote")
    assert result.conflicts == {"insert_exists": 1}
    assert replica.rows()[:2] == [(1, "remote", 20, "kept"), (2, "remote", 40, "mine")]
    assert len(replica.rows()) == 29
    assert replica.recorded() == [("insert_exists", "apply_remote", True)]


def test_keep_local_leaves_out_the_insert(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local'), ('kept', 20, 2, 'local')")
    changes = [insert(str(key), "remote", str(30 * key)) for key in range(1, 30)]
    result = replica.apply(*changes, insert_exists="keep_local")
    assert result.conflicts == {"insert_exists": 2}
    assert replica.rows()[:3] == [(1, "local", 10, "kept"), (2, "local", 20, "kept"), (3, "remote", 90, "mine")]
    assert replica.recorded() == [("insert_exists", "keep_local", False)] * 2


def test_a_row_found_by_another_key_gets_the_new_values_and_the_new_key(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    replica.apply(insert("2", "remote", "10"), insert_exists="apply_remote")
    assert replica.rows() == [(2, "remote", 10, "kept")]


# update_exists, multiple_unique_conflicts ---------------------------------------------------------


def test_apply_remote_deletes_the_row_in_the_way_of_an_update(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local'), ('own', 20, 2, 'old')")
    result = replica.apply(update(("2", "remote", "10")), update_exists="apply_remote")
    assert result.conflicts["update_exists"] == 1
    assert replica.rows() == [(2, "remote", 10, "own")]
    assert replica.recorded() == [("update_exists", "apply_remote", True)]


def test_keep_local_leaves_out_the_update(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local'), ('own', 20, 2, 'old')")
    replica.apply(update(("2", "remote", "10")), insert("3", "new", "30"), update_exists="keep_local")
    assert replica.rows() == [(1, "local", 10, "kept"), (2, "old", 20, "own"), (3, "new", 30, "mine")]
    assert replica.recorded() == [("update_exists", "keep_local", False)]


def test_an_update_of_the_key_to_one_that_exists_keeps_values_that_were_not_sent(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local'), ('own', 20, 2, 'large')")
    changes = update(("1", m.UNCHANGED, "30"), key=("2", None, None))
    replica.apply(changes, update_exists="apply_remote")
    assert replica.rows() == [(1, "large", 30, "own")]


@pytest.mark.parametrize(
    ("resolver", "rows"),
    [
        ("apply_remote", [(1, "remote", 20, "one")]),
        ("keep_local", [(1, "local", 10, "one"), (2, "local", 20, "two")]),
    ],
)
def test_an_insert_with_several_rows_in_its_way(replica, resolver, rows):
    replica.execute("INSERT INTO t VALUES ('one', 10, 1, 'local'), ('two', 20, 2, 'local')")
    result = replica.apply(insert("1", "remote", "20"), multiple_unique_conflicts=resolver)
    assert result.conflicts == {"multiple_unique_conflicts": 1}
    assert replica.rows() == rows


def test_one_row_may_be_in_the_way_by_several_keys(replica):
    replica.execute("INSERT INTO t VALUES ('one', 10, 1, 'local'), ('two', NULL, 2, 'local')")
    replica.apply(insert("1", "remote", "10"), multiple_unique_conflicts="apply_remote")
    assert replica.rows() == [(1, "remote", 10, "one"), (2, "local", None, "two")]


def test_several_keys_are_another_conflict_than_one(replica):
    replica.execute("INSERT INTO t VALUES ('one', 10, 1, 'local')")
    with pytest.raises(ConflictError, match="conflict=multiple_unique_conflicts"):
        replica.apply(insert("1", "remote", "10"), insert_exists="apply_remote", update_exists="apply_remote")
    assert replica.rows() == [(1, "local", 10, "one")]


# Missing rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("resolver", ["apply_or_skip", "apply_or_error"])
def test_an_update_of_a_missing_row_becomes_an_insert(replica, resolver):
    result = replica.apply(update(("1", "remote", "10")), update_missing=resolver)
    assert result.conflicts == {"update_missing": 1}
    assert replica.rows() == [(1, "remote", 10, "mine")]
    assert replica.recorded() == [("update_missing", resolver, True)]


def test_an_update_without_all_values_is_skipped(replica):
    replica.apply(update(("1", m.UNCHANGED, "10")), insert("2", "b", "20"), update_missing="apply_or_skip")
    assert replica.rows() == [(2, "b", 20, "mine")]
    assert replica.recorded() == [("update_missing", "apply_or_skip", False)]


def test_an_update_without_all_values_is_an_error(replica):
    with pytest.raises(ConflictError, match="conflict=update_missing") as caught:
        replica.apply(insert("2", "b", "20"), update(("1", m.UNCHANGED, "10")), update_missing="apply_or_error")
    assert caught.value.sqlstate == "40001"
    assert replica.rows() == []


def test_the_old_row_completes_the_new_one(replica):
    changes = update(("1", m.UNCHANGED, "10"), old=("1", "old", "9"))
    replica.apply(changes, update_missing="apply_or_error")
    assert replica.rows() == [(1, "old", 10, "mine")]


def test_an_insert_of_an_update_obeys_the_resolver_of_inserts(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    result = replica.apply(update(("2", "remote", "10")), update_missing="apply_or_error", insert_exists="keep_local")
    assert result.conflicts == {"update_missing": 1, "insert_exists": 1}
    assert replica.rows() == [(1, "local", 10, "kept")]
    with pytest.raises(ConflictError, match="conflict=insert_exists"):
        replica.apply(update(("2", "remote", "10")), update_missing="apply_or_error")


@pytest.mark.parametrize("change", [update(("1", "b", "10")), delete("1", None, None)])
def test_a_missing_row_may_be_an_error(replica, change):
    kind = "delete_missing" if isinstance(change, m.Delete) else "update_missing"
    with pytest.raises(ConflictError, match=f"conflict={kind}") as caught:
        replica.apply(insert("2", "b", "20"), change, **{kind: "error"})
    assert caught.value.lsn == 192
    assert replica.rows() == []


def test_conflicts_without_a_resolver_are_resolved_as_before(replica):
    result = replica.apply(
        *(insert(str(key), "b", str(key)) for key in range(5)),
        update(("9", "b", "90")),
        delete("8", None, None),
        insert_exists="apply_remote",
    )
    assert result.conflicts == {"update_missing": 1, "delete_missing": 1}
    assert replica.recorded() == [("update_missing", None, None), ("delete_missing", None, None)]


def test_a_table_without_a_key_has_missing_rows_only(replica):
    replica.execute("INSERT INTO f VALUES (1, 'one')")
    changes = update(("1", "uno"), old=("1", "other"), of=2)
    replica.apply(changes, update_missing="apply_or_skip")
    assert sorted(replica.execute("SELECT a, b FROM f")) == [(1, "one"), (1, "uno")]


def test_a_row_that_an_earlier_change_of_the_batch_has_inserted_is_in_the_way(replica):
    changes = [
        insert("1", "first", "10"),
        insert("1", "second", "20"),
        delete("1", None, None),
        insert("1", "third", "30"),
    ]
    replica.apply(*changes, insert_exists="apply_remote")
    assert replica.rows() == [(1, "third", 30, "mine")]
    assert replica.recorded() == [("insert_exists", "apply_remote", True)]


# Functions ----------------------------------------------------------------------------------------

asked: list[RowsInConflict] = []
answers: list[Any] = []


def answering(rows: RowsInConflict) -> Any:
    asked.append(rows)
    return answers[0]


def failing(rows: RowsInConflict) -> Any:
    raise ValueError(f"a secret: {rows.local}")


ANSWERING, FAILING = (f"{__name__}:{function.__name__}" for function in (answering, failing))


@pytest.fixture(autouse=True)
def _asked(monkeypatch):
    monkeypatch.setenv(FUNCTION_MODULES, f"other, {__name__}")
    asked.clear()
    answers.clear()


def test_a_function_gets_both_rows(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, NULL)")
    answers.append("keep")
    replica.apply(insert("1", "remote", "20"), insert_exists=ANSWERING)
    rows = asked[-1]
    assert (rows.conflict_type, rows.relation.rpartition(".")[2]) == ("insert_exists", "t")
    assert rows.remote == {"a": "1", "b": "remote", "c": "20"}
    assert rows.local == {"a": "1", "b": None, "c": "10", "own": "kept"}
    assert rows.commit_time.isoformat() == "2000-01-01T00:00:01+00:00"
    assert replica.rows() == [(1, None, 10, "kept")]
    assert replica.recorded() == [("insert_exists", ANSWERING, False)]


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ("apply", [(1, "remote", 20, "kept")]),
        ("keep", [(1, "local", 10, "kept")]),
        ({"b": "both"}, [(1, "both", 10, "kept")]),
        ({"a": "1", "b": None, "c": "7"}, [(1, None, 7, "kept")]),
        ({"a": "5", "b": "moved", "c": "10", "own": "kept"}, [(5, "moved", 10, "kept")]),
    ],
)
def test_the_answer_about_an_insert_is_carried_out(replica, answer, rows):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    answers.append(answer)
    replica.apply(insert("1", "remote", "20"), insert_exists=ANSWERING)
    assert replica.rows() == rows


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ("apply", [(2, "remote", 10, "own")]),
        ("keep", [(1, "local", 10, "kept"), (2, "old", 20, "own")]),
        ({"b": "both", "c": "30"}, [(1, "local", 10, "kept"), (2, "both", 30, "own")]),
    ],
)
def test_the_answer_about_an_update_is_carried_out(replica, answer, rows):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local'), ('own', 20, 2, 'old')")
    answers.append(answer)
    replica.apply(update(("2", "remote", "10")), update_exists=ANSWERING)
    assert asked[-1].remote == {"a": "2", "b": "remote", "c": "10", "own": "own"}
    assert asked[-1].local == {"a": "1", "b": "local", "c": "10", "own": "kept"}
    assert replica.rows() == rows


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ("apply", [(2, "remote", 10, "mine")]),
        ("keep", []),
        ({"a": "2", "b": "made", "c": "11"}, [(2, "made", 11, "mine")]),
    ],
)
def test_the_answer_about_a_missing_row_is_carried_out(replica, answer, rows):
    answers.append(answer)
    replica.apply(update(("2", "remote", "10")), update_missing=ANSWERING)
    assert (asked[-1].remote, asked[-1].local) == ({"a": "2", "b": "remote", "c": "10"}, None)
    assert replica.rows() == rows


def test_a_function_may_complete_a_row(replica):
    answers.append({"a": "2", "b": "made", "c": "11"})
    replica.apply(update(("2", m.UNCHANGED, "10")), update_missing=ANSWERING)
    assert asked[-1].remote == {"a": "2", "c": "10"}
    assert replica.rows() == [(2, "made", 11, "mine")]


def test_a_function_may_let_the_conflict_be_an_error(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    answers.append("error")
    with pytest.raises(ConflictError, match="conflict=insert_exists"):
        replica.apply(insert("1", "remote", "20"), insert_exists=ANSWERING)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "a value of type NoneType"),
        ("skip", "a value of type str"),
        ({"a": 1}, "a value of type dict"),
        ({"colour": "red"}, 'a row with the unknown column "colour"'),
        ({"a": "2"}, "a row without the column"),
        ({"own": "yours"}, 'a row with another value in "own", which is not published'),
    ],
)
def test_another_answer_stops_the_subscription(replica, answer, message):
    answers.append(answer)
    with pytest.raises(ConflictResolverError, match=message) as caught:
        replica.apply(update(("2", "remote", "10")), update_missing=ANSWERING)
    assert caught.value.lsn == 192
    assert "It returns 'apply', 'keep', 'error', or a row" in str(caught.value.hint)


def test_the_error_of_a_function_quotes_no_values(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    with pytest.raises(ConflictResolverError) as caught:
        replica.apply(insert("1", "remote", "20"), insert_exists=FAILING)
    assert caught.value.message == f'the conflict resolver "{FAILING}" failed: ValueError'
    assert "secret" not in caught.value.report()


def test_a_function_that_is_gone_stops_the_subscription(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    with pytest.raises(ConflictResolverError, match="cannot be imported"):
        replica.apply(insert("1", "remote", "20"), insert_exists=f"{__name__}:not_there")


def test_a_function_of_a_module_that_is_not_allowed_is_not_called(replica, monkeypatch):
    monkeypatch.setenv(FUNCTION_MODULES, "other")
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    with pytest.raises(ConflictResolverError, match=r'"os\.path:isfile" is not allowed'):
        replica.apply(insert("1", "remote", "20"), insert_exists="os.path:isfile")


# Commit times -------------------------------------------------------------------------------------


def test_commit_times_that_are_no_longer_kept_stop_the_subscription(replica):
    replica.execute("INSERT INTO t VALUES ('kept', 10, 1, 'local')")
    tracked = replica.target.origins is not None and replica.execute("SHOW track_commit_timestamp") == [("on",)]
    if tracked:
        pytest.skip("the server keeps commit times")
    with pytest.raises(NotSupportedError, match="last_update_wins needs track_commit_timestamp"):
        replica.apply(insert("1", "remote", "20"), insert_exists="last_update_wins")
    assert replica.rows() == [(1, "local", 10, "kept")]
