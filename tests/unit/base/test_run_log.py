"""The log of a run, with the clock of its records."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from subscriber.base.run_log import MAY_REPEAT, OVER, JsonFormatter, RepeatFilter, TextFormatter

NOON = 1_764_244_800.0
FAILURE = 'subscription "%(subscription)s": %(error)s (attempt %(attempt)d)%(further)s'
FIELDS = {"subscription": "s", "stage": "apply", "error": "duplicate key", "lsn": "0/100", "attempt": 1, "further": ""}


def record(
    message: str,
    at: float,
    fields: Mapping[str, Any] | None = None,
    *,
    level: int = logging.INFO,
    marks: Mapping[str, object] | None = None,
) -> logging.LogRecord:
    """A record of so many seconds after noon."""
    found = logging.LogRecord("subscriber.x", level, "x.py", 1, message, (dict(fields),) if fields else (), None)
    found.created, found.process = NOON + at, 4711
    found.__dict__.update(marks or {})
    return found


def failure(at: float, **fields: Any) -> logging.LogRecord:
    return record(FAILURE, at, {**FIELDS, **fields}, level=logging.ERROR)


class Log:
    """What a run writes, with a tick a second."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = 0.0
        self._filter = RepeatFilter()
        self._formatter = TextFormatter()

    def write(self, made: logging.LogRecord) -> None:
        self.tick_until(made.created - NOON)
        if self._filter.filter(made):
            self.lines += self._formatter.format(made).splitlines()

    def tick_until(self, at: float) -> None:
        while self.now + 1 <= at:
            self.now += 1
            for due in self._filter.due(NOON + self.now):
                self.lines += self._formatter.format(due).splitlines()

    def texts(self) -> list[str]:
        return [line.partition("] ")[2] for line in self.lines]


@pytest.fixture
def log() -> Log:
    return Log()


# The formats --------------------------------------------------------------------------------------


def test_a_line_has_the_time_in_utc_the_process_and_the_level():
    assert TextFormatter().format(record("a message", 0.25)) == "2025-11-27 12:00:00.250 UTC [4711] INFO:  a message"


def test_every_part_of_a_report_has_its_own_prefix_and_what_continues_a_line_a_tab():
    text = TextFormatter().format(failure(0, further="\nDETAIL:  Key (id).\nmore\n\tand more\nHINT:  Delete it."))
    prefix = "2025-11-27 12:00:00.000 UTC [4711] "
    assert text.splitlines() == [
        prefix + 'ERROR:  subscription "s": duplicate key (attempt 1)',
        prefix + "DETAIL:  Key (id).",
        "\tmore",
        "\tand more",
        prefix + "HINT:  Delete it.",
    ]


def test_json_is_one_object_a_line_with_the_fields_of_the_record():
    made = failure(0, further="\nDETAIL:  Key (id).\nHINT:  Delete it.", sqlstate="23505", xid=731, relation=None)
    (line,) = JsonFormatter().format(made).splitlines()
    assert json.loads(line) == {
        "time": "2025-11-27T12:00:00.000+00:00",
        "level": "ERROR",
        "message": 'subscription "s": duplicate key (attempt 1)',
        "detail": "Key (id).",
        "hint": "Delete it.",
        "process": 4711,
        "logger": "subscriber.x",
        "subscription": "s",
        "stage": "apply",
        "error": "duplicate key",
        "lsn": "0/100",
        "attempt": 1,
        "sqlstate": "23505",
        "xid": 731,
    }


def test_json_of_a_message_without_fields_and_of_any_text_is_one_line():
    text = 'a "quoted"\ntext\u2028with a % and \x1b[31m'
    assert json.loads(JsonFormatter().format(record("a %", 0)))["message"] == "a %"
    made = record("%(error)s", 0, {"error": text, "position": object()})
    assert "\n" not in JsonFormatter().format(made)
    assert json.loads(JsonFormatter().format(made))["message"] == text


def test_a_traceback_is_in_the_same_object():
    made = record("failed", 0)
    try:
        raise ValueError("wrong")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    assert "ValueError: wrong" in json.loads(JsonFormatter().format(made))["traceback"]
    assert TextFormatter().format(made).endswith("ValueError: wrong")


