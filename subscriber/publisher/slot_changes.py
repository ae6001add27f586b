"""Whether a replication slot would still send a change: what was published after a position.

The slot is only peeked at (``pg_logical_slot_peek_binary_changes``), so that it stays where it is.
The server decodes its WAL for this and applies its publications, so the answer is exact. It is
asked for few rows first, because the server collects all rows before it sends the first one.

*Rejected:* a comparison of WAL positions, since a server writes WAL without a change of any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

import psycopg

from subscriber.errors import SlotInUse
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection

_FIRST_ROWS: Final = 100
_GROWTH: Final = 100

_PEEK: Final[LiteralString] = """
SELECT count(*)::int8, count(*) FILTER (WHERE lsn > %(after)s::pg_lsn AND get_byte(data, 0) IN (68, 73, 84, 85))::int8
FROM pg_logical_slot_peek_binary_changes(%(slot)s, NULL, %(rows)s, 'proto_version', '1', 'publication_names', %(names)s)
"""
"""A message of pgoutput begins with its kind: 68 is DELETE, 73 INSERT, 84 TRUNCATE, 85 UPDATE."""


def is_changed_after(connection: Connection, slot: str, publications: Sequence[str], after: LSN) -> bool:
    """Whether publications have sent, or would send, a change after a position.

    Args:
        connection: to the slot's database.
        slot: a slot of pgoutput that nobody streams from, and that has not passed the position.
        publications: the names of the server's publications.
        after: the position; what begins after it counts.

    Raises:
        SlotInUse: a receiver streams from the slot.
        psycopg.Error: the query failed.
    """
    names = ",".join('"' + name.replace('"', '""') + '"' for name in publications)
    rows = _FIRST_ROWS
    while True:
        values = {"after": format_lsn(after), "slot": slot, "rows": rows, "names": names}
        try:
            found = connection.execute(_PEEK, values).fetchone()
        except psycopg.errors.ObjectInUse as error:
            raise SlotInUse(
                error_of(error).message,
                hint="Its receiver has not ended yet. Run the command again in a minute.",
            ) from error
        assert found is not None
        seen, changes = found
        if changes or seen < rows:
            return bool(changes)
        rows *= _GROWTH
