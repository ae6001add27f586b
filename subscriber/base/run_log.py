"""The log of a run: as PostgreSQL's server writes it for people, or one JSON object a line.

::

    logger.info('subscription "%(subscription)s" ...', {"subscription": name, "lsn": ...})
          │                                            └─ the fields: those that the message does not name are for JSON only
          ▼
    RepeatFilter ──the first of its kind──▶ a formatter ──▶ standard error
          └──the others are counted──▶ due(), called at every tick ──▶ one line a minute

A record *may repeat* if it is a warning, an error, or has ``extra=MAY_REPEAT``. Two records are of
one kind if they have the same message, and the same subscription, relation and error; an error also
has the LSN of its transaction. Conflicts that are skipped need not have the same message. A record
with ``extra=OVER`` says that a stage of a subscription works again: what is logged of it later is
logged in full. Other kinds are over when nothing has repeated them for five minutes.

The clock is that of the records, so a test can write an hour of them at once.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

MAY_REPEAT: Final[Mapping[str, object]] = {"may_repeat": True}
OVER: Final[Mapping[str, object]] = {"over": True}

COUNT_SECONDS: Final = 60.0
"""The interval between two counts of one kind."""
SILENCE_SECONDS: Final = 300.0
"""Without a repetition for so long, a kind is over. The longest pause between two attempts at a
server is shorter, and so is the time in which a connection fails.
"""
_MOST_KINDS: Final = 1000
_KIND: Final = ("subscription", "relation", "conflict", "error")
"""The fields in which two records of one kind are equal."""
_IN_MESSAGE: Final = frozenset({"table", "again", "further", "headline", "detail", "hint", "context"})
"""Fields that JSON has as parts of the message."""
_FURTHER: Final = re.compile(r"\n(DETAIL|HINT|CONTEXT):  ")


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The values that the message of a record names, and those beside it."""
    return record.args if isinstance(record.args, Mapping) else {}


def split_report(text: str) -> list[tuple[str, str]]:
    r"""A report of several lines as pairs of label and text; the first label is empty.

    >>> split_report("a table is missing\nHINT:  Create it.")
    [('', 'a table is missing'), ('HINT', 'Create it.')]
    """
    first, *rest = _FURTHER.split(text)
    return [("", first), *zip(rest[::2], rest[1::2], strict=True)]


class TextFormatter(logging.Formatter):
    """PostgreSQL's format: time, zone and process on every line, and a tab before what continues
    one.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
        prefix = f"{time} UTC [{record.process}] "
        lines = [
            prefix + f"{label or record.levelname}:  " + text.replace("\n", "\n\t").replace("\n\t\t", "\n\t")
            for label, text in split_report(record.getMessage())
        ]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One object a line: ``time`` (ISO 8601, UTC), ``level``, ``message``, ``detail``, ``hint``,
    ``context``, ``process``, ``logger``, and the fields of the record.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        message, *further = split_report(record.getMessage())
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": message[1],
            **{label.lower(): text for label, text in further},
            "process": record.process,
            "logger": record.name,
        }
        event |= {
            name: value
            for name, value in fields_of(record).items()
            if name not in _IN_MESSAGE and value not in (None, "")
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


@dataclass(slots=True)
class _Kind:
    """What was logged of one kind: ``counted`` since it was last logged, and ``total`` in all."""

    last: logging.LogRecord
    first_at: float
    logged_at: float
    counted: int = 0
    total: int = 1


class RepeatFilter(logging.Filter):
    """Lets the first record of a kind pass, and counts the others. Any thread may call it."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Hashable, _Kind] = {}
        self._lock = threading.Lock()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "over", False):
            with self._lock:
                self._forget_stage(fields_of(record))
            return True
        if record.levelno < logging.WARNING and not getattr(record, "may_repeat", False):
            return True
        with self._lock:
            return self._is_new(record)

    def due(self, now: float, *, all_counts: bool = False) -> Sequence[logging.LogRecord]:
        """The counts that are to be logged now, in seconds since 1970."""
        with self._lock:
            found = []
            for key, kind in list(self._kinds.items()):
                if kind.counted and (all_counts or now - kind.logged_at >= COUNT_SECONDS):
                    found.append(_count(kind, now))
                    kind.counted, kind.logged_at = 0, now
                elif now - kind.last.created >= SILENCE_SECONDS:
                    del self._kinds[key]
                    found += [_end(kind, now)] * (kind.total > 1)
            return found

    def _is_new(self, record: logging.LogRecord) -> bool:
        fields = fields_of(record)
        key = ("" if "conflict" in fields else record.msg, *(fields.get(name) for name in _KIND))
        if "error" in fields:
            key += (fields.get("lsn"),)
        elif not fields:
            key += (record.getMessage(),)
        number = int(fields.get("count", 1))
        kind = self._kinds.get(key)
        if kind is not None:
            if "count" in fields:  # of further conflicts of a batch
                kind.last.created = record.created
            else:
                kind.last = record
            kind.counted += number
            kind.total += number
            return False
        if len(self._kinds) >= _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[key] = _Kind(record, record.created, record.created, total=number)
        return True

    def _forget_stage(self, over: Mapping[str, Any]) -> None:
        """Forget what was logged of the stage of a subscription, or of one table in it."""
        names = [name for name in ("subscription", "stage", "relation") if name in over]
        for key, kind in list(self._kinds.items()):
            fields = fields_of(kind.last)
            if "stage" in fields and all(fields.get(name) == over[name] for name in names):
                del self._kinds[key]


def _count(kind: _Kind, now: float) -> logging.LogRecord:
    message = f"%(text)s (%(count)d more since {_clock(kind.logged_at)})"
    return _about(kind, now, kind.last.levelno, message, kind.counted)


def _end(kind: _Kind, now: float) -> logging.LogRecord:
    message = f"not repeated since {_clock(kind.last.created)}: %(text)s (%(count)d since {_clock(kind.first_at)})"
    return _about(kind, now, logging.INFO, message, kind.total)


def _about(kind: _Kind, now: float, level: int, message: str, count: int) -> logging.LogRecord:
    """A record of one line about a kind, with the fields of its last record."""
    ((_, text), *_further) = split_report(kind.last.getMessage())
    found = copy.copy(kind.last)
    found.created, found.levelno, found.levelname, found.exc_info = now, level, logging.getLevelName(level), None
    found.msg = message.replace("%(text)s", " ".join(text.split()).replace("%", "%%"))
    found.args = {**fields_of(kind.last), "count": count}
    return found


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"
