"""``subscriber run``: the supervisor and the workers that apply the enabled subscriptions of a
target.

::

    supervisor ──a worker a subscription──▶ worker ──┬─▶ receiver_half ──▶ receiver_handle ──▶ receiver_process (walreceiver)
      ├─ catalog_watch                               ├─▶ apply_half ──▶ pipeline's query (Spark) with catalog_rules
      └─ consumer_collection                         └─▶ sync_half ──▶ tablesync ──▶ table_copy, then hand_over

    worker ──▶ worker_snapshot ──▶ live table, demo, scenario engine, heartbeat, once (when is ``run --once`` done?)
    catalog, journal, publisher ──▶ read_status ──▶ subscription_status ──▶ subscriber status, status_file

Modules, in the order in which data passes them:

- ``supervisor`` starts and stops workers. ``catalog_watch`` reads the subscriptions from the
  catalog; ``consumer_collection`` removes consumers that are no longer needed from the journals.
- ``worker`` runs one subscription. Its three parts share ``worker_state`` and report failures to
  ``failures``; ``attempts`` counts failures, and ``background`` runs work that may wait for a
  server.
- ``receiver_half``, ``receiver_handle`` and ``receiver_process`` receive the stream into the
  journal.
- ``apply_half`` applies the journal to the target. ``catalog_rules`` reads the rules of each batch,
  ``gate`` stops batches, and ``publisher_attributes`` and ``refresh_publisher_tables`` ask the
  publisher about its tables.
- ``sync_half`` and ``tablesync`` copy tables with ``table_copy``, ``copy_progress`` and
  ``kept_journal``; ``hand_over`` gives a copied table to the apply worker. All of them use
  ``sync_catalog``.
- ``hold_half`` holds the apply at an LSN on behalf of a command, and ``stale_holds`` decides when
  the command is dead.
- ``worker_snapshot`` is the state of a worker as data; ``mark`` and ``once`` use it for ``run
  --once``.
- ``heartbeat``, ``read_status``, ``subscription_status`` and ``status_file`` serve ``subscriber
  status``.

Not here: Spark queries and copy jobs are in :mod:`subscriber.pipeline`, the code that applies
changes is in :mod:`subscriber.apply`, the journal is in :mod:`subscriber.journal`, and the commands
that change subscriptions are in :mod:`subscriber.commands`.
"""
