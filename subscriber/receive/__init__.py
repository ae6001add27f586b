"""The stream into the journal: CopyData in, finished transactions out, feedback back.

::

    frames ──▶ walreceiver ──┬── finished_transactions (plain, prepared) ──▶ journal
                             └── spool, subtransactions (streamed)      ──▶ journal
           ◀── feedback (received, flushed, applied)

The walreceiver runs in a process of its own (:mod:`subscriber.runtime.receiver_process`), so a slow
target never holds back the publisher. It knows the connection and the journal only by the protocols
in :mod:`subscriber.receive.contracts`, and imports no driver.
"""
