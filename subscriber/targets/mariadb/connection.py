"""PyMySQL's connection, with a LOAD DATA LOCAL that sends bytes instead of a file, and with packets
of several statements.

PyMySQL's implementation opens any file that the server requests. Therefore it is disabled unless it
is requested, and it remains disabled here. This implementation answers the server's request with
the given bytes, whatever file name the server sends, and only within :meth:`Connection.load`.

A statement that is larger than the server's limit is not sent. The server would close the
connection, and this cannot be distinguished from any other lost connection.
"""

from __future__ import annotations

from typing import Final

from pymysql import connections, err
from pymysql.constants import CLIENT, COMMAND, ER
from pymysql.protocol import OKPacketWrapper

_PACKET: Final = 256 * 1024
"""Bytes in a packet: far below any server's max_allowed_packet, and large enough that the number of
packets does not matter.
"""

_MULTI_STATEMENTS_ON, _MULTI_STATEMENTS_OFF = 0, 1
"""Options of the command COM_SET_OPTION."""


class Connection(connections.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection that can load local data.

    Attributes:
        largest_statement: the server's limit for the size of a statement in bytes (its
            ``max_allowed_packet``); None if it has not been read yet.
    """

    largest_statement: int | None = None

    def __init__(self, *, client_flag: int = 0, **options: object) -> None:
        super().__init__(client_flag=client_flag | CLIENT.LOCAL_FILES, **options)

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        data = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
        if self.largest_statement is not None and len(data) >= self.largest_statement:
            raise err.OperationalError(ER.NET_PACKET_TOO_LARGE, "Got a packet bigger than 'max_allowed_packet' bytes")
        super()._execute_command(command, data)

    def query_many(self, statements: bytes) -> int:
        """Execute several statements, which are separated by semicolons and return no rows.

        The server accepts more than one statement only within this method.

        Returns:
            The sum of the affected rows.

        Raises:
            pymysql.err.MySQLError: a statement failed. The statements before it were executed.
        """
        self._set_option(_MULTI_STATEMENTS_ON)
        try:
            return self._query_many(statements)
        finally:
            if self.open:
                self._set_option(_MULTI_STATEMENTS_OFF)

    def _query_many(self, statements: bytes) -> int:
        self._execute_command(COMMAND.COM_QUERY, statements)
        affected, follows = 0, True
        while follows:
            answer = OKPacketWrapper(self._read_packet())
            affected += answer.affected_rows
            follows = answer.has_next
        return affected

    def _set_option(self, option: int) -> None:
        self._execute_command(COMMAND.COM_SET_OPTION, option.to_bytes(2, "little"))
        self._read_packet()

    def load(self, statement: str, data: bytes) -> tuple[int, int]:
        """Execute a LOAD DATA LOCAL statement with the file content ``data``.

        Returns:
            The number of inserted rows and the number of warnings. With LOCAL, the server turns an
                error of a row into a warning and continues, so a caller must check both numbers.

        Raises:
            pymysql.err.MySQLError: the server refused the statement, or the connection was lost.
        """
        self._execute_command(COMMAND.COM_QUERY, statement.encode())
        if not self._read_packet().is_load_local_packet():
            raise err.InternalError("the server did not ask for the data")
        for at in range(0, len(data), _PACKET):
            self.write_packet(data[at : at + _PACKET])
        self.write_packet(b"")
        answer = OKPacketWrapper(self._read_packet())
        return answer.affected_rows, answer.warning_count
