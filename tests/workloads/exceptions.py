"""Where our output is not the server's, and why. The comparison fails if one of these is equal.

What is the same for every workload is in :mod:`tests.workloads.canonical`: empty blocks of a
stream.
"""

from __future__ import annotations

from typing import Final

_MONEY: Final = (
    "The text of a value of money depends on lc_monetary, so its binary form cannot be found from the"
    " text. It is sent as text, which every reader accepts (rule A12)."
)

EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("money", "v1-binary"): _MONEY,
    ("money", "v3-two-phase-streaming"): _MONEY,
}
"""The reason, by workload and run."""
