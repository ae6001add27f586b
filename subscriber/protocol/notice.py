"""What a server says beside its data: NoticeResponse, with the severities WARNING, NOTICE, INFO,
LOG and DEBUG.

During logical replication, notices come between CopyData messages, at a place of the stream that
may matter. A replication stream therefore returns them among the frames, in the layout of the
protocol (``N``, then for each field its code, its text and a NUL, then a NUL). No CopyData message
of replication begins with ``N``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from subscriber.lsn import LSN, parse_lsn
from subscriber.protocol.byte_reader import Reader

NOTICE: Final = b"N"
"""The type byte."""

_SEVERITY, _SQLSTATE, _MESSAGE, _DETAIL, _HINT, _CONTEXT, _FUNCTION = "VCMDHWR"
_LSN: Final = re.compile(r"\b[0-9A-F]+/[0-9A-F]+\b")


@dataclass(frozen=True, slots=True)
class Notice:
    """A message of the server that is no error.

    Attributes:
        severity: WARNING, NOTICE and so on, never translated.
        sqlstate: the SQLSTATE.
        message: the primary message, in the server's language.
        detail: the detail, empty if there is none.
        hint: the hint, empty if there is none.
        context: the context, empty if there is none.
        function: the function of the server's source that has sent it, empty if that is not told.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    context: str = ""
    function: str = ""

    @property
    def skips_publication(self) -> bool:
        """Whether pgoutput goes on without a publication that does not exist at this point of the
        WAL (18 and later). The server's function is asked, because the text may be translated.
        """
        return self.severity == "WARNING" and self.function == "LoadPublications"

    @property
    def lsn(self) -> LSN | None:
        """The LSN of the change that was decoded; None if the notice is of no change."""
        found = _LSN.findall(self.context)
        return parse_lsn(found[-1]) if found else None

    def report(self) -> str:
        """The notice as psql prints it, without its context."""
        parts = ((self.severity, self.message), ("DETAIL", self.detail), ("HINT", self.hint))
        return "\n".join(f"{name}:  {text}" for name, text in parts if text)


def encode_notice(fields: Mapping[str, bytes]) -> bytes:
    """A NoticeResponse from its fields, by their codes."""
    return NOTICE + b"".join(code.encode() + text + b"\0" for code, text in fields.items()) + b"\0"


def decode_notice(frame: bytes) -> Notice:
    """Decode a NoticeResponse; unknown fields are left out.

    Raises:
        ProtocolError: 08P01; the message is incomplete, or has bytes left over.
    """
    reader = Reader(frame)
    reader.type_byte()
    fields: dict[str, str] = {}
    while code := reader.byte():
        fields[chr(code)] = reader.string()
    reader.end()
    return Notice(
        *(fields.get(code, "") for code in (_SEVERITY, _SQLSTATE, _MESSAGE, _DETAIL, _HINT, _CONTEXT, _FUNCTION))
    )
