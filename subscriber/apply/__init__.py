"""Apply batches of changes to a target, each in one transaction that includes the progress (section
C of the rules).

A batch comes as frames (:mod:`subscriber.postgres.protocol.changes`) and passes these modules:

- ``apply_batch`` applies a batch and handles failures.
- ``applier`` is the interface that it uses, and has the catalog's settings for a batch.
- ``exact`` implements that interface and defines what is correct.
- ``parallel`` does so by several connections of the target, for changes of different rows
  (``touched_rows``).
- ``target_transactions`` has the target's transactions of a batch.
- ``batch`` follows the publisher's messages; ``prepared`` where the target prepares transactions.
- ``history_frames`` turns changes of tables with a history into the rows that they add.
- ``transform_frames`` gives columns the values of the option ``transform``.
- ``frame_order`` gives the messages in their order.
- ``transaction_bounds`` checks where transactions begin and end.
- ``reorder`` makes few long runs of many short ones; ``coalesce`` says where that is allowed.
- ``message_listener`` delivers logical messages to a listener after the commit.

The changes of a transaction are written by these packages, of which each uses only those below it::

    writing        runs of changes
    conflicts      rows that are not as expected
    statements     the SQL that changes rows, and how a row is found
    relations      the target's table of each relation, and its columns
"""
