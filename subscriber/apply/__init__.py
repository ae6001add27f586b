"""Apply batches of changes to a target, each in one transaction that includes the progress (section
C of the rules).

A batch comes as frames (:mod:`subscriber.protocol.changes`; read that module first) and passes
these modules in this order:

- ``apply_batch`` applies a batch and handles failures; ``deferred`` handles those at COMMIT.
  ``applier`` is the interface that they use.
- ``exact`` implements that interface and defines what is correct; ``local`` has the target's
  transactions of a batch. ``bulk`` does the same with ``regroup``, which makes a few long runs of
  the changes of many small transactions, and ``fold``, which makes one change of several changes
  of a row, where ``foldable`` allows it.
- ``batch`` follows the publisher's messages; ``two_phase_batch`` does so where the target prepares
  transactions, which ``prepared`` has. ``walk`` gives the messages in their order,
  ``transaction_bounds`` checks where transactions begin and end, ``whole_transactions`` does so for
  many at once. ``batch_rules`` has the catalog's settings, ``skip`` the transaction to leave out,
  ``batch_tally`` what is counted.
- ``change_writer`` writes runs of changes. ``change_statements`` builds the statement of each shape
  of change, binds its rows and executes it, in parts (``row_parts``); ``bulk_writer`` writes many
  rows by one statement, ``pipelined_changes`` lets changes wait for a round trip, ``reorderable``
  decides for which tables the order of changes does not matter, ``row_conflicts`` finds rows that
  do not exist or that another origin has written.
- ``unrepresentable`` replaces values that the target cannot hold: ``replaced_groups`` in the groups
  of a frame, ``replaced_blocks`` in the blocks of a copy.
- ``local_relations`` finds the table (``find_table``) and its columns; ``relation_checks`` and
  ``missing_columns`` say what is wrong with them, in the words of ``relation_texts``.
  ``follow_schema_changes`` adds columns, ``added_columns`` decides which are new or renamed.
- ``identity`` and ``leaves`` decide how a row is found, ``statements`` builds the SQL, ``bind`` its
  parameters, ``execute`` executes it, ``search`` finds rows that the statement did not find.
- ``conflict`` describes conflicts, ``conflict_policy`` decides about them, ``conflict_tally``
  counts and logs them. ``collisions``, ``examine`` and ``origins`` find out more about them.
  ``failure`` is what an error carries: its place, and its conflict.
- ``logical_messages`` delivers logical messages to a listener after the commit.

The tables that are written besides the data, with the progress, are those of
:mod:`subscriber.catalog`. :mod:`subscriber.targets` has what differs between databases.
"""
