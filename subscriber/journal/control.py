"""The journal's control file: whose journal it is, and the positions that no segment shows.

Like ``pg_control`` it is small, replaced whole and synced. ``begin`` is where the chain of segments
starts (everything at or before it was applied by every consumer, and trimmed). ``received`` is how
far the publisher's stream is known to hold nothing else for us: on an idle slot it moves on while
no segment is written, and it is made durable *before* the slot is confirmed that far. A slot
confirmed beyond it therefore proves that the journal lost something. ``end`` is the last entry's
end at that moment: an entry that is lost afterwards is missed by it, though ``received`` lies
beyond. ``timeline`` is the publisher's timeline that all of this was received on; it proves later
that the publisher still has that history (:mod:`subscriber.publisher.history`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from subscriber.errors import JournalCorrupt, JournalGap, UsageError
from subscriber.journal.storage import Storage
from subscriber.lsn import LSN, format_lsn, parse_lsn

CONTROL_FILE: Final = "journal.json"
FORMAT: Final = 2
_READABLE: Final = (1, FORMAT)
"""Format 1 had no timeline."""
_POSITIONS: Final = ("begin", "received", "end")


@dataclass(frozen=True, slots=True)
class Control:
    """What the control file says.

    Attributes:
        system_identifier: of the publisher's cluster.
        slot: the replication slot.
        begin: the chain of segments starts here.
        received: nothing unrecorded was published up to here.
        end: finish LSN of the last entry when ``received`` was written; ``begin`` when there was
            none.
        timeline: of the publisher when it was last connected to; 0 is unknown.
    """

    system_identifier: str
    slot: str
    begin: LSN
    received: LSN
    end: LSN
    timeline: int = 0

    def moved(self, *, begin: LSN | None = None, received: LSN | None = None, end: LSN | None = None) -> Control:
        """The same with positions moved forward; a position never moves back."""
        return replace(
            self,
            begin=LSN(max(self.begin, begin or 0)),
            received=LSN(max(self.received, received or 0)),
            end=LSN(max(self.end, end or 0)),
        )


def read_control(storage: Storage) -> Control | None:
    """The control file, or None when there is no journal here.

    Raises:
        JournalCorrupt: the file is there and is not a control file of a format we know.
    """
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
        return Control(**{**fields, **{name: parse_lsn(fields[name]) for name in _POSITIONS}})
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise JournalCorrupt(
            f'"{storage.url}/{CONTROL_FILE}" is not a journal\'s control file',
            hint="Restore the file, or drop the subscription and create it again, with a new copy.",
        ) from error


def write_control(storage: Storage, control: Control) -> None:
    """Replace the control file, durably."""
    fields = asdict(control)
    fields |= {name: format_lsn(fields[name]) for name in _POSITIONS}
    storage.replace(CONTROL_FILE, json.dumps({"format": FORMAT, **fields}, indent=1).encode(), durable=True)


def check_identity(control: Control, *, system_identifier: str, slot: str, url: str) -> None:
    """Refuse a journal that belongs to another cluster or slot.

    Raises:
        JournalGap: naming both identities.
    """
    if (control.system_identifier, control.slot) != (system_identifier, slot):
        raise JournalGap(
            f'the journal at "{url}" belongs to slot "{control.slot}" of system {control.system_identifier}, '
            f'not to slot "{slot}" of system {system_identifier}',
            hint="Point SUBSCRIBER_JOURNAL at the right folder. If the publisher was replaced, drop the subscription and create it again, with a new copy.",
        )
