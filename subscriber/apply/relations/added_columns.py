"""Columns that a new relation message adds, renames or replaces, and the value of an added column
in older rows.

::

    before  (a, b)        (a, b)          (a, b)             (a, b, c)
    now     (a, b, c)     (a, c)          (a)                (a, c, b)
            c was added   b was renamed,  b was dropped;     b and c were renamed, or dropped
                          or replaced     nothing to do      and added again

*Names.* The stream identifies columns by their names only. A renamed column looks like one column
that has disappeared and one that is new. A column that was dropped while another was added looks
the same. The messages do not show which of the two happened, and treating one as the other would be
wrong, so the user must decide. Columns are announced in the order of their attribute numbers, which
never change. Therefore a common column in another place was also renamed, or it was dropped and
added again.

*Values.* ALTER TABLE ADD COLUMN computes the value of the new column for the rows that already
exist, once. This is the *missing value* (``attmissingval``). No later command changes it, but it is
removed when the table is rewritten. A later change of such a row sends the column's value, and that
change comes later in the stream. So it is exact to give the missing value to all rows of the target
at the place of the new message, whatever the publisher has done with its rows since. Without a
missing value these rows have NULL, provided that the table was not rewritten. A volatile default
rewrites the table, and so does VACUUM FULL. Two more conditions must hold:

- The column is new. An older column may have been added to a column list, or the column list may
  have been removed. The program compares the column's number with the highest number that the table
  had when it was copied or last examined (:class:`Baseline`).
- The publisher's catalog still describes the column that the message means. PostgreSQL never reuses
  a number. If a table has all columns of the message in the same order, and other columns only
  after them, then it is the table of the message.

*Rejected:* reading the values of the rows from the publisher. Those values belong to another moment
than the place in the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.schema.attributes import Attribute, TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn


@dataclass(frozen=True, slots=True)
class OlderRows:
    """The value of an added column in the rows that existed before it.

    Attributes:
        value: the text of the value that all of these rows have; None is NULL.
        unknown: why the value cannot be determined, as the end of a sentence; None where ``value``
            is exact.
    """

    value: str | None = None
    unknown: str | None = None


# Names --------------------------------------------------------------------------------------------


def renames(before: Sequence[KeptColumn], now: Sequence[KeptColumn]) -> list[tuple[str, str]]:
    """The renames that may have happened: pairs of the old and the new name.

    Between two columns that are in both lists, the columns that have disappeared and the new
    columns are paired in their order, if their types are the same.
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
    """The columns that are in both lists, if their order differs; otherwise an empty tuple."""
    earlier, later = [one.name for one in before], [one.name for one in now]
    common = [name for name in earlier if name in later]
    return tuple(common) if common != [name for name in later if name in common] else ()


# Values -------------------------------------------------------------------------------------------


def older_rows(
    column: RelationColumn, remote: Relation, baseline: Baseline | None, now: TableAttributes | None
) -> OlderRows:
    """Determine the value of ``column`` in the rows that existed before it.

    Args:
        column: a column of ``remote`` that is new there.
        remote: the relation message.
        baseline: what is known of the table from before the message.
        now: the table in the publisher's catalog; None where the table no longer exists.
    """
    found = _attributes_of(remote, now)
    if now is None or found is None:
        return OlderRows(unknown="the publisher's table has been altered again since")
    attribute = found[column.name]
    if attribute.generated:
        return OlderRows(unknown="it is a generated column at the publisher")
    if baseline is None:
        return OlderRows(unknown="it is not known whether the publisher's table had the column before, or published it")
    if attribute.number <= baseline.last:
        return OlderRows(
            unknown="the publisher's table had the column before, and a publication has only now begun to publish it"
        )
    if not now.whole:
        return OlderRows(unknown="a column list publishes the column, and rows may have been sent before it did")
    if attribute.missing:
        (value, *others) = attribute.missing
        return OlderRows(unknown="the publisher's partitions have different values") if others else OlderRows(value)
    if any(file != baseline.files.get(oid, oid) for oid, file in now.files.items()):
        return OlderRows(
            unknown="its default is not a constant, or the publisher's table has been rewritten since (TRUNCATE, VACUUM FULL, ALTER TABLE)"
        )
    return OlderRows()


def next_baseline(remote: Relation, baseline: Baseline | None, now: TableAttributes | None) -> Baseline | None:
    """The baseline after ``remote`` has been applied.

    The files are those of the moment when the publisher was asked. If the table has columns that
    the message does not have, the files may have been rewritten for one of these columns.
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
    """The attributes that a message describes, by name; None where the catalog has others now."""
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
