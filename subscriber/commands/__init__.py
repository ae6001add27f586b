"""The execution of CREATE, ALTER and DROP of SUBSCRIPTION and PUBLICATION.

::

    parse ──▶ run_command ──┬─▶ create        the tables at both ends, the slot, the catalog
                            ├─▶ alter         options, connection, name, SKIP, ENABLE
                            ├─▶ publications  lists of publications and tables
                            ├─▶ sequences     the target's sequences and counters
                            ├─▶ tables        copy tables again
                            ├─▶ slot          a new slot in place of a lost one, and new copies
                            ├─▶ drop          the slot, the journal, the catalog
                            ├─▶ truncate      the rows of subscriptions' tables
                            └─▶ CREATE, ALTER, DROP PUBLICATION      emulated ones: the publisher's tables, the catalog

- ``dispatch``: ``run_command``, which finds the function for a command.
- ``subscription_grammar``, ``subscription_statements``, ``subscription_options``: the commands as
  text and as data, and their options.
- ``create_subscription``, ``alter_subscription``, ``alter_publications``, ``refresh_sequences``,
  ``refresh_tables``, ``recreate_slot``, ``truncate_tables``, ``drop_subscription``,
  ``upgraded_publisher``, ``publication_commands``, ``import_publications``: the commands
  themselves.
- ``requirements``: can the publisher and the target do what the options need?
- ``check_publications`` and ``check_target_tables``: what is published, and does the target have
  the tables? ``check_value_rules``: may NULL take the place of values? ``create_tables`` creates
  missing tables; ``create_tables_differences`` reports what they lack.
- ``hold_apply``: holds the apply of a subscription at an LSN for a command that reads the target;
  ``holding``, ``hold_heartbeat`` and ``hold_failing`` are its parts.
- ``wake``: wakes a ``subscriber run`` of the same machine.
- ``reached_position`` and ``count_rows``: how far a target is, and how many rows its tables have.
- ``publisher_connection``, ``publisher_slots``, ``release_slot``, ``notices``: used by several
  commands.

A command writes the catalog, and a running worker reads it. The catalog itself is in
:mod:`subscriber.catalog`, the grammar of publications in :mod:`subscriber.publication`. Workers,
which copy tables and apply changes, are in :mod:`subscriber.runtime` and
:mod:`subscriber.pipeline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subscriber.lazy_names import lazy_names

if TYPE_CHECKING:
    from subscriber.commands.dispatch import run_command
    from subscriber.commands.drop_subscription import remove_journal
    from subscriber.commands.notices import Notify
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "dispatch": ("run_command",),
            "drop_subscription": ("remove_journal",),
            "notices": ("Notify",),
        },
    )

__all__ = ["Notify", "remove_journal", "run_command"]
