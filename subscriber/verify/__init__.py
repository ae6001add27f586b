"""Comparison of publisher and target, and repair of what differs.

::

    verify_subscription   tables in batches, each while the apply is held; attempts
      └─ verify_table         one table: plan, digests, differences, repair
           ├─ table_plan          what is compared: rows, columns, key, notes
           ├─ compare_digests     both sides' sums, and the rows of buckets that differ
           │    ├─ read_both_sides    both sides at the same time, in this process and in tasks
           │    │    ├─ side_tasks         a range of one side, read by a task of Spark
           │    │    ├─ publisher_side     the publisher's rows
           │    │    ├─ target_side        the target's rows
           │    │    └─ collected          what is collected of them: sums, or rows of some buckets
           │    ├─ row_batch          some rows of one side: their texts and hashes
           │    ├─ canonical_columns  columns of text in which equal values have equal text
           │    └─ row_digests        hashes of rows, summed up in buckets
           └─ repair_table        one transaction of the apply path
                └─ rows_to_repair     rows that differ, in a temporary file
    report                what is asked for, and what is found

    compare_tables        both sides row by row, over connections that the caller has opened
      ├─ read_rows            the rows of either side, streamed in the order of the key
      ├─ canonical_text       PostgreSQL's text of the values that a driver returns
      └─ row_differences      equal rows cancel; counts and keys of the others

The text of the target's values is made by rules of this package. The code that wrote the values
must not also check them.
"""
