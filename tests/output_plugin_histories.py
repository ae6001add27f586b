"""Random histories of a :class:`~subscriber.postgres.logical_decoding.MemoryDatabase`: interleaved
sessions, savepoints, prepared transactions, DDL.

A history is a list of steps that hypothesis draws. A step that PostgreSQL would refuse, or at which
it would wait for another session, does nothing. So every list of steps is a history, and
hypothesis can leave out any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import Column, MemoryDatabase, Session, Toasted
from subscriber.postgres.publication.definition import Operation, Publication, TableEntry
from subscriber.postgres.types.byte_strings import byteaout
from subscriber.targets import Target

SESSIONS: Final = 3
TEXTS: Final = (None, "", "show", "hidden", "007")
BIG: Final = "out of line " * 20
TYPES: Final = {
    "b": "boolean",
    "f": "double precision",
    "d": "date",
    "y": "bytea",
    "u": "uuid",
    "j": "jsonb",
    "r": "numeric(10,2)",
    "t": "timestamptz",
    "i": "integer[]",
}
SAMPLES: Final = (
    dict.fromkeys(TYPES),
    {
        "b": True,
        "f": 0.1,
        "d": "2026-02-28",
        "y": b"\0\xff",
        "u": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "j": '{"a": [1, null]}',
    }
    | {"r": "12.50", "t": "2026-01-01 12:00:00+00", "i": "{1,NULL,3}"},
    {"b": False, "f": float("nan"), "d": "infinity", "y": b"", "u": "00000000-0000-0000-0000-000000000000", "j": "null"}
    | {"r": "-0.01", "t": "-infinity", "i": "{}"},
)

LOGGED: Final = frozenset[Operation]({"insert", "truncate"})

EVERYTHING: Final = (Publication("p", all_tables=True),)
BY_ROOT: Final = (Publication("p", all_tables=True, via_root=True, generated_columns="stored"),)
BY_SCHEMA: Final = (Publication("p", schemas=("public",), via_root=True),)
FILTERED: Final = (
    Publication(
        "p1",
        tables=(
            TableEntry("public", "item", where="txt = 'show'"),
            TableEntry("public", "coded", columns=("code", "v"), where="left(code, 1) <> 'b'"),
            TableEntry("public", "typed"),
        ),
        via_root=True,
    ),
    Publication(
        "p2",
        tables=(
            TableEntry("public", "item", where="id > 3"),
            TableEntry("public", "bag", where="a > 1"),
            TableEntry("public", "part", where="id > 1"),
            TableEntry("public", "log"),
            TableEntry("public", "typed", where="id = 0"),
        ),
        via_root=True,
    ),
)
NAMED: Final = (
    Publication("rows", tables=(TableEntry("public", "item"), TableEntry("public", "part")), via_root=True),
    Publication("log", tables=(TableEntry("public", "log", columns=("b",)),), publish=LOGGED),
)
PUBLICATIONS: Final = {
    "everything": EVERYTHING,
    "by root": BY_ROOT,
    "by schema": BY_SCHEMA,
    "filtered": FILTERED,
    "named": NAMED,
}

LEAVES: Final = {"part_a": ("a",), "part_b": ("b",), "part_rest": None}
REGIONS: Final = ("a", "b", "z")

COLUMNS: Final = {
    "item": ("id", "txt", "big", "n", "more"),
    "bag": ("a", "b"),
    "coded": ("id", "code", "v", "twice"),
    "log": ("a", "b"),
    "typed": ("id", *TYPES),
    "part": ("id", "region", "v"),
    **dict.fromkeys(LEAVES, ("id", "region", "v")),
    "late": ("id", "v"),
}
"""The tables at the target with all columns that they may get."""

KEYS: Final = {
    "item": "id",
    "coded": "code",
    "typed": "id",
    "late": "id",
    **dict.fromkeys(("part", *LEAVES), "id, region"),
}
"""The primary keys at the target."""

STATEMENTS: Final = (
    *("item+", "item+", "item~", "item~", "item touch", "item move", "item-"),
    *("bag+", "bag~", "bag-", "coded+", "coded~", "coded code", "coded-", "log+", "typed+", "typed~", "typed-"),
    *("part+", "part+", "part~", "part move", "part-", "late+"),
    *("truncate item", "truncate bag", "truncate part", "truncate all"),
    *("message", "message at once"),
    *("add column", "drop column", "create late", "identity", "publication", "rewrite"),
)
CONTROLS: Final = (
    *("begin", "begin", "begin", "commit", "commit", "rollback", "savepoint", "savepoint", "release", "rollback to"),
    *("prepare", "prepare", "commit prepared", "rollback prepared", "origin"),
)

steps = st.tuples(
    st.sampled_from((*STATEMENTS, *CONTROLS, *CONTROLS)),
    st.integers(0, SESSIONS - 1),
    st.integers(0, 5),
    st.integers(0, 5),
)
Step = tuple[str, int, int, int]


@dataclass
class Level:
    """A transaction or a savepoint of a session: its name, and its messages."""

    name: str = ""
    messages: list[tuple[bool, str, str]] = field(default_factory=list)


class History:
    """A publisher, its sessions, and what a subscriber must have after each commit.

    Args:
        published: the publications, a key of ``PUBLICATIONS``.

    Attributes:
        messages: the logical messages, as they must be delivered: (transactional, prefix, content).
    """

    def __init__(self, published: str = "everything") -> None:
        self.published = published
        self.publications = PUBLICATIONS[published]
        self.publisher = MemoryDatabase()
        self.sessions = [self.publisher.session() for _ in range(SESSIONS)]
        self.messages: list[tuple[bool, str, str]] = []
        self._levels: list[list[Level]] = [[] for _ in range(SESSIONS)]
        self._prepared: dict[str, list[Level]] = {}
        self._users: dict[str, set[str]] = {}
        self._owners: dict[tuple[str, object], str] = {}
        self._next = 0
        self._create()

    def _create(self) -> None:
        publisher = self.publisher
        for publication in self.publications:
            publisher.create_publication(publication)
        publisher.create_table(
            "item", {"id": "integer", "txt": "text", "big": "text", "n": "numeric"}, primary_key=["id"]
        )
        publisher.create_table("bag", {"a": "integer", "b": "text"})
        publisher.create_table(
            "coded",
            [
                Column("id", "integer"),
                Column("code", "varchar(10)"),
                Column("twice", "integer", "stored", "v * 2", lambda row: None if row["v"] is None else 2 * row["v"]),
                Column("v", "integer"),
            ],
            primary_key=["id"],
        )
        publisher.create_table("log", {"a": "integer", "b": "text"})
        publisher.create_table("typed", {"id": "integer", **TYPES}, primary_key=["id"])
        publisher.create_table(
            "part",
            {"id": "integer", "region": "text", "v": "text"},
            primary_key=["id", "region"],
            partition_by="region",
        )
        for number in range(SESSIONS):
            publisher.create_origin(f"far {number}")
        session = publisher.session()
        for leaf, values in LEAVES.items():
            # One partition has its columns in another order, as after ATTACH PARTITION.
            columns = {"v": "text", "id": "integer", "region": "text"} if leaf == "part_b" else None
            session.create_partition(leaf, "part", values, columns=columns)
        session.replica_identity("bag", "full")
        session.replica_identity("coded", "index", ["code"])
        session.replica_identity("log", "nothing")
        if self.published == "filtered":
            session.replica_identity("item", "full")

    # Steps ----------------------------------------------------------------------------------------

    def run(self, step: Step) -> None:
        """Run one step, or do nothing if it is not possible."""
        what, number, key, other = step
        if what in CONTROLS:
            self._control(what, number, key)
        elif self._may(what, number, key, other):
            try:
                self._statement(what, number, key, other)
            except UsageError:  # the key exists, or there is no such table now: the transaction is aborted
                self._control("rollback", number, 0)

    def finish(self) -> None:
        """End everything that is open: by turns with COMMIT and ROLLBACK."""
        for number, levels in enumerate(self._levels):
            if levels:
                self._control("rollback" if number == 1 else "commit", number, 0)
        for place, _ in enumerate(list(self._prepared)):
            self._control("rollback prepared" if place % 2 else "commit prepared", 0, 0)

    def _control(self, what: str, number: int, key: int) -> None:
        session, levels = self.sessions[number], self._levels[number]
        who = str(number)
        match what:
            case "begin" if not levels:
                session.begin()
                levels.append(Level())
            case "commit" if levels:
                session.commit()
                self._ended(who, levels)
                levels.clear()
            case "rollback" if levels:
                session.rollback()
                self._ended(who, [])
                levels.clear()
            case "savepoint" if levels:
                name = f"s{key % 2}"
                session.savepoint(name)
                levels.append(Level(name))
            case "release" | "rollback to" if len(levels) > 1:
                self._savepoint(what, session, levels, f"s{key % 2}")
            case "origin" if not levels:
                session.replicate_origin(f"far {number}" if key % 2 else "")
                session.origin_xact(0x100 * key)
            case "prepare" if levels:
                gid = f"gid {self._number()}"
                session.prepare(gid)
                self._prepared[gid] = list(levels)
                self._rename(who, gid)
                levels.clear()
            case "commit prepared" | "rollback prepared" if self._prepared:
                gid = list(self._prepared)[key % len(self._prepared)]
                kept = self._prepared.pop(gid)
                if what == "commit prepared":
                    session.commit_prepared(gid)
                    self._ended(gid, kept)
                else:
                    session.rollback_prepared(gid)
                    self._ended(gid, [])

    def _savepoint(self, what: str, session: Session, levels: list[Level], name: str) -> None:
        places = [place for place, level in enumerate(levels) if place and level.name == name]
        if not places:
            return
        if what == "release":
            session.release(name)
            levels[places[-1] - 1].messages += [one for level in levels[places[-1] :] for one in level.messages]
            del levels[places[-1] :]
        else:
            session.rollback_to(name)
            levels[places[-1] :] = [Level(name)]

    def _ended(self, who: str, levels: list[Level]) -> None:
        self.messages += [message for level in levels for message in level.messages]
        for users in self._users.values():
            users.discard(who)
        self._owners = {what: owner for what, owner in self._owners.items() if owner != who}

    def _rename(self, who: str, gid: str) -> None:
        for users in self._users.values():
            if who in users:
                users.remove(who)
                users.add(gid)
        self._owners = {what: gid if owner == who else owner for what, owner in self._owners.items()}

    def _number(self) -> int:
        self._next += 1
        return self._next

    # Locks ----------------------------------------------------------------------------------------

    def _may(self, what: str, number: int, key: int, other: int) -> bool:
        """Take the locks of a statement; False if PostgreSQL would wait for another session."""
        wanted: list[tuple[str, object]] = []
        tables: tuple[str, ...] = ()
        exclusive: tuple[str, ...] = ()
        match what.split():
            case ["message", *_] | ["publication"]:
                pass
            case ["truncate", "all"]:
                exclusive = ("item", "bag", "log")
            case ["truncate", table]:
                exclusive = (table,)
            case ["add" | "drop", "column"] | ["identity"] | ["rewrite"]:
                exclusive = ("item",)
            case ["create", "late"]:
                exclusive = ("late",)
            case [table, *_]:
                table = table.rstrip("+~-")
                tables = (table,)
                wanted = [(table, key), (table, other)]
        who = str(number)
        users = [user for table in exclusive for user in self._users.get(table, ())]
        owners = [self._owners.get(one) for one in (*wanted, *((table, "table") for table in (*tables, *exclusive)))]
        if any(one not in {who, None} for one in (*users, *owners)):
            return False
        if self._levels[number]:
            for table in (*tables, *exclusive):
                self._users.setdefault(table, set()).add(who)
            self._owners |= dict.fromkeys((*wanted, *((table, "table") for table in exclusive)), who)
        return True

    # Statements -----------------------------------------------------------------------------------

    def _statement(self, what: str, number: int, key: int, other: int) -> None:
        session, text = self.sessions[number], TEXTS[other % len(TEXTS)]
        big = Toasted(BIG + str(self._number())) if other % 2 else text
        match what:
            case "item+":
                session.insert("item", id=key, txt=text, big=big, n=f"{other}.50", on_conflict=key == 5)
            case "item~":
                session.update("item", {"id": key}, txt=text)
            case "item touch":
                session.update("item", {"id": key}, big=big, n=None)
            case "item move":
                session.update("item", {"id": key}, id=other)
            case "item-":
                session.delete("item", {"id": key})
            case "bag+":
                session.insert("bag", a=key, b=text)
            case "bag~":
                session.update("bag", {"a": key}, a=other)
            case "bag-":
                session.delete("bag", {"a": key})
            case "coded+":
                session.insert("coded", id=key, code=f"{'bc'[other % 2]}{self._number()}", v=other)
            case "coded~":
                session.update("coded", {"id": key}, v=other)
            case "coded code":
                session.update("coded", {"id": key}, code=f"{'bc'[other % 2]}{self._number()}")
            case "coded-":
                session.delete("coded", {"id": key})
            case "log+":
                session.insert("log", a=key, b=text)
            case "typed+":
                session.insert("typed", {"id": key, **SAMPLES[other % len(SAMPLES)]})
            case "typed~":
                session.update("typed", {"id": key}, **SAMPLES[other % len(SAMPLES)])
            case "typed-":
                session.delete("typed", {"id": key})
            case _:
                self._further(what, session, number, key, other)

    def _further(self, what: str, session: Session, number: int, key: int, other: int) -> None:
        text = TEXTS[other % len(TEXTS)]
        match what:
            case "part+":
                if not any(row["id"] == str(key) for row in session.select("part")):
                    session.insert("part", id=key, region=REGIONS[other % len(REGIONS)], v=text)
            case "part~":
                session.update("part", {"id": key}, v=text)
            case "part move":
                session.update("part", {"id": key}, region=REGIONS[other % len(REGIONS)])
            case "part-":
                session.delete("part", {"id": key})
            case "late+":
                session.insert("late", id=self._number(), v=text)
            case "truncate all":
                session.truncate("item", "bag", "log", cascade=True, restart_identity=True)
            case "truncate item" | "truncate bag" | "truncate part":
                session.truncate(what.split()[1])
            case "message":
                self._message(session, number, transactional=True)
            case "message at once":
                self._message(session, number, transactional=False)
            case "add column":
                session.add_column("item", Column("more", "integer"))
            case "drop column":
                session.drop_column("item", "n")
            case "create late":
                session.create_table("late", {"id": "integer", "v": "text"}, primary_key=["id"])
            case "identity" if self.published != "filtered":
                session.replica_identity("item", "full" if key % 2 else "default")
            case "publication":
                session.create_publication(self.publications[key % len(self.publications)])
            case "rewrite":
                session.rewrite_table("item")

    def _message(self, session: Session, number: int, *, transactional: bool) -> None:
        message = (transactional, "history", f"message {self._number()}")
        session.message(*message[1:], transactional=transactional)
        levels = self._levels[number]
        (levels[-1].messages if transactional and levels else self.messages).append(message)

    # The final state ------------------------------------------------------------------------------

    def expected(self) -> dict[str, Counter[tuple[str | None, ...]]]:
        """What a subscriber to the publications must have of what is committed."""
        return {table: Counter(self._rows(table)) for table in COLUMNS}

    @property
    def dropped(self) -> set[tuple[str, str]]:
        """The columns that were dropped: their values stay in the target."""
        item = self.publisher.catalog.tables.find("public", "item")
        return set() if item is None or item.column("n") else {("item", "n")}

    def _rows(self, table: str) -> Iterator[tuple[str | None, ...]]:
        via_root = self.publications[0].via_root
        if table in LEAVES if via_root else table == "part":
            return
        try:
            rows: list[dict[str, Any]] = self.publisher.select(table)
        except UsageError:  # it was not created, or not committed
            return
        for row in rows:
            shown = self._published(table, row)
            if shown is not None:
                yield tuple(shown.get(column) for column in COLUMNS[table])

    def _published(self, table: str, row: dict[str, str | None]) -> dict[str, str | None] | None:
        shown = {name: value for name, value in row.items() if name != "twice"}
        if self.published == "by root":
            return row
        if self.published == "named":
            return {"item": shown, "part": shown, "log": {"b": row.get("b")}}.get(table)
        if self.published != "filtered":
            return shown
        matching = {
            "item": row.get("txt") == "show" or int(row.get("id") or 0) > 3,
            "coded": not (row.get("code") or "").startswith("b"),
            "bag": int(row.get("a") or 0) > 1,
            "part": int(row.get("id") or 0) > 1,
            "late": False,
        }
        if not matching.get(table, True):
            return None
        return {"code": row["code"], "v": row["v"]} if table == "coded" else shown


def create_tables(target: Target) -> None:
    """Create the tables of a history at the target. All columns but integers are text."""
    with target.begin() as connection:
        for table, columns in COLUMNS.items():
            parts = [f"{name} {'INTEGER' if name in {'id', 'a'} else 'TEXT'}" for name in columns]
            if table in KEYS:
                parts.append(f"PRIMARY KEY ({KEYS[table]})")
            connection.exec_driver_sql(f"CREATE TABLE {table} ({', '.join(parts)})")


def contents(target: Target, dropped: Collection[tuple[str, str]] = ()) -> dict[str, Counter[tuple[str | None, ...]]]:
    """The rows of every table of a history at the target, as text.

    Args:
        target: the target.
        dropped: the columns that the publisher has dropped, which read as NULL here.
    """
    found: dict[str, Counter[tuple[str | None, ...]]] = {}
    with target.begin() as connection:
        for table, columns in COLUMNS.items():
            shown = ["NULL" if (table, name) in dropped else name for name in columns]
            rows = connection.exec_driver_sql(f"SELECT {', '.join(shown)} FROM {table}")
            found[table] = Counter(
                tuple(None if value is None else _as_postgresql(value) for value in row) for row in rows
            )
    return found


def _as_postgresql(value: object) -> str:
    """A value as PostgreSQL prints it; the target stores bytea as bytes, and whole time zones."""
    return byteaout(value) if isinstance(value, bytes) else str(value).replace("+00:00", "+00")
