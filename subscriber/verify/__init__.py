"""Comparison of publisher and target, and repair of what differs.

::

    verify_subscription   tables in batches, each while the apply is held; attempts
      └─ verify_table         one table: plan, digests, differences, repair
           ├─ table_plan          what is compared: rows, columns, key, notes
           │    └─ present_rows       the rows that an append table implies
           ├─ compare_tables      both sides' sums, and the rows of buckets that differ
           │    ├─ read_both_sides    both sides at the same time, in this process and in tasks of Spark
           │    ├─ table_sides        the rows of each side in batches
           │    ├─ canonical_text     columns of text in which equal values have equal text
           │    ├─ row_digests        hashes of rows, summed up in buckets
           │    └─ row_differences    equal rows cancel; counts, keys and values of the others
           └─ repair_table        one transaction of the apply path
    report                what is asked for, and what is found

    compare_tables        also compares tables without a subscription, for the demo and for tests

The text of the target's values is made by rules of this package. The code that wrote the values
must not also check them.
"""
