"""A slot in a file: how far a journal was decoded with a plugin, for the next time.

A journal keeps nothing for such a slot. What the journal's consumers have passed is removed, and
decoding from a position before that is an error, as it is with a slot that was invalidated.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from subscriber.errors import UsageError
from subscriber.journal.control import Control
from subscriber.lsn import format_lsn, parse_lsn
from subscriber.output_plugin.context import Slot

_FORMAT: Final = 1


def read_slot(file: Path | None, control: Control, plugin: str) -> Slot:
    """The slot of a journal and a plugin; a new one if there is no file.

    Args:
        file: the file; None for a slot that nothing keeps.
        control: the journal's control file.
        plugin: the plugin's name.

    Raises:
        UsageError: 55000, the file is for another plugin or another journal; 22023, it is no such
            file, or cannot be read.
    """
    slot = Slot(control.slot, plugin, two_phase=True)
    if file is None or not file.exists():
        return slot
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        known = fields["format"] == _FORMAT
        slot.confirmed_flush = parse_lsn(fields["confirmed_flush"])
        theirs = fields["system_identifier"], fields["slot"], fields["plugin"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, UsageError):
        known = False
    if not known:
        raise UsageError(
            f'"{file}" is not a file of a slot',
            hint="Name a file that `subscriber decode --slot` has written, or a new one.",
        )
    if theirs != (control.system_identifier, control.slot, plugin):
        raise UsageError(
            f'"{file}" belongs to plugin "{theirs[2]}" and the journal of slot "{theirs[1]}" of system {theirs[0]}, '
            f'not to plugin "{plugin}" and slot "{control.slot}" of system {control.system_identifier}',
            sqlstate="55000",
            hint="Use a file for each journal and plugin.",
        )
    return slot


def write_slot(file: Path, control: Control, slot: Slot) -> None:
    """Store a slot; the file is replaced as a whole.

    Raises:
        UsageError: 22023, the file cannot be written.
    """
    fields = {
        "format": _FORMAT,
        "system_identifier": control.system_identifier,
        "slot": control.slot,
        "plugin": slot.plugin,
        "confirmed_flush": format_lsn(slot.confirmed_flush),
    }
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise UsageError(
            f'could not write file "{file}": {error.strerror}', hint="Name a file in a folder that you may write."
        ) from error
