"""walsender → journal: the half of the subscriber that talks to the publisher.

::

    publisher ◀─SQL──────── publisher.py    is it ready? slot, publications, wal_level, tables
              ◀─replication─ slots.py        CREATE_REPLICATION_SLOT, DROP_REPLICATION_SLOT; snapshot.py exports one's snapshot
              ◀─COPY──────── copy_out.py     a table's rows as they are in that snapshot (runs where Spark's tasks do); copy_plan.py which
              ──CopyBoth──▶ connection.py ──frames──▶ walreceiver.py ──entries──▶ journal
              ◀─────feedback.py (received, flushed, applied)──┘  └─ spool.py (streamed transactions)

The walreceiver runs in a process of its own, so a slow target never holds back the publisher. It knows the journal only by
the contract in :mod:`subscriber.receive.contracts`.
"""
