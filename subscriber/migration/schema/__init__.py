"""Everything beside tables and keys that the publisher has and the target lacks.

::

    schema_difference    reads publisher and target
      ├─ compare_table       the objects of one table: missing, different or there
      │    ├─ compare_columns, compare_checks, compare_indexes, compare_foreign_keys
      │    └─ same_definition    whether two expressions are written the same
      └─ called_functions    what waits for a function that the target lacks
    schema_object        what an object is, in which order objects are built
    ddl_script           the DDL as a script of two parts
    apply_schema         builds the objects of one phase, each in a transaction of its own

An object has a phase: ``before`` the copy what rows need or what is cheap on an empty table,
``after`` it what is faster to build once, ``manual`` what the target cannot have with the same
meaning, and what somebody may have declared otherwise on purpose. What is there is recognized by
its definition, so that every step can be repeated.

*Rejected:* building everything when the subscription is created. Indexes and foreign keys make a
copy several times slower, and an object that the target refuses would refuse the subscription.
"""