# What repeats -------------------------------------------------------------------------------------


def test_an_hour_with_a_conflict_that_stays_is_under_a_hundred_lines(log):
    """It is tried again every five seconds."""
    for attempt in range(720):
        log.write(failure(5.0 * attempt, attempt=attempt + 1, further="\nDETAIL:  Key (id).\nCONTEXT:  at 0/100"))
    log.write(record("works again", 3601.0, {"subscription": "s", "stage": "apply"}, marks=OVER))
    log.tick_until(7200.0)
    assert len(log.lines) < 70
    assert log.texts()[:5] == [
        'ERROR:  subscription "s": duplicate key (attempt 1)',
        "DETAIL:  Key (id).",
        "CONTEXT:  at 0/100",
        'ERROR:  subscription "s": duplicate key (attempt 12) (11 more since 12:00:00 UTC)',
        'ERROR:  subscription "s": duplicate key (attempt 24) (12 more since 12:01:00 UTC)',
    ]
    assert log.texts()[-1] == "INFO:  works again"


def test_an_hour_in_which_the_publisher_is_away_is_under_a_hundred_lines(log):
    """It is tried every minute, and each attempt takes ten seconds."""
    away = "could not connect: Connection refused\n\tIs the server running?"
    for attempt in range(51):
        log.write(failure(70.0 * attempt, stage="receive", error=away, lsn=None, attempt=attempt + 1))
    assert len(log.lines) < 60
    assert log.texts()[2] == (
        'ERROR:  subscription "s": could not connect: Connection refused Is the server running? (attempt 2)'
        " (1 more since 12:00:00 UTC)"
    )


def test_an_hour_of_missing_rows_is_under_a_hundred_lines_and_counts_each_of_them(log):
    conflict = {"subscription": "s", "relation": "public.t", "conflict": "update_missing"}
    for second in range(3600):
        log.write(record("missing\nDETAIL:  Could not find it.", second, {**conflict, "xid": second}, marks=MAY_REPEAT))
        log.write(record("%(count)d more", second, {**conflict, "count": 90}, marks=MAY_REPEAT))
    log.tick_until(3600.0)
    assert len(log.lines) < 70
    more = [int(line.partition(" (")[2].partition(" ")[0]) for line in log.lines if " more since " in line]
    assert sum(more) == 3599 + 90 * 3600


def test_what_is_not_repeated_for_five_minutes_is_over_and_said_in_full_again(log):
    waits = "a transaction waits for process 1"
    for at in (0.0, 10.0, 400.0):
        log.write(record(waits, at, marks=MAY_REPEAT))
    assert log.texts() == [
        f"INFO:  {waits}",
        f"INFO:  {waits} (1 more since 12:00:00 UTC)",
        f"INFO:  not repeated since 12:00:10 UTC: {waits} (2 since 12:00:00 UTC)",
        f"INFO:  {waits}",
    ]


def test_what_happened_once_needs_no_end(log):
    log.write(failure(0))
    log.tick_until(1000.0)
    assert len(log.lines) == 1


@pytest.mark.parametrize(
    "other", [{"subscription": "t"}, {"relation": "public.u"}, {"error": "another"}, {"lsn": "0/200"}], ids=str
)
def test_another_error_is_said_in_full(log, other):
    log.write(failure(0))
    log.write(failure(1, **other))
    assert len(log.lines) == 2


def test_after_a_stage_works_again_the_same_error_is_said_in_full(log):
    log.write(failure(0))
    log.write(record("works again", 1, {"subscription": "s", "stage": "receive"}, marks=OVER))
    log.write(failure(2))
    assert len(log.lines) == 2, "another stage"
    log.write(record("works again", 3, {"subscription": "s", "stage": "apply"}, marks=OVER))
    log.write(failure(4))
    assert len(log.lines) == 4


def test_what_is_no_trouble_is_always_said(log):
    for _ in range(3):
        log.write(record("apply starts", 0))
    assert len(log.lines) == 3


def test_so_many_kinds_as_one_likes_need_a_bounded_memory(log):
    for number in range(5000):
        log.write(failure(0, error=f"error {number}"))
    assert len(log._filter._kinds) == 1000
