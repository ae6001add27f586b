"""Apply batches of changes to a target, each in one transaction that includes the progress (section
C of the rules).

A batch comes as frames (:mod:`subscriber.protocol.changes`; read that module first) and passes
these modules in this order:

- ``apply_batch`` applies a batch and handles failures; ``deferred`` handles those at COMMIT.
  ``applier`` is the interface that they use.
- ``exact`` implements that interface and defines what is correct; ``local`` has the target's
  transactions of a batch. ``bulk`` does the same with the runs of
  :mod:`~subscriber.apply.regrouping`.
- ``batch`` follows the publisher's messages; ``two_phase_batch`` does so where the target prepares
  transactions, which ``prepared`` has. ``walk`` gives the messages in their order,
  ``transaction_bounds`` checks where transactions begin and end, ``whole_transactions`` does so for
  many at once. ``batch_rules`` has the catalog's settings, ``skip`` the transaction to leave out,
  ``batch_tally`` what is counted.
- ``logical_messages`` delivers logical messages to a listener after the commit.

The changes of a transaction are written by these packages, of which each uses only those below it::

    writing                     runs of changes
    regrouping  conflicts       few long runs; rows that are not as expected
    statements                  the SQL that changes rows, and how a row is found
    relations                   the target's table of each relation, and its columns

The tables that are written besides the data, with the progress, are those of
:mod:`subscriber.catalog`. :mod:`subscriber.targets` has what differs between databases.
"""
