"""docs/spark-recipes.md, block by block, over a journal with the changes of a shop. The same
queries read what comes later, from their checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from subscriber.postgres.protocol import messages as m
from subscriber.spark.session import spark_session
from tests.frames import relation, transaction, values
from tests.journals import publish, writing
from tests.markdown import section
from tests.pages import blocks

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark-recipes.md").read_text()
ORDERS = relation(
    "public.orders", {"id": "int4", "customer": "int4", "total": "int4", "note": "text"}, key=["id"], oid=16384
)
CUSTOMERS = relation("public.customers", {"id": "int4", "name": "text"}, key=["id"], oid=16385)
MICROSECONDS = 3_600_000_000  # an hour between the transactions


def order(number: int | None, customer: int | None = None, total: int | None = None, note: Any = None) -> Any:
    return values(*(None if one is None else str(one) for one in (number, customer, total)), note)


def insert(shape: m.Relation, *row: Any) -> m.Insert:
    return m.Insert(shape.relation_id, order(*row) if shape is ORDERS else values(str(row[0]), row[1]))


EARLIER: list[list[m.Message]] = [
    [
        CUSTOMERS, insert(CUSTOMERS, 1, "Ada"), insert(CUSTOMERS, 2, "Boris"),
        ORDERS, insert(ORDERS, 1, 1, 10, "first"), insert(ORDERS, 2, 2, 20, "second"), insert(ORDERS, 3, 1, 30, "third"),
    ],
    [m.Update(ORDERS.relation_id, None, None, order(1, 1, 11, "first")), m.Delete(ORDERS.relation_id, "K", order(2))],
]  # fmt: skip
LATER: list[list[m.Message]] = [
    [m.Update(ORDERS.relation_id, "K", order(3), order(4, 1, 30, "third")), insert(ORDERS, 5, 2, 50, "fifth")],
    [m.Update(ORDERS.relation_id, None, None, order(5, 2, 55, "fifth")), insert(CUSTOMERS, 3, "Cleo")],
]
NOW = [(1, 1, 11, "first"), (4, 1, 30, "third"), (5, 2, 55, "fifth")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these few rows
        yield session


@dataclass
class Shop:
    """A journal, and what the blocks of the page define.

    Attributes:
        lake: the folder in place of the page's ``/lake``.
        names: the variables of the page.
    """

    lake: Path
    names: dict[str, Any]
    _transactions: int = field(default=0, init=False)

    def receive(self, transactions: list[list[m.Message]]) -> None:
        known = {shape.relation_id: shape for shape in (ORDERS, CUSTOMERS)}
        with writing(self.lake / "journal") as journal:
            for changes in transactions:
                self._transactions += 1
                end = 0x100 * (self._transactions + 1)
                sent = transaction(
                    end, *changes, xid=700 + self._transactions, timestamp=self._transactions * MICROSECONDS
                )
                publish(journal, end, sent, relations=known if self._transactions > 1 else None)

    def run(self, heading: str) -> None:
        """Run the blocks of a section; a query until it has read everything."""
        for language, block in blocks(section(PAGE, heading)):
            assert language == "python"
            exec(block.replace("/lake", str(self.lake)), self.names)
            query = self.names.pop("query", None)
            if query is not None:
                try:
                    query.processAllAvailable()
                finally:
                    query.stop()

    def delta(self, name: str) -> list[tuple[Any, ...]]:
        rows = pa.table(DeltaTable(str(self.lake / name)).scan()).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    (tmp_path / "journal").mkdir()
    names = {"spark": spark, "journal": str(tmp_path / "journal")}
    executed = PAGE[: PAGE.index("\n## Not executed here\n")]
    exec("\n".join(re.findall(r"^(?:from|import) .*", executed, re.MULTILINE)), names)
    for _, block in blocks(PAGE[: PAGE.index("\n## ")]):
        exec(block, names)
    return Shop(tmp_path, names)


def twice(shop: Shop, heading: str) -> None:
    """Run a recipe, and again when there are more changes."""
    shop.receive(EARLIER)
    shop.run(heading)
    shop.receive(LATER)
    shop.run(heading)


def test_a_table_in_delta_lake(shop):
    twice(shop, "A table in Delta Lake")
    assert shop.delta("orders") == NOW


def test_a_table_in_iceberg(shop):
    twice(shop, "A table in Iceberg")
    rows = shop.names["catalog"].load_table("shop.orders").scan().to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == NOW


def test_every_change_in_delta_lake(shop):
    twice(shop, "Every change, in Delta Lake")
    rows = pa.table(DeltaTable(str(shop.lake / "order_changes")).scan()).to_pylist()
    rows.sort(key=lambda row: (row["_commit_version"], row["_sequence"]))
    assert [(one["_change_type"], one["id"]) for one in rows] == [
        ("insert", 1), ("insert", 2), ("insert", 3), ("update_preimage", 1), ("update_postimage", 1), ("delete", 2),
        ("update_preimage", 3), ("update_postimage", 4), ("insert", 5), ("update_preimage", 5), ("update_postimage", 5),
    ]  # fmt: skip


def test_every_version_of_a_row_in_delta_lake(shop):
    twice(shop, "Every version of a row, in Delta Lake")
    hours = [(*row[:3], row[4].hour, row[5] and row[5].hour) for row in shop.delta("order_versions")]
    assert hours == [
        (1, 1, 10, 1, 2), (1, 1, 11, 2, None), (2, 2, 20, 1, 2), (3, 1, 30, 1, 3), (4, 1, 30, 3, None),
        (5, 2, 50, 3, 4), (5, 2, 55, 4, None),
    ]  # fmt: skip


def test_parquet(shop):
    twice(shop, "Parquet")
    now = shop.names["now"].select("id", "customer", "total", "note").collect()
    assert sorted(tuple(row) for row in now) == NOW


def test_an_aggregation_with_a_watermark(shop, spark):
    shop.receive(EARLIER + LATER)
    shop.run("An aggregation with a watermark")
    found = spark.table("orders_per_hour").collect()
    assert sorted((row.window.start.hour, row.customer, row.orders, row.total) for row in found) == [
        (1, 1, 2, 40), (1, 2, 1, 20), (3, 2, 1, 50),
    ]  # fmt: skip


def test_a_join_with_a_table(shop, spark):
    shop.receive(EARLIER)
    names = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["Ada", "Boris"]})
    write_deltalake(str(shop.lake / "customers"), names)
    shop.run("A join with a table")
    found = spark.read.parquet(str(shop.lake / "orders_with_names")).collect()
    assert sorted((row.id, row.name) for row in found) == [(1, "Ada"), (2, "Boris"), (3, "Ada")]


def test_several_tables_in_one_query(shop):
    twice(shop, "Several tables in one query")
    assert shop.delta("shop/orders") == NOW
    assert shop.delta("shop/customers") == [(1, "Ada"), (2, "Boris"), (3, "Cleo")]


def test_every_section_of_the_page_is_run_or_marked():
    headings = {line.removeprefix("## ") for line in PAGE.splitlines() if line.startswith("## ")}
    run = {node[len("test_") :].replace("_", " ") for node in globals() if node.startswith("test_")}
    assert {one.lower().replace(",", "") for one in headings} - run == {"not executed here"}
