"""Facts of the publisher's tables that hold for a part of the stream only.

The partition tree is read from the publisher's catalog, which is newer than the changes that still
wait. So a table that was attached, detached or renamed has two sets of facts, and a place in the
stream at which the second set begins::

    changes of the table    I  I │ D │ I  I  I           D: ALTER TABLE … DETACH PARTITION
    relation messages    R       │   │ R
                      earlier    │   │ now
                         since ──┘   └── ends: the first change after D

The server sends the relation message again with the first change after D. But other causes
(ANALYZE, CREATE INDEX, a new connection) lead to relation messages as well. The catalog's row tells
the transaction ID of D, and the order of the IDs decides which message is the one after D. D locks
the table, so every change of the table has its LSN before D or after D.

If more than one place is left, the changes between these places are refused. So are the changes
between two alterations, because the catalog shows only the last one: a table that was attached and
detached again has its old place, but other versions of its rows in the catalog.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.postgres.publication.combine import published_as
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables

_XIDS: Final = 2**32


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """The facts of a table before it was altered: the table and its ancestors, the nearest first.

    Changes before ``since`` were sent with these facts. ``changed_by`` is the last transaction that
    altered one of them. ``was_elsewhere``: the table may have had another place in between.
    ``ends``: a change before the first LSN has these facts, one from the second on the present
    ones, and one in between cannot be published; None until :func:`place_of` has looked at the
    journal.
    """

    tables: tuple[PublisherTable, ...]
    since: int
    changed_by: int
    was_elsewhere: bool = False
    ends: tuple[int, int] | None = None

    @property
    def oid(self) -> int:
        return self.tables[0].oid


@dataclass(frozen=True, slots=True)
class TableChange:
    """``is_described``: the server has sent the table's relation message with this change."""

    lsn: int
    xid: int
    is_described: bool


def earlier_tables(
    publications: Sequence[Publication], before: PublisherTables, now: PublisherTables
) -> Iterator[EarlierTable]:
    known = {table.oid: table for table in before.tables.values()}
    roots = {
        _names(table) for one in (before, now) for table in one.tables.values() if table.kind == "partitioned table"
    }
    former = renamed(publications, {new: old for old, new in renamed_tables(before, now).items()})
    for table in now.tables.values():
        if table.kind != "table" or table.persistence != "permanent":
            continue
        if table.oid in known:
            was = known[table.oid]
            chain = (was, *before.ancestors(was))
        else:
            if not table.is_partition or table.created_by == table.placed_by:
                continue
            chain = (replace(table, parents=(), is_partition=False),)  # it was created, and attached later
        present = (table, *now.ancestors(table))
        moved = any(_was_elsewhere(was, one, roots) for was in chain for one in present if one.oid == was.oid)
        if moved or _effect(former, as_it_was(now, chain), chain[0]) != _effect(publications, now, table):
            yield EarlierTable(chain, before.known_until, _changed_by(chain, present), moved)


def _was_elsewhere(was: PublisherTable, now: PublisherTable, roots: Container[frozenset[str]]) -> bool:
    """Whether a table may have had a third place in the partition tree, between two known ones."""
    if _parent(was) != _parent(now):
        return was.is_partition and now.is_partition
    if not was.placed_by or was.placed_by == now.placed_by:
        return False
    return now.is_partition or _names(now) in roots  # DETACH alters the rows of all columns, and few other commands do


def _names(table: PublisherTable) -> frozenset[str]:
    return frozenset(column.name for column in table.columns)


def _effect(publications: Iterable[Publication], tables: PublisherTables, table: PublisherTable) -> object:
    found = published_as(publications, tables, table)
    if found is None:
        return None
    to = found.table
    return (
        to.key,
        to.oid,
        found.operations,
        tuple(one.name for one in found.publications),
        (to.identity, to.identity_columns) if to.oid != table.oid else None,
    )


