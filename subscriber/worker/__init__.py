"""``subscriber run``: the supervisor and the workers that apply the enabled subscriptions of a
target.

::

    supervisor ──a worker a subscription──▶ worker ──┬─▶ receiving ──▶ receiver_process (walreceiver)
      └─ catalog_watch                               ├─▶ applying ──▶ the apply loop of spark with catalog_rules
                                                     ├─▶ copying ──▶ tablesync ──▶ table_copy, then hand_over; sequence_sync
                                                     ├─▶ retaining
                                                     └─▶ pausing

    worker ──▶ worker_snapshot ──▶ live table, demo, scenario engine, heartbeat, once (when is ``run --once`` done?)
    catalog, journal, publisher ──▶ read_status ──▶ subscription_status ──▶ subscriber status

- ``supervisor`` starts and stops workers. ``catalog_watch`` reads the subscriptions from the
  catalog.
- ``worker`` runs one subscription. Its parts share ``worker_state`` and report failures to
  ``failures``.
- ``receiving`` and ``receiver_process`` receive the stream into the journal; ``publisher_notices``
  records what the publisher says meanwhile.
- ``slot_receiver`` is ``subscriber receive``: a receiver in its own process, without a target.
- ``applying`` applies the journal to the target. ``catalog_rules`` reads the rules of each batch,
  and ``refresh_publisher_tables`` asks the publisher about its tables.
- ``copying`` and ``tablesync`` copy tables with ``table_copy`` and ``copy_progress``; ``hand_over``
  gives a copied table to the apply worker. All of them use ``sync_catalog``.
- ``sequence_sync`` sets the sequences that the subscription follows.
- ``retaining`` ends the retention of deleted rows (``retain_dead_tuples``).
- ``pausing`` pauses the apply at an LSN on behalf of a command.
- ``take_over`` lets a standby wait for the run lock, and ends a run that was taken over from.
- ``worker_snapshot`` is the state of a worker as data. ``heartbeat``, ``read_status`` and
  ``subscription_status`` serve ``subscriber status``.
"""

from typing import Final

RECEIVER_MODULE: Final = "subscriber.worker.receiver_process"
"""The program of a walreceiver, which the fork server imports."""

RECEIVER_NAME: Final = "walreceiver"
"""What ``top`` and ``ps -o comm`` show of it on Linux: the command line is that of the fork server.
"""
