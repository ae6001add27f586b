"""Which foreign keys a target's table lacks, or has with other actions."""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.migration.schema.compared import Compared, Missing
from subscriber.schema.shape import ForeignKey
from subscriber.targets.table_changes import NewForeignKey


def compare_foreign_key(both: Compared, key: ForeignKey) -> Iterator[Missing]:
    """A foreign key of the publisher's table: whether the target has it, with its actions."""
    references = both.references.get((key.schema, key.table))
    reason = ""
    if references is None:
        reason = f'the target has no table "{both.names.qualified(key.schema, key.table)}"'
    elif any(both.table.column(name) is None for name in key.columns):
        reason = "a column of it is not replicated"
    else:
        pairs = frozenset(zip(key.columns, key.referenced, strict=True))
        for one in both.found.foreign_keys:
            same_pairs = not one.referenced or frozenset(zip(one.columns, one.referenced, strict=True)) == pairs
            if one.table != references.name or frozenset(one.columns) != frozenset(key.columns) or not same_pairs:
                continue
            if not _same_actions((one.on_delete, one.on_update), key):
                reason = f"the target's foreign key has ON DELETE {one.on_delete} ON UPDATE {one.on_update}"
                break
            return
    if references is None or reason:
        yield Missing("foreign key", key.name, None, reason, key.ddl)
        return
    is_shared = key.name in both.shared_names and not both.keeps_types  # there a table has its own names
    name = both.place(f"{both.objects.shape.name}_{key.name}" if is_shared else key.name)
    yield Missing("foreign key", key.name, NewForeignKey(key, name, references), publisher_ddl=key.ddl)


def _same_actions(found: tuple[str, str], key: ForeignKey) -> bool:
    """Whether the actions are the same; some databases do not distinguish RESTRICT."""
    wanted: tuple[str, str] = (key.on_delete, key.on_update)
    if key.set_columns:
        wanted = (found[0], key.on_update)
    return all(
        one == other or {one, other} == {"RESTRICT", "NO ACTION"} for one, other in zip(found, wanted, strict=True)
    )