def _changed_by(before: Sequence[PublisherTable], now: Sequence[PublisherTable]) -> int:
    known = {table.oid: table for table in before}
    found = [
        table.placed_by
        for table in now
        if _parent(known.get(table.oid)) != _parent(table)
        or (table.oid in known and known[table.oid].placed_by != table.placed_by)
    ]
    found += [
        table.altered_by for table in now if table.oid in known and _own_facts(known[table.oid]) != _own_facts(table)
    ]
    last = 0
    for xid in found:
        last = xid if not last or is_older(last, xid) else last
    return last


def _parent(table: PublisherTable | None) -> tuple[tuple[str, str], ...]:
    return table.parents if table is not None and table.is_partition else ()


def _own_facts(table: PublisherTable) -> object:
    return table.key, table.identity, table.identity_columns


def is_older(one: int, other: int) -> bool:
    """Whether a transaction ID was assigned before another one; they wrap around."""
    return 0 < (other - one) % _XIDS < _XIDS // 2


def as_it_was(now: PublisherTables, chain: Sequence[PublisherTable]) -> PublisherTables:
    oids = {table.oid for table in chain}
    others = {key: table for key, table in now.tables.items() if table.oid not in oids}
    return replace(now, tables=others | {table.key: table for table in chain})


# Renamed members ----------------------------------------------------------------------------------


def renamed_tables(before: PublisherTables, now: PublisherTables) -> dict[tuple[str, str], tuple[str, str]]:
    """The former names of the tables that were renamed or moved, with their names now."""
    keys = {table.oid: key for key, table in now.tables.items()}
    return {key: keys[table.oid] for key, table in before.tables.items() if keys.get(table.oid, key) != key}


def renamed(
    publications: Iterable[Publication], names: Mapping[tuple[str, str], tuple[str, str]]
) -> tuple[Publication, ...]:
    """Server's publications follow a table that is renamed. A name that one has already stays."""
    return tuple(
        replace(
            one,
            tables=tuple(_called(one, entry, names) for entry in one.tables),
            excepted=tuple(names.get(key, key) for key in one.excepted),
        )
        for one in publications
    )


def _called(
    publication: Publication, entry: TableEntry, names: Mapping[tuple[str, str], tuple[str, str]]
) -> TableEntry:
    schema, name = names.get(entry.key, entry.key)
    return entry if publication.entry(schema, name) is not None else replace(entry, schema=schema, name=name)


# The place in the stream --------------------------------------------------------------------------


def place_of(
    earlier: EarlierTable, changes: Sequence[TableChange], begins: Iterable[tuple[int, int]]
) -> tuple[int, int]:
    """Where the earlier facts of a table end (:attr:`EarlierTable.ends`), from its ``changes`` in
    the journal, which has all transactions that ended before the facts were read. ``begins`` has
    for each the LSN of its first change, and its ID, which is assigned when a transaction writes
    first.
    """
    late = [change for change in changes if change.lsn >= earlier.since]
    described = [number for number, change in enumerate(late) if change.is_described]
    after_all = late[-1].lsn + 1 if late else earlier.since
    if not described:
        return after_all, after_all
    last_before = max((lsn for lsn, xid in begins if is_older(xid, earlier.changed_by)), default=0)
    places = [
        number
        for number in (*described, len(late))
        if not any(is_older(earlier.changed_by, change.xid) for change in late[described[0] : number])
        and not any(is_older(change.xid, earlier.changed_by) and change.lsn <= last_before for change in late[number:])
    ]
    inside = [
        number
        for number in places
        if 0 < number < len(late) and late[number - 1].xid == late[number].xid == earlier.changed_by
    ]
    if len(inside) == 1:
        places = inside
    lsns = [late[number].lsn if number < len(late) else after_all for number in places or (*described, len(late))]
    if earlier.was_elsewhere:
        lsns.append(late[described[0]].lsn)
    return min(lsns), max(lsns)
