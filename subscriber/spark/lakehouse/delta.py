"""Tables of Delta Lake, written by the package ``deltalake`` on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

_DELETED = "__deleted"


@dataclass(frozen=True)
class DeltaSink:
    """The Delta table at ``uri``, which the first batch creates if it does not exist.

    Attributes:
        uri: a path or URL, as :class:`deltalake.DeltaTable` takes it.
        app_id: of the application's transactions in Delta's log; their version is the
            ``_commit_version`` up to which the table has every change. Feeds of several publishers
            that go into one table need different ones.
        storage_options: of :class:`deltalake.DeltaTable`; they may hold passwords.
        merge_schema: the table gets the columns of a batch that it lacks. Otherwise they are
            refused.
    """

    uri: str
    app_id: str = "subscriber"
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    merge_schema: bool = False

    @property
    def sql_name(self) -> str:
        return f"delta.`{self.uri}`"

    def columns(self) -> Sequence[str] | None:
        return [one.name for one in self._open().schema().fields] if self._exists() else None

    def add_columns(self, schema: pa.Schema) -> None:
        self._open().alter.add_columns(Schema.from_arrow(schema).fields)

    def applied(self) -> int | None:
        return self._open().transaction_version(self.app_id) if self._exists() else None

    def read(self, columns: Sequence[str], keys: pa.Table) -> pa.Table:
        if not len(keys) or not self._exists():
            return pa.table({name: pa.nulls(0) for name in columns})
        return pa.table(self._open().scan(list(columns), _one_of(keys)))

    def merge(self, rows: pa.Table, deleted: pa.Table, version: int) -> None:
        assigned = {_quoted(name): f"source.{_quoted(name)}" for name in rows.column_names}
        marked = [
            part.append_column(_DELETED, pa.repeat(is_deleted, len(part)))
            for part, is_deleted in ((rows, False), (deleted, True))
        ]
        (
            self._open_or_create(rows.schema)
            .merge(
                pa.concat_tables(marked, promote_options="default"),
                " AND ".join(f"target.{_quoted(name)} = source.{_quoted(name)}" for name in deleted.column_names),
                source_alias="source",
                target_alias="target",
                commit_properties=self._commit(version),
            )
            .when_matched_delete(f"source.{_DELETED}")
            .when_matched_update(assigned)
            .when_not_matched_insert(assigned, f"NOT source.{_DELETED}")
            .execute()
        )

    def overwrite(self, rows: pa.Table, version: int) -> None:
        table = self._open_or_create(rows.schema)
        write_deltalake(table, rows, mode="overwrite", commit_properties=self._commit(version))

    def append(self, rows: pa.Table, version: int) -> None:
        """Add rows, and store ``version``, in one commit."""
        table = self._open_or_create(rows.schema)
        write_deltalake(table, rows, mode="append", commit_properties=self._commit(version))

    def _exists(self) -> bool:
        return DeltaTable.is_deltatable(self.uri, self._options())

    def _open(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self._options())

    def _open_or_create(self, schema: pa.Schema) -> DeltaTable:
        if self._exists():
            return self._open()
        return DeltaTable.create(self.uri, schema, storage_options=self._options())

    def _options(self) -> dict[str, str] | None:
        return None if self.storage_options is None else dict(self.storage_options)

    def _commit(self, version: int) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(self.app_id, version)])


def _one_of(keys: pa.Table) -> str | None:
    """A predicate that lets DataFusion skip files and rows; None if a key has a type without a
    simple literal.
    """
    conditions = []
    for name in keys.column_names:
        values = pc.unique(keys[name])
        if pa.types.is_integer(values.type):
            literals = [str(value) for value in values.to_pylist()]
        elif pa.types.is_string(values.type):
            literals = ["'" + value.replace("'", "''") + "'" for value in values.to_pylist()]
        else:
            return None
        conditions.append(f"{_quoted(name)} IN ({', '.join(literals)})")
    return " AND ".join(conditions)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
