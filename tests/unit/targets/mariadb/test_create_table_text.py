"""What a statement of SHOW CREATE TABLE says. With a server:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

import pytest

from subscriber.targets.mariadb.create_table_text import checks_of, defaults_of, generated_of, without_default

TEXT = r"""CREATE TABLE `t` (
  `a` int(11) NOT NULL DEFAULT 5,
  `b ``c` varchar(20) DEFAULT 'it''s, \'DEFAULT 3\'' COMMENT 'DEFAULT 4 CHECK (1)',
  `d` longtext DEFAULT concat(trim(TRAILING '.' FROM utc_timestamp(6)),'+00'),
  `e` int(11) DEFAULT (1 + 2) CHECK (`e` > 0),
  `f` datetime(6) DEFAULT NULL,
  `g` bigint(20) GENERATED ALWAYS AS (`a` * (2)) STORED,
  `h` int(11) DEFAULT NULL,
  KEY `DEFAULT 1` (`a`),
  CONSTRAINT `c (x` CHECK (`a` > (0) and `b ``c` <> ')')
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""


def test_defaults_are_found_except_null():
    assert dict(defaults_of(TEXT)) == {
        "a": "5",
        "b `c": r"'it''s, \'DEFAULT 3\''",
        "d": "concat(trim(TRAILING '.' FROM utc_timestamp(6)),'+00')",
        "e": "(1 + 2)",
    }


def test_generated_columns_are_found_with_their_expressions():
    assert dict(generated_of(TEXT)) == {"g": "`a` * (2)"}


def test_checks_of_the_table_and_of_columns_are_found():
    assert dict(checks_of(TEXT)) == {"e": "`e` > 0", "c (x": "`a` > (0) and `b ``c` <> ')'"}


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("`a` int(11) NOT NULL DEFAULT (1 + 2) COMMENT 'x'", "`a` int(11) NOT NULL COMMENT 'x'"),
        ("`a` int(11) DEFAULT 'it''s 5' CHECK (`a` > 0)", "`a` int(11) CHECK (`a` > 0)"),
        ("`DEFAULT` int(11) DEFAULT current_timestamp(6)", "`DEFAULT` int(11)"),
        ("`a` int(11) COMMENT 'DEFAULT 5'", "`a` int(11) COMMENT 'DEFAULT 5'"),
    ],
)
def test_a_default_is_taken_from_a_column(line, rest):
    assert without_default(line) == rest
