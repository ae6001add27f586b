"""The journal's control file: the identity of the journal, and the positions that no segment shows.
It is small, and is always replaced as a whole and synced.

* ``begin`` is where the chain of segments starts. Every consumer has applied all before it.
* ``received`` is the LSN up to which the stream is known to contain nothing more than the journal
  has. On an idle slot it moves forward although no segment is written. It is made durable *before*
  the slot is confirmed up to it. A slot that is confirmed beyond it therefore proves that the
  journal has lost changes.
* ``end`` is the end of the last entry when ``received`` was written. It shows the loss of an entry
  that was deleted afterwards, although ``received`` lies beyond that entry.
* ``timeline`` is the publisher's timeline on which the journal's content was received. It later
  proves that the publisher still has that history (:mod:`subscriber.publisher.history`).
* ``publications`` are those that are received, and ``published_from`` is the LSN after which every
  change was received from them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from subscriber.base.errors import COPY_FROM_SCRATCH, RECREATE_SLOT, JournalCorrupt, JournalGap, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.stream.journal.storage import Storage

TRIMMED: Final = (
    f"Restore a newer state of the target. Otherwise: {RECREATE_SLOT} So that a backup can be restored without new copies,"
    " set SUBSCRIBER_JOURNAL_KEEP_SIZE to more than what is received between two backups."
)
"""The hint for a target that needs changes which were trimmed."""
CONTROL_FILE: Final = "journal.json"
FORMAT: Final = 3
_READABLE: Final = (1, 2, FORMAT)
"""The formats that this version reads. Formats 1 and 2 have no publications, and 1 no timeline."""
_POSITIONS: Final = ("begin", "received", "end", "published_from")


@dataclass(frozen=True, slots=True)
class JournalControl:
    """The content of the control file (see the module); ``timeline`` is 0 if it is unknown, and
    ``publications`` are none.
    """

    system_identifier: str
    slot: str
    begin: LSN
    received: LSN
    end: LSN
    timeline: int = 0
    publications: tuple[str, ...] = ()
    published_from: LSN = INVALID_LSN

    def moved(self, *, begin: LSN | None = None, received: LSN | None = None, end: LSN | None = None) -> JournalControl:
        """A copy with the given positions moved forward; a position never moves back."""
        return replace(
            self,
            begin=LSN(max(self.begin, begin or 0)),
            received=LSN(max(self.received, received or 0)),
            end=LSN(max(self.end, end or 0)),
        )


def read_control(storage: Storage) -> JournalControl | None:
    """The control file, or None when there is no journal here."""
    content = storage.read(CONTROL_FILE)
    if content is None:
        return None
    try:
        fields = json.loads(content)
        if fields.pop("format") not in _READABLE:
            raise JournalCorrupt(
                f'the journal at "{storage.url}" has a format that this version does not know',
                hint="Run the version of subscriber that wrote it.",
            )
        positions = {name: parse_lsn(fields[name]) for name in _POSITIONS if name in fields}
        return JournalControl(**{**fields, **positions, "publications": tuple(fields.get("publications", ()))})
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise JournalCorrupt(
            f'"{storage.url}/{CONTROL_FILE}" is not a journal\'s control file',
            hint=f"Restore the file. Otherwise: {RECREATE_SLOT}",
        ) from error


def write_control(storage: Storage, control: JournalControl) -> None:
    fields = asdict(control)
    fields |= {name: format_lsn(fields[name]) for name in _POSITIONS}
    storage.replace(CONTROL_FILE, json.dumps({"format": FORMAT, **fields}, indent=1).encode(), durable=True)


def check_identity(control: JournalControl, *, system_identifier: str, slot: str, url: str) -> None:
    """Refuse a journal that belongs to another cluster or slot."""
    if (control.system_identifier, control.slot) != (system_identifier, slot):
        raise JournalGap(
            f'the journal at "{url}" belongs to slot "{control.slot}" of system {control.system_identifier}, '
            f'not to slot "{slot}" of system {system_identifier}',
            hint=f"Point SUBSCRIBER_JOURNAL at the right folder. If the publisher was replaced: {COPY_FROM_SCRATCH}",
        )
