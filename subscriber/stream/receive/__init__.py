"""The walreceiver: from the replication stream to the journal, with feedback to the publisher.

* ``walreceiver`` is the loop: it receives, dispatches, writes and confirms.
* ``finished_transactions`` collects transactions that are sent whole, and publishes them.
* ``spool`` collects streamed transactions until they finish.
* ``feedback`` decides which positions are reported to the publisher, and when.
* ``quiet`` reports what a publisher that sends nothing waits for.

The walreceiver runs in a separate process (:mod:`subscriber.worker.receiver_process`), and knows
the connection only as a stream: it imports no database driver.
"""
