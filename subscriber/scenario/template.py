"""The scenario file that ``subscriber scenario new`` writes."""

from __future__ import annotations

from typing import Final

_TEMPLATE: Final = """\
-- {title}
-- A scenario is a psql session: what is typed at each prompt, and below it what psql prints. The first line is its title;
-- lines that start with two dashes and a blank are comments. scenarios/README.md explains the format.
-- If it cannot run everywhere, a line "-- requires: two_phase, psql, pg>=15, pg<18" above the first prompt says what it needs.

-- A node whose name holds _pub is a publisher: a database of a real PostgreSQL server.
test_pub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_pub=# CREATE PUBLICATION p FOR TABLE t;
CREATE PUBLICATION

-- Any other is a subscriber. A connection string names a publisher by dbname; host, port and user are filled in.
test_sub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_sub=# CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p
test_sub-# WITH (copy_data = false);
CREATE SUBSCRIPTION

test_pub=# INSERT INTO t VALUES (1, 'one'), (2, 'two');
INSERT 0 2

-- Before a statement that reads or writes rows on a subscriber, its subscriptions have caught up, or stopped on an error.
-- Rows are compared in order only where the statement has ORDER BY.
test_sub=# SELECT * FROM t ORDER BY a;
 a |  b
---+-----
 1 | one
 2 | two
(2 rows)

-- `subscriber scenario record` writes what PostgreSQL's own subscriber prints below each prompt.
"""


def scenario_template(name: str) -> str:
    """A commented scenario that parses and passes, as the start of a new scenario.

    Args:
        name: name of the file without its suffix. The title consists of its words.
    """
    words = name.replace("-", "_").split("_")
    title = " ".join(word for word in words if not word.isdigit()) or name
    return _TEMPLATE.format(title=title[:1].upper() + title[1:])
