"""Random histories over a target with other rows: with any resolvers, both paths leave the rows,
the progress, the conflict records and the counters that a model says.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.resolver_functions import RowsInConflict
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.base.settings import FUNCTION_MODULES
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.conflict_resolvers import (
    FUNCTION,
    LAST_UPDATE_WINS,
    NO_RESOLVERS,
    OF_ORIGINS,
    RESOLVERS,
    ConflictResolvers,
)
from subscriber.targets import Target, open_target
from tests.appliers import obeying
from tests.frames import relation, transaction, values
from tests.property.test_apply import cut

pytestmark = pytest.mark.slow

T = relation("public.t", {"k": "int4", "u": "int4", "v": "text", "big": "text"}, ["k"], oid=1)
PLAIN = relation("public.plain", {"k": "int4", "u": "int4", "v": "text", "big": "text"}, ["k"], oid=2)
SHAPES = [T, PLAIN]
NAMES = {1: "t", 2: "plain"}
KEYS = {1: ("k", "u"), 2: ("k",)}
"""The columns of the unique keys, in the order of the target's indexes."""
FIRST = LSN(500)

Row = dict[str, Any]


def older_value_wins(rows: RowsInConflict) -> Any:
    """The resolver: it sees only texts, and compares them."""
    assert rows.remote is not None
    return _answer(rows.remote, rows.local)


def _answer(remote: Mapping[str, Any], local: Mapping[str, Any] | None) -> Any:
    if local is None:
        return "apply" if "big" in remote else "keep"
    if local["v"] == remote["v"]:
        return {"v": "both"}
    return "apply" if local["v"] > remote["v"] else "keep"


OURS = f"{__name__}:{older_value_wins.__name__}"


@dataclass(frozen=True)
class Change:
    """A change that need not be possible at a publisher."""

    what: str
    table: int
    key: int
    other: int
    unique: int | None
    text: str

    def message(self) -> m.Message:
        key, unique = str(self.key), None if self.unique is None else str(self.unique)
        match self.what:
            case "insert":
                return m.Insert(self.table, values(key, unique, self.text, self.text))
            case "update":
                return m.Update(self.table, None, None, values(key, unique, self.text, self.text))
            case "touch":
                return m.Update(self.table, None, None, values(key, unique, self.text, m.UNCHANGED))
            case "move":
                old = values(key, None, None, None)
                return m.Update(self.table, "K", old, values(str(self.other), unique, self.text, m.UNCHANGED))
            case "whole":
                old = values(key, unique, "old", "large")
                return m.Update(self.table, "O", old, values(key, unique, self.text, m.UNCHANGED))
            case _:
                return m.Delete(self.table, "K", values(key, None, None, None))


