"""Everything beside tables and keys that the publisher has and the target lacks.

::

    schema_difference    reads publisher and target, and compares them table by table
      ├─ compare_table       the objects of one table: missing, different or there; how they are built
      │    └─ compare_constraints   CHECKs, indexes, keys, foreign keys; those that only the target has
      ├─ above_tables        partitioned tables above published partitions
      └─ missed_objects      views, triggers, sequences, types; functions that objects wait for
    schema_object        what an object is, in which order objects are built
    apply_schema         builds the objects of one phase, or writes the DDL as a script of two parts

An object has a phase: ``before`` the copy what rows need or what is cheap on an empty table,
``after`` it what is faster to build once, ``manual`` what the target cannot have with the same
meaning, and what somebody may have declared otherwise on purpose. What is there is recognized by
its definition, so that every step can be repeated.

*Rejected:* building everything when the subscription is created. Indexes and foreign keys make a
copy several times slower, and an object that the target refuses would refuse the subscription.
"""
