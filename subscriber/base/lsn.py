"""Log sequence numbers: PostgreSQL's positions in the write-ahead log.

An LSN is a plain ``int`` everywhere in this package. PostgreSQL prints ``%X/%X`` up to version 18
and ``%X/%08X`` from version 19 on (rule A19a), so the text is parsed before it is compared.
"""

from __future__ import annotations

from typing import Final, NewType

from subscriber.base.errors import UsageError

LSN = NewType("LSN", int)

INVALID_LSN: Final = LSN(0)
"""``0/0`` (InvalidXLogRecPtr). A keepalive or an envelope may contain it; it is never progress."""

MAX_LSN: Final = LSN(0xFFFF_FFFF_FFFF_FFFF)


def parse_lsn(text: str) -> LSN:
    """Parse an LSN, with or without zero padding; UsageError (22P02) with PostgreSQL's text.

    >>> parse_lsn("16/B374D848")
    97500059720
    """
    high, slash, low = text.partition("/")
    if slash and _is_half(high) and _is_half(low):
        return LSN(int(high, 16) << 32 | int(low, 16))
    raise UsageError(
        f'invalid input syntax for type pg_lsn: "{text}"',
        sqlstate="22P02",
        hint="An LSN is two hexadecimal numbers with a slash between them, such as 16/B374D848.",
    )


def format_lsn(lsn: int, version: int = 18) -> str:
    """The text of an LSN as PostgreSQL of the major version ``version`` writes it.

    >>> format_lsn(97500059720), format_lsn(0x100), format_lsn(0x100, 19)
    ('16/B374D848', '0/100', '0/00000100')
    """
    low = lsn & 0xFFFF_FFFF
    return f"{lsn >> 32:X}/{low:08X}" if version >= _PADDED_SINCE else f"{lsn >> 32:X}/{low:X}"


_PADDED_SINCE: Final = 19


def _is_half(text: str) -> bool:
    return 0 < len(text) <= 8 and all(character in "0123456789abcdefABCDEF" for character in text)