class StoppedError(Exception):
    """A conflict stops the transaction."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass
class Model:
    """The two tables, and what is recorded of conflicts."""

    resolvers: ConflictResolvers
    tables: dict[int, list[Row]]
    recorded: list[tuple[str, str | None, bool | None]] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Model:
        tables = {number: [dict(row) for row in rows] for number, rows in self.tables.items()}
        return Model(self.resolvers, tables, [*self.recorded], Counter(self.counted))

    def run(self, change: Change) -> None:
        sent: Row = {"k": change.key, "u": change.unique, "v": change.text}
        if change.what in ("insert", "update"):
            sent["big"] = change.text
        if change.what == "move":
            sent["k"] = change.other
        if change.what == "insert":
            self.insert(change.table, sent)
            return
        rows = self.tables[change.table]
        own = next((row for row in rows if row["k"] == change.key), None)
        if change.what == "delete":
            if own is None:
                self.decide("delete_missing", None, None)
            else:
                rows.remove(own)
            return
        if own is None:
            full = {**({"big": "large"} if change.what == "whole" else {}), **sent}
            if self.decide("update_missing", full, None) is not None:
                self.insert(change.table, full)
            return
        violated = self.in_the_way(change.table, {**own, **sent}, own)
        if violated:
            answer = self.decide(kind_of("update_exists", violated), {**own, **sent}, violated)
            if answer is None:
                return
            if answer is not ...:
                sent = answer
            else:
                self.tables[change.table] = [row for row in rows if not any(row is one for one in violated)]
        own.update(sent)

    def insert(self, table: int, row: Row) -> None:
        violated = self.in_the_way(table, row, None)
        if not violated:
            self.tables[table].append({"own": "mine", **row})
            return
        answer = self.decide(kind_of("insert_exists", violated), row, violated)
        if answer is None:
            return
        first = violated[0]
        if answer is not ...:
            first.update(answer)
            return
        gone = [one for one in violated if one is not first]
        self.tables[table] = [one for one in self.tables[table] if not any(one is other for other in gone)]
        first.update(row)

    def in_the_way(self, table: int, row: Row, own: Row | None) -> list[Row]:
        """The row in the way by each key; the same one may be in the way by several."""
        return [
            other
            for name in KEYS[table]
            for other in self.tables[table]
            if other is not own and row[name] is not None and other[name] == row[name]
        ]

    def decide(self, kind: str, remote: Row | None, violated: list[Row] | None) -> Any:
        """... to apply the change, None to leave it out, or a row in its place."""
        resolver = self.resolvers.of(kind)
        answer: Any = resolver
        if resolver == OURS:
            assert remote is not None
            answer = _answer(remote, None if violated is None else violated[0])
        elif resolver.startswith("apply_or_"):
            assert remote is not None
            answer = "apply" if "big" in remote else resolver.removeprefix("apply_or_")
        if answer == "error":
            raise StoppedError(kind)
        applied = answer in ("apply", "apply_remote") or isinstance(answer, dict)
        said = (resolver, applied) if self.resolvers.decides(kind) else (None, None)
        self.recorded += [(kind, *said)] * max(1, len(violated or ()))
        self.counted[kind] += 1
        if isinstance(answer, dict):
            return answer
        return ... if applied else None


def kind_of(kind: str, violated: Sequence[Row]) -> str:
    return "multiple_unique_conflicts" if len(violated) > 1 else kind


# Both paths ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, and a catalog that knows the shapes of the relations."""
    file = tmp_path_factory.mktemp("conflict_resolvers") / "template.db"
    with open_target(f"sqlite:///{file}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0))
            connection.exec_driver_sql(
                "CREATE TABLE t (own TEXT DEFAULT 'mine', k INTEGER PRIMARY KEY, u INTEGER UNIQUE, v TEXT, big TEXT)"
            )
            connection.exec_driver_sql(
                "CREATE TABLE plain (k INTEGER PRIMARY KEY, u INTEGER, v TEXT NOT NULL, big TEXT)"
            )
        inserts = [m.Insert(shape.relation_id, values("0", "0", "", "")) for shape in SHAPES]
        frames = cut(transaction(FIRST, *inserts), (), SHAPES)
        ExactApplier(target, subscription="s", subid=1).apply(frames, start=LSN(0), end=FIRST)
        with target.begin() as connection:
            for table in NAMES.values():
                connection.exec_driver_sql(f"DELETE FROM {table}")
    return file


@contextmanager
def target_with(template: Path, model: Model) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        file = shutil.copyfile(template, Path(folder, "t.db"))
        with open_target(f"sqlite:///{file}") as target:
            with target.begin() as connection:
                for number, rows in model.tables.items():
                    for row in rows:
                        names = [name for name in row if number == 1 or name != "own"]
                        connection.exec_driver_sql(
                            f"INSERT INTO {NAMES[number]} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
                            tuple(row[name] for name in names),
                        )
            yield target


@dataclass
class Left:
    """What is left in a target, or in the model."""

    tables: dict[int, list[Row]]
    progress: int
    recorded: list[tuple[str, str | None, bool | None]]
    counted: dict[str, int]
    stopped: str | None


def applied(
    make: type[ExactApplier],
    template: Path,
    model: Model,
    transactions: Sequence[list[m.Message]],
    cuts: list[int],
    together: int,
) -> Left:
    rules = obeying(conflict_resolvers=model.resolvers)
    counted: Counter[str] = Counter()
    stopped = None
    with target_with(template, model) as target:
        applier = make(target, subscription="s", subid=1, read_rules=lambda _: rules)
        done = FIRST
        for first in range(0, len(transactions), together):
            part = transactions[first : first + together]
            frames = cut([message for one in part for message in one], cuts, SHAPES)
            try:
                done = apply_batch(applier, partial(iter, frames), done, LSN(1000 * (first + len(part)))).progress
            except ConflictError as error:
                stopped = error.message.rpartition("conflict=")[2]
                break
        with target.begin() as connection:

            def read(sql: str) -> list[Row]:
                return [dict(row) for row in connection.exec_driver_sql(sql).mappings()]

            tables = {number: read(f"SELECT * FROM {name} ORDER BY k") for number, name in NAMES.items()}
            progress = OriginProgress(1).read(connection)
            recorded = read(
                "SELECT conflict_type, resolution, remote_applied FROM subscriber_conflict ORDER BY conflictid"
            )
            statistics = read("SELECT * FROM subscriber_stat_subscription_stats")
    for row in statistics:
        counted.update({name.removeprefix("confl_"): number for name, number in row.items() if name[:6] == "confl_"})
    said = [(row["conflict_type"], row["resolution"], _boolean(row["remote_applied"])) for row in recorded]
    return Left(tables, progress, said, {kind: number for kind, number in counted.items() if number}, stopped)


def _boolean(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def expected(model: Model, history: Sequence[Sequence[Change]]) -> Left:
    progress, stopped = int(FIRST), None
    for number, changes in enumerate(history, start=1):
        before = model.copy()
        try:
            for change in changes:
                model.run(change)
        except StoppedError as error:
            model, stopped = before, error.kind
            break
        progress = 1000 * number
    tables = {
        number: sorted(({**row} for row in rows), key=lambda row: row["k"]) for number, rows in model.tables.items()
    }
    for row in tables[2]:
        row.pop("own", None)
    return Left(
        tables, progress, model.recorded, {kind: number for kind, number in model.counted.items() if number}, stopped
    )


keys, texts = st.integers(0, 5), st.sampled_from(["a", "b", "c"])
uniques = st.none() | st.integers(0, 5)
actions = st.sampled_from(["insert", "insert", "update", "update", "touch", "move", "whole", "delete"])
changes = st.builds(Change, actions, st.sampled_from([1, 1, 2]), keys, keys, uniques, texts)
histories = st.lists(st.lists(changes, max_size=6), min_size=1, max_size=8)
local_rows = st.lists(st.tuples(keys, uniques, texts), max_size=6)
resolvers = st.fixed_dictionaries(
    {},
    optional={
        kind: st.sampled_from([OURS if one == FUNCTION else one for one in valid if one != LAST_UPDATE_WINS])
        for kind, valid in RESOLVERS.items()
        if kind not in OF_ORIGINS
    },
).map(NO_RESOLVERS.altered)
resolving = st.fixed_dictionaries(
    {
        "insert_exists": st.sampled_from(["apply_remote", "keep_local", OURS]),
        "update_exists": st.sampled_from(["apply_remote", "keep_local", OURS]),
        "multiple_unique_conflicts": st.sampled_from(["apply_remote", "keep_local"]),
        "update_missing": st.sampled_from(["skip", "apply_or_skip", OURS]),
    }
).map(NO_RESOLVERS.altered)
"""Resolvers that never stop a transaction."""


def rows_of(local: Sequence[tuple[int, int | None, str]], table: int) -> list[Row]:
    rows: list[Row] = []
    for key, unique, text in local:
        taken = any(row["k"] == key or (table == 1 and unique is not None and row["u"] == unique) for row in rows)
        if not taken:
            rows.append({"own": "local", "k": key, "u": unique, "v": text, "big": "large"})
    return rows


@settings(max_examples=60)
@given(histories, local_rows, resolvers | resolving, st.lists(st.integers(0, 200), max_size=4), st.integers(1, 8))
def test_both_paths_leave_what_the_model_says(template, history, local, chosen, cuts, together):
    start = Model(chosen, {table: rows_of(local, table) for table in NAMES})
    transactions = [
        transaction(1000 * number, *(change.message() for change in part), xid=number)
        for number, part in enumerate(history, start=1)
    ]
    wanted = expected(start.copy(), history)
    event(f"stopped: {wanted.stopped}")
    event("resolved" if any(resolution for _, resolution, _ in wanted.recorded) else "nothing resolved")
    for make in (ExactApplier, BulkApplier):
        left = applied(make, template, start, transactions, cuts, together)
        assert left == wanted


@pytest.fixture(autouse=True, scope="module")
def _always_reorder() -> Iterator[None]:
    """Reorders and merges short pieces too, and however little that saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FUNCTION_MODULES, __name__)
        patch.setattr(reorder, "_LEAST_FOLDED", 1)
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        patch.setattr(reorder, "_LEAST_SAVED", 0)
        patch.setattr(reorder, "_LEAST_MESSAGES", 1)
        yield
