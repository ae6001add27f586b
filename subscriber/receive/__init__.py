"""The walreceiver: from the replication stream to the journal, with feedback to the publisher.

::

    frames ──▶ walreceiver ──┬── finished_transactions (plain, prepared) ──▶ journal
                             └── spool, subtransactions (streamed)      ──▶ journal
           ◀── feedback (received, flushed, applied)

The modules, in the order in which data passes:

* :mod:`~subscriber.receive.walreceiver` is the loop: it receives, dispatches, writes and confirms.
* :mod:`~subscriber.receive.finished_transactions` collects transactions that are sent whole.
* :mod:`~subscriber.receive.lingering` decides when finished transactions are published.
* :mod:`~subscriber.receive.spool` collects streamed transactions until they finish.
* :mod:`~subscriber.receive.subtransactions` records where each subtransaction began.
* :mod:`~subscriber.receive.feedback` decides which positions are reported to the publisher, and
  when.
* :mod:`~subscriber.receive.contracts` has the protocols (:class:`typing.Protocol`) of stream and
  journal.

The walreceiver runs in a separate process (:mod:`subscriber.runtime.receiver_process`), so that a
slow target never holds back the publisher. It knows the connection and the journal only by their
protocols, and imports no database driver. The connection is in :mod:`subscriber.publisher`, the
journal in :mod:`subscriber.journal`.
"""
