"""What a new relation message says beside the one before it: columns renamed or replaced, and which
value older rows have in a new one.

::

    before  (a, b)        (a, b)          (a, b)             (a, b, c)
    now     (a, b, c)     (a, c)          (a)                (a, c, b)
            c was added   b was renamed,  b was dropped;     b and c were renamed, or dropped
                          or replaced     nothing to do      and added again

*Names.* The stream tells columns apart by their names alone. A column that is renamed is one that
is gone and one that is new, and so is one that is dropped while another is added. Which of them it
was nobody can tell from the messages, and each answer is wrong for the other, so people are asked.
Columns are announced in the order of their numbers, which they keep for life; so a common column in
another place has been renamed, too, or was dropped and added again.

*Values.* The rows that were there when the publisher's table got a column have its *missing value*
(``attmissingval``), which ALTER TABLE ADD COLUMN works out once; nothing changes it later, but it
is gone when the table is written anew. A change of such a row brings the column's value with it,
and comes later in the stream. So it is exact to give the missing value to all rows of the target in
the place of the new message, whatever the publisher has done with its rows since. Without a missing
value they have NULL, provided that the table was not written anew: a default that is volatile does
that, and so does VACUUM FULL. What must be known besides:

- The column is new. A column of before may have come into a column list, or the list may be gone;
  its number tells, beside the highest one that the table had when it was copied or last looked at
  (:class:`Baseline`).
- The publisher's catalog still speaks of the column that the message means. Numbers are never given
  twice, and a table that has all columns of the message in the message's order, and others only
  behind them, is the one of the message.

*Rejected:* reading the values of the rows from the publisher. They are of another moment than the
place in the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.schema.attributes import Attribute, TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn


@dataclass(frozen=True, slots=True)
class OlderRows:
    """What the rows from before a column have in it.

    Attributes:
        value: the text of the value that all of them have; None is NULL.
        unknown: why nobody can tell, as the end of a sentence; None where ``value`` is exact.
    """

    value: str | None = None
    unknown: str | None = None


# Names --------------------------------------------------------------------------------------------


def renames(before: Sequence[KeptColumn], now: Sequence[KeptColumn]) -> list[tuple[str, str]]:
    """The renames that may be what has happened: pairs of the old and the new name.

    Between two columns that are in both, those that are gone and those that are new belong together
    in their order, if their types do.
    """
    common = {column.name for column in before} & {column.name for column in now}
    pairs = []
    for gone, new in zip(_between(before, common), _between(now, common), strict=True):
        left = list(new)
        for column in gone:
            found = next((one for one in left if _type(one) == _type(column)), None)
            if found is not None:
                pairs.append((column.name, found.name))
                del left[: left.index(found) + 1]
    return pairs


def _between(columns: Sequence[KeptColumn], common: set[str]) -> list[list[KeptColumn]]:
    parts: list[list[KeptColumn]] = [[]]
    for column in columns:
        if column.name in common:
            parts.append([])
        else:
            parts[-1].append(column)
    return parts


def _type(column: KeptColumn) -> tuple[int, int]:
    return column.type_oid, column.type_modifier


def moved(before: Sequence[KeptColumn], now: Sequence[KeptColumn]) -> tuple[str, ...]:
    """The columns that are in both, where they are not in the same order; else none."""
    earlier, later = [one.name for one in before], [one.name for one in now]
    common = [name for name in earlier if name in later]
    return tuple(common) if common != [name for name in later if name in common] else ()


# Values -------------------------------------------------------------------------------------------


def older_rows(
    column: RelationColumn, remote: Relation, baseline: Baseline | None, now: TableAttributes | None
) -> OlderRows:
    """What the rows from before ``column`` have in it.

    Args:
        column: one that has come up in ``remote``.
        remote: the message.
        baseline: what is known from before.
        now: what the publisher's catalog says; None where there is no such table any more.
    """
    found = _attributes_of(remote, now)
    if now is None or found is None:
        return OlderRows(unknown="the publisher's table has been altered again since")
    attribute = found[column.name]
    if attribute.generated:
        return OlderRows(unknown="it is a generated column at the publisher")
    if baseline is None:
        return OlderRows(unknown="it is not known whether the publisher's table had it before, or published it")
    if attribute.number <= baseline.last:
        return OlderRows(unknown="the publisher's table had it before, and has only begun to publish it")
    if not now.whole:
        return OlderRows(unknown="a column list says when the publisher publishes it, and rows may have come before")
    if attribute.missing:
        (value, *others) = attribute.missing
        return OlderRows(unknown="the publisher's partitions have different values") if others else OlderRows(value)
    if any(file != baseline.files.get(oid, oid) for oid, file in now.files.items()):
        return OlderRows(
            unknown="its default is not a constant, or the publisher's table has been rewritten since (TRUNCATE, VACUUM FULL, ALTER TABLE)"
        )
    return OlderRows()


def next_baseline(remote: Relation, baseline: Baseline | None, now: TableAttributes | None) -> Baseline | None:
    """What is known when ``remote`` has been applied.

    Files are those of the moment of the question. With columns that the message has not they may
    have been written anew for one of those.
    """
    found = _attributes_of(remote, now)
    if now is None or found is None or not now.whole:
        return baseline
    is_latest = len(found) == len([one for one in now.columns if not one.generated or one.name in found])
    last = max((one.number for one in found.values()), default=0)
    if is_latest:
        return Baseline(max(last, now.last), now.files)
    return None if baseline is None else Baseline(max(last, baseline.last), baseline.files)


def _attributes_of(remote: Relation, now: TableAttributes | None) -> Mapping[str, Attribute] | None:
    """The attributes that a message speaks of, by name; None where they are not those of today."""
    if now is None:
        return None
    names = {column.name for column in remote.columns}
    mine = [one for one in now.columns if one.name in names]
    announced = [(column.name, column.type_oid, column.type_modifier) for column in remote.columns]
    if [(one.name, one.type_oid, one.type_modifier) for one in mine] != announced:
        return None
    last = max((one.number for one in mine), default=0)
    others = [one for one in now.columns if one.name not in names and not one.generated]
    if now.whole and any(one.number < last for one in others):
        return None
    return {one.name: one for one in mine}
