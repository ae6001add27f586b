"""The SQL that changes rows of the target, and how a row is found.

::

    change ──▶ identity, leaves     the columns that find its row; in which partitions it can be
           ──▶ row_statements       INSERT, UPDATE and DELETE for a shape of change
           ──▶ bind                 its parameters
           ──▶ execute              the driver's cursor
           ──▶ search               the row, if the statement has not found it

``change_statements`` does all of it for the changes of a batch, and keeps the statements.
``row_parts`` cuts many rows into parts that a statement can take.
"""
