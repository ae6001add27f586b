"""The target's table of each relation of the publisher, and its columns.

::

    relation message ──▶ local_relations ──▶ LocalRelation: the table, and the column of each column
                           ├─ find_table               the table, by its mapped name
                           ├─ relation_checks          what changes and copies need of it
                           ├─ missing_columns          columns that the target lacks
                           └─ follow_schema_changes    adds and renames columns, if the subscription
                                └─ added_columns       is to follow schema changes

The texts of errors are in ``relation_texts``.
"""
