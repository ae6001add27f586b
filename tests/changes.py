"""Two relations, and changes of their rows as the publisher sends them, for tests of apply."""

from __future__ import annotations

from subscriber.postgres.protocol import messages as m
from tests.frames import relation, values

T = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, ["a"])
U = relation("public.u", {"a": "int4", "b": "text"}, identity="f", oid=2)

Texts = tuple[str | m.Absence | None, ...]


def insert(*texts: str | m.Absence | None, into: int = T.relation_id) -> m.Insert:
    """An INSERT of a row, with its values in the relation's column order."""
    return m.Insert(into, values(*texts))


def update(new: Texts, *, key: Texts | None = None, old: Texts | None = None, of: int = T.relation_id) -> m.Update:
    """An UPDATE, with the old key, with the whole old row, or without an old tuple."""
    if key is not None:
        return m.Update(of, "K", values(*key), values(*new))
    return m.Update(of, None if old is None else "O", None if old is None else values(*old), values(*new))


def delete(*key: str | None, of: int = T.relation_id) -> m.Delete:
    """A DELETE by the key of a row."""
    return m.Delete(of, "K", values(*key))
