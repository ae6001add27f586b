"""Runs of changes, written in the transaction of a batch.

::

    run of changes ──▶ replaced_groups ──▶ change_writer ─┬─▶ bulk_writer          many rows by one statement
                                                          ├─▶ pipelined_changes    changes that wait for one round trip
                                                          └─▶ one statement for each shape of change

``unrepresentable`` decides which values the target cannot hold and replaces them: for
``replaced_groups`` in changes, for ``replaced_blocks`` in a copy. ``examine`` writes a run that has
failed again, up to the change that failed, to find its conflict.
"""
