"""PyMySQL's connection with a LOAD DATA LOCAL that sends bytes, and no file.

PyMySQL's own way opens whatever file the server asks for, which is why it is off unless one asks
for it, and stays off here. This one answers the server's request with the bytes that were given,
whatever name it asks for, and only within :meth:`Connection.load`.

A statement that is larger than the server takes is not sent: the server would close the connection,
which looks like any other loss of it.
"""

from __future__ import annotations

from typing import Final

from pymysql import connections, err
from pymysql.constants import CLIENT, COMMAND, ER
from pymysql.protocol import OKPacketWrapper

_PACKET: Final = 256 * 1024
"""Bytes a packet: far below any server's max_allowed_packet, and large enough that packets do not
count.
"""


class Connection(connections.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection that may load local data.

    Attributes:
        largest_statement: bytes that the server takes in one (its ``max_allowed_packet``); None
            where nobody has asked it yet.
    """

    largest_statement: int | None = None

    def __init__(self, *, client_flag: int = 0, **options: object) -> None:
        super().__init__(client_flag=client_flag | CLIENT.LOCAL_FILES, **options)

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        data = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
        if self.largest_statement is not None and len(data) >= self.largest_statement:
            raise err.OperationalError(ER.NET_PACKET_TOO_LARGE, "Got a packet bigger than 'max_allowed_packet' bytes")
        super()._execute_command(command, data)

    def load(self, statement: str, data: bytes) -> tuple[int, int]:
        """Run a LOAD DATA LOCAL statement over ``data``.

        Returns:
            How many rows were inserted, and how many warnings there are. With LOCAL the server
            turns every error of a row into a warning and goes on, so a caller has to look at both.

        Raises:
            pymysql.err.MySQLError: the server refuses the statement, or the connection was lost.
        """
        self._execute_command(COMMAND.COM_QUERY, statement.encode())
        if not self._read_packet().is_load_local_packet():
            raise err.InternalError("the server did not ask for the data")
        for at in range(0, len(data), _PACKET):
            self.write_packet(data[at : at + _PACKET])
        self.write_packet(b"")
        answer = OKPacketWrapper(self._read_packet())
        return answer.affected_rows, answer.warning_count
