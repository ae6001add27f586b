"""Tables of Apache Iceberg, written by the package ``pyiceberg`` on the driver."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.upsert_util import create_match_filter


@dataclass(frozen=True)
class IcebergSink:
    """The table ``identifier`` of a catalog, which the first batch creates if it does not exist.

    The ``_commit_version`` up to which it has every change is a property of the table, which every
    commit sets, and which outlives the snapshots: ``subscriber.commit-version.<app_id>``. Feeds of
    several publishers that go into one table need different ``app_id``. With ``merge_schema`` the
    table gets the columns of a batch that it lacks. Otherwise they are refused.
    """

    catalog: Catalog
    identifier: str
    app_id: str = "subscriber"
    merge_schema: bool = False

    @property
    def sql_name(self) -> str:
        return self.identifier

    def columns(self) -> Sequence[str] | None:
        table = self._open()
        return None if table is None else [one.name for one in table.schema().fields]

    def add_columns(self, schema: pa.Schema) -> None:
        with self.catalog.load_table(self.identifier).update_schema() as update:
            update.union_by_name(schema)

    def applied(self) -> int | None:
        table = self._open()
        version = None if table is None else table.properties.get(self._property)
        return None if version is None else int(version)

    def read(self, columns: Sequence[str], keys: pa.Table) -> pa.Table:
        table = self._open()
        if table is None or not len(keys):
            return pa.table({name: pa.nulls(0) for name in columns})
        matching = create_match_filter(keys, keys.column_names)
        return table.scan(matching, selected_fields=tuple(columns)).to_arrow()

    def merge(self, rows: pa.Table, deleted: pa.Table, version: int) -> None:
        keys = pa.concat_tables([rows.select(deleted.column_names), deleted])
        with self._open_or_create(rows.schema).transaction() as transaction, _may_match_nothing():
            transaction.overwrite(rows, create_match_filter(keys, keys.column_names))
            transaction.set_properties({self._property: str(version)})

    def overwrite(self, rows: pa.Table, version: int) -> None:
        with self._open_or_create(rows.schema).transaction() as transaction, _may_match_nothing():
            transaction.overwrite(rows)
            transaction.set_properties({self._property: str(version)})

    @property
    def _property(self) -> str:
        return f"subscriber.commit-version.{self.app_id}"

    def _open(self) -> Table | None:
        try:
            return self.catalog.load_table(self.identifier)
        except NoSuchTableError:
            return None

    def _open_or_create(self, schema: pa.Schema) -> Table:
        return self.catalog.create_table_if_not_exists(self.identifier, schema)


@contextlib.contextmanager
def _may_match_nothing() -> Iterator[None]:
    """pyiceberg warns where all rows are new."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        yield
