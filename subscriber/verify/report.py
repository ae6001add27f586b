"""What a verification is asked to do, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from subscriber.base.lsn import LSN, format_lsn
from subscriber.verify.row_differences import Key

KEYS_SHOWN: Final = 10
"""The number of keys of each kind that are reported."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """``tables`` are ``schema.table`` or unambiguous names (none: all); ``sample`` is the share of
    rows, up to 1. ``processes`` is the number of Spark tasks (1: none; None: one a processor).
    ``seconds`` limits the wait for a hold.
    """

    tables: tuple[str, ...] = ()
    sample: float | None = None
    repair: bool = False
    show_values: bool = False
    processes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DifferingKey:
    kind: str
    key: Key


@dataclass(frozen=True, slots=True)
class TableVerification:
    """The comparison of one table, in numbers of rows; ``table`` is the publisher's
    ``schema.table``. Both sides were read at ``lsn``, if at all. ``differing`` rows have the same
    key and other values, in ``columns``. ``notes``: what was compared in another way, or left out;
    ``error``: why it was not compared or repaired. ``all_rows``: row security hides none, and no
    other subscription writes here.
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
        return self.differing + self.only_publisher + self.only_target

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same rows now."""
        return self.error is None and (not self.differences or self.repaired > 0)

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        found["lsn"] = None if self.lsn is None else format_lsn(self.lsn)
        return {**found, "equal": self.is_equal}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The comparison of a subscription's tables; ``notes`` say what was not looked at, and why."""

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
        """The last LSN at which tables were read, if any. Earlier holds have earlier LSNs."""
        return max((table.lsn for table in self.tables if table.lsn is not None), default=None)

    def as_json(self) -> dict[str, Any]:
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
    """How far a table is, in rows; ``estimated_rows`` by the publisher's statistics, or 0."""

    table: str
    publisher_rows: int
    target_rows: int
    estimated_rows: int


OnProgress = Callable[[VerifyProgress], None]
