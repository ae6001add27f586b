"""``subscriber run``: what works for as long as subscriptions are enabled.

::

    supervisor ──a worker a subscription──▶ worker ──┬─▶ receiver_half ──▶ receiver_handle ──▶ receiver_process (walreceiver)
      ├─ catalog_watch                               ├─▶ apply_half ──▶ pipeline's query (Spark) with catalog_rules
      └─ consumer_collection                         └─▶ sync_half ──▶ tablesync ──▶ table_copy, then hand_over

    worker ──▶ worker_snapshot ──▶ live table, demo, scenario engine, heartbeat, once (when is ``run --once`` done?)
    catalog, journal, publisher ──▶ read_status ──▶ subscription_status ──▶ subscriber status, status_file

The parts of a worker share its ``worker_state``, and tell what fails to ``failures``.
"""
