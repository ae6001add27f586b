"""Runs of changes, written in the transaction of a batch.

- ``change_writer`` writes a run, by the modules below or by one statement for each shape of change.
- ``unrepresentable`` decides which values the target cannot hold and replaces them, in changes and
  in copies.
- ``transformed_columns`` decides whether columns can have the values of the option ``transform``.
- ``versions`` keeps the versions of rows that changes end.
- ``bulk_writer`` writes many rows by one statement, or in one round trip.
"""
