"""Logging to standard error."""

from __future__ import annotations

import json
import logging
import re
import sqlite3

import pytest
import sqlalchemy as sa

from subscriber.cli.options import log_to_stderr, warn_on_stderr


@pytest.mark.parametrize(("verbose", "levels"), [(False, ["INFO"]), (True, ["DEBUG", "INFO"])])
def test_a_run_logs_the_time_and_the_level(capsys, logging_before, verbose, levels):
    log_to_stderr(verbose=verbose)
    logger = logging.getLogger("subscriber")
    logger.debug("a detail")
    logger.info("a message")
    lines = capsys.readouterr().err.splitlines()
    assert [re.fullmatch(r"\d{4}-\d\d-\d\d \S+ UTC \[\d+\] (\w+):  a \w+", line)[1] for line in lines] == levels  # type: ignore[index]


def test_a_run_in_json_counts_what_repeats_also_at_its_end(capsys, logging_before):
    log = log_to_stderr(log_format="json")
    for attempt in range(1, 4):
        logging.getLogger("subscriber").error("%(error)s", {"error": "away", "attempt": attempt})
    log.close()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"].partition(" (2 more since")[0] for line in lines if line["logger"] == "subscriber"] == [
        "away"
    ] * 2
    assert (lines[-1]["count"], lines[-1]["attempt"]) == (2, 3)


@pytest.mark.parametrize("log", [log_to_stderr, warn_on_stderr])
def test_a_connection_that_the_target_has_ended_leaves_no_traceback_in_the_log(capsys, logging_before, log):
    logging.getLogger().handlers = []  # pytest's
    log()

    class Endable(sqlite3.Connection):
        ended = False

        def rollback(self):
            if self.ended:
                raise sqlite3.OperationalError("Lost connection")

    ours = sqlite3.connect(":memory:", factory=Endable)
    engine = sa.create_engine("sqlite://", creator=lambda: ours)
    with engine.connect():
        ours.ended = True
    assert capsys.readouterr().err == ""


def test_a_warning_of_a_short_command_begins_as_psqls(capsys, logging_before):
    logging.getLogger().handlers = []  # pytest's
    warn_on_stderr()
    logging.getLogger("subscriber").warning("the publisher is away")
    logging.getLogger("py4j.clientserver").error("an error of ours, with its traceback")
    assert capsys.readouterr().err == "WARNING:  the publisher is away\n"
