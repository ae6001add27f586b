"""Results of scenarios that did not run. The test says what the session printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from subscriber.testing.run_session import Exchange, Result
from subscriber.testing.session.expect import compare_output
from subscriber.testing.session.session_file import Scenario, parse_scenario
from subscriber.testing.stage import Setup

SESSION: Final = """\
-- Rows that a filter lets through
test_pub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_sub=# CREATE SUBSCRIPTION s
test_sub-# CONNECTION 'dbname=test_pub' PUBLICATION p;
NOTICE:  created replication slot "s" on publisher
CREATE SUBSCRIPTION
test_pub/2=# INSERT INTO t VALUES (1, 'x'), (2, 'y');
INSERT 0 2
test_sub=# SELECT * FROM t ORDER BY a;
 a | b
---+---
 1 | x
 2 | y
(2 rows)
test_sub=# SELECT a FROM t WHERE a > 1;
 a
---
 2
(1 row)
"""
CREATE_SUBSCRIPTION: Final = 4
ORDERED: Final = 10
FILTERED: Final = 16
"""The line numbers of a session's statements."""


def session(name: str = "101_filter", text: str = SESSION) -> Scenario:
    return parse_scenario(text, name)


def played(
    scenario: Scenario,
    setup: Setup,
    printed: Mapping[int, str] | None = None,
    *,
    seconds: float = 1.25,
    ended_at: int | None = None,
    error: str = "",
    leftover: str = "",
) -> Result:
    """A result in which every statement printed what was expected. Exceptions are the statements
    whose lines are in ``printed``, and the statement at line ``ended_at``, which failed with
    ``error``.
    """
    exchanges = []
    statements = iter(scenario.statements)
    for statement in statements:
        output = (printed or {}).get(statement.line, "\n".join(statement.expected))
        if statement.line == ended_at:
            exchanges.append(Exchange(statement, error=error))
            break
        mismatch = compare_output(statement.text, statement.expected, output)
        exchanges.append(Exchange(statement, output, difference="" if mismatch is None else str(mismatch)))
    exchanges += map(Exchange, statements)
    return Result(scenario, setup, tuple(exchanges), seconds, leftover=leftover)
