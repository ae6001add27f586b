"""From the socket to durable entries, and from these to frames.

- ``receive``: the walreceiver process writes finished transactions to the journal.
- ``journal``: keeps what was received, durable, in commit order.
- ``decode``: decodes and filters ranges of the journal, on executors and in one process alike.
- ``replay_journal``: the messages of a journal as records of the WAL, for output plugins.
"""
