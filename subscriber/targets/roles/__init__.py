"""What a target consists of: one role a file, each a Protocol.

Every target has errors, transactions, shapes, values, matching, writing, loading, ddl, sequences
and row_versions. A target may have prepared, origins, run_lock and cluster; it says so by having
them (``target.prepared is not None``). :mod:`subscriber.targets.generic` has what SQLAlchemy alone
can do for each of the first group, and a dialect overrides what it knows better.
"""
