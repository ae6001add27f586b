"""walsender → journal: the half of the subscriber that talks to the publisher.

::

    publisher ◀─SQL──────── publisher.py    is it ready? slot, publications, wal_level, tables
              ◀─replication─ slots.py        CREATE_REPLICATION_SLOT, DROP_REPLICATION_SLOT
              ──CopyBoth──▶ connection.py ──frames──▶ walreceiver.py ──entries──▶ journal
              ◀─────feedback.py (received, flushed, applied)──┘  └─ spool.py (streamed transactions)

It runs in a process of its own, so a slow target never holds back the publisher. It knows the journal only by
the contract in :mod:`subscriber.receive.contracts`.
"""
