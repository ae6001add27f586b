"""How far a journal has received, without a look into its segments.

``subscriber status`` asks for this. The control file and the names of the segments are enough, so
this module needs no Arrow.
"""

from __future__ import annotations

from functools import partial

from subscriber.journal.control import read_control
from subscriber.journal.listing import Listing
from subscriber.journal.sparing import Sparing
from subscriber.journal.storage import Storage, open_storage
from subscriber.lsn import INVALID_LSN, LSN


def journal_positions(url: str) -> tuple[LSN, LSN]:
    """The received position of a journal and the end of its last entry; 0/0 for both while there is
    no journal.

    Raises:
        UsageError: no file system handles the URL.
        JournalCorrupt: the control file cannot be read.
        JournalUnavailable: the journal cannot be reached now.
    """
    storage = open_storage(url)
    return _positions(storage, Listing(storage))


def _positions(storage: Storage, listing: Listing) -> tuple[LSN, LSN]:
    control = read_control(storage)
    if control is None:
        return INVALID_LSN, INVALID_LSN
    listing.update()
    last = LSN(max([control.begin, *(entry.end for entry in listing.entries)]))
    return LSN(max(control.received, last)), last


def watched_positions(url: str) -> Sparing[tuple[LSN, LSN]]:
    """The :func:`journal_positions` for callers that ask often; a remote journal is asked at most
    once a second, and a local one is listed only if it has changed.

    Both positions are read at the same time. A consumer that has applied the last entry has
    therefore applied everything that was received.
    """
    storage = open_storage(url)
    return Sparing(partial(_positions, storage, Listing(storage)), storage.remote)
