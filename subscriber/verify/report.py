"""What a verification is asked to do, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from subscriber.lsn import LSN, format_lsn
from subscriber.verify.row_differences import Key

KEYS_SHOWN: Final = 10
"""The number of keys of each kind that are reported."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What to compare, and what to do with differences.

    Attributes:
        tables: the tables to compare, as ``schema.table`` or as a name that only one table of the
            subscription has; all tables if it is empty.
        sample: the share of the rows to compare, greater than 0 and up to 1; None for all rows.
        repair: rows that differ are written to the target as they are at the publisher.
        show_values: keys of differing rows are reported.
        processes: how many Spark tasks read a large table at a time. 1: this process reads it,
            without Spark. None: one for each processor.
        seconds: the time limit for a hold to be reached; None for the hold's own limit.
    """

    tables: tuple[str, ...] = ()
    sample: float | None = None
    repair: bool = False
    show_values: bool = False
    processes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DifferingKey:
    """The key of a row that differs.

    Attributes:
        kind: ``differing``, ``only_publisher`` or ``only_target``.
        key: the values of the key's columns.
    """

    kind: str
    key: Key


@dataclass(frozen=True, slots=True)
class TableVerification:
    """The comparison of one table.

    Attributes:
        table: the publisher's table, ``schema.table``.
        target_table: the table's name in the target; the same unless the subscription maps it.
        lsn: the LSN at which both sides were read; None if they were not read.
        publisher_rows: the number of rows that were compared of the publisher's table.
        target_rows: the number of rows that were compared of the target's table.
        differing: the number of rows with the same key and different values.
        only_publisher: the number of rows that only the publisher has.
        only_target: the number of rows that only the target has.
        columns: the columns in which rows differ.
        keys: the first keys of differing rows, if they are to be shown.
        notes: what was compared in another way than the rest, or was left out, and why.
        error: why the table was not compared or not repaired, as :meth:`SubscriberError.report`
            writes it.
        repaired: the number of rows that were written or deleted in the target, after which both
            sides are equal.
        all_rows: whether all rows of both sides were compared: row security hides none, and no
            other subscription writes to the target's table.
    """

    table: str
    target_table: str
    lsn: LSN | None = None
    publisher_rows: int = 0
    target_rows: int = 0
    differing: int = 0
    only_publisher: int = 0
    only_target: int = 0
    columns: tuple[str, ...] = ()
    keys: tuple[DifferingKey, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    repaired: int = 0
    all_rows: bool = True

    @property
    def differences(self) -> int:
        """The number of rows that were found to differ."""
        return self.differing + self.only_publisher + self.only_target

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same rows now."""
        return self.error is None and (not self.differences or self.repaired > 0)

    def as_json(self) -> dict[str, Any]:
        """The comparison as an object of JSON."""
        found = asdict(self)
        found["lsn"] = None if self.lsn is None else format_lsn(self.lsn)
        return {**found, "equal": self.is_equal}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The comparison of a subscription's tables.

    Attributes:
        subscription: the subscription's name.
        tables: the comparison of each table.
        sample: the share of the rows that was compared; None for all rows.
        notes: what was not looked at, and why.
    """

    subscription: str
    tables: tuple[TableVerification, ...]
    sample: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether every table was compared and is equal now."""
        return all(table.is_equal for table in self.tables)

    @property
    def lsn(self) -> LSN | None:
        """The last LSN at which tables were read; None if none was read. Tables that were read in
        another hold have an LSN before it.
        """
        return max((table.lsn for table in self.tables if table.lsn is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        """The report as an object of JSON."""
        return {
            "subscription": self.subscription,
            "lsn": None if self.lsn is None else format_lsn(self.lsn),
            "sample": self.sample,
            "equal": self.is_equal,
            "notes": list(self.notes),
            "tables": [table.as_json() for table in self.tables],
        }


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """How far the comparison of a table is.

    Attributes:
        table: the table, ``schema.table``.
        publisher_rows: the number of rows that were read at the publisher.
        target_rows: the number of rows that were read in the target.
        estimated_rows: the number of rows of the table by the publisher's statistics; 0 if there
            are none.
    """

    table: str
    publisher_rows: int
    target_rows: int
    estimated_rows: int


OnProgress = Callable[[VerifyProgress], None]
