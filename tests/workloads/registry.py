"""Workloads: what publishers do, written once, for a server and for the Publisher in memory.

A workload is a generator function. Before its ``yield`` it makes the tables and publications that
exist when the slots are created; after it comes what is decoded::

    @workload
    def two_rows(publisher):
        table(publisher)
        publish(publisher, "t")
        yield
        publisher.session().insert("t", a=1, b="x")

Every workload is decoded with every :class:`~tests.workloads.runs.Run` that its server knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from subscriber.postgres.publication.definition import OPERATIONS, Publication, TableEntry

Script = Callable[[Any], Iterator[None]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload.

    Attributes:
        name: its name.
        script: the function.
        publications: the option ``publication_names``.
        since: the first major version that can run it.
    """

    name: str
    script: Script
    publications: str = "p"
    since: int = 15


WORKLOADS: dict[str, Workload] = {}


def workload(script: Script | None = None, **properties: Any) -> Any:
    """Register a workload under the name of its function."""

    def register(function: Script) -> Script:
        name = function.__name__
        assert name not in WORKLOADS
        WORKLOADS[name] = Workload(name, function, **properties)
        return function

    return register if script is None else register(script)


def table(publisher: Any, name: str = "t", key: Sequence[str] = ("a",), **columns: str) -> None:
    """A table; by default with an integer key ``a`` and a text ``b``."""
    publisher.create_table(name, columns or {"a": "integer", "b": "text"}, key)


def publication(*tables: str | TableEntry, name: str = "p", **properties: Any) -> Publication:
    """A publication of some tables."""
    entries = tuple(entry(one) if isinstance(one, str) else one for one in tables)
    publish = frozenset(properties.pop("publish", OPERATIONS))
    return Publication(name, tables=entries, publish=publish, **properties)


def entry(name: str, columns: Sequence[str] | None = None, where: str | None = None) -> TableEntry:
    """A table of a publication."""
    schema, dot, bare = name.rpartition(".")
    return TableEntry(schema if dot else "public", bare, None if columns is None else tuple(columns), where)


def publish(publisher: Any, *tables: str | TableEntry, **properties: Any) -> None:
    """Create or alter a publication of some tables."""
    publisher.create_publication(publication(*tables, **properties))


def random_text(length: int, seed: int = 1) -> str:
    """A text that cannot be compressed, so that a server stores it out of line if it is long."""
    state, found = seed * 2654435761 % 2**32, []
    for _ in range(length):
        state = (state * 1664525 + 1013904223) % 2**32
        found.append(chr(33 + (state >> 16) % 90))
    return "".join(found).replace("'", "x").replace("\\", "y")


# What several workloads do ----------------------------------------------------------------------

BIG = "x" * 1800
"""Too short to be compressed. A block of 64 kB has 33 rows of it."""

ORIGIN_TIME = 600_000_000_000_000
"""2019-01-05, in microseconds since 2000."""


def two_tables(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", "u")
    return publisher.session()


def warm(session):
    """Change both tables first. Then no catalog is read for them later, which would find out that a
    transaction was rolled back before its end is decoded (rule E14).
    """
    for name in ("t", "u"):
        session.insert(name, a=-1, b="first")


def many(session, name="t", rows=20, start=1):
    for number in range(start, start + rows):
        session.insert(name, a=number, b=BIG)


def from_origin(session, origin, lsn):
    session.replicate_origin(origin)
    session.origin_xact(lsn, ORIGIN_TIME + lsn)
