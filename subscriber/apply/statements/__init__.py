"""The SQL that changes rows of the target, and how a row is found.

- ``identity`` decides by which columns a row is found, and in which partitions it can be.
- ``row_statements`` writes INSERT, UPDATE and DELETE for a shape of change.
- ``execute`` has the parameters of a statement, and the driver's cursor.
- ``change_statements`` does all of it for the changes of a batch, keeps the statements, and
  searches a row that a statement has not found.
"""
