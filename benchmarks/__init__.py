"""Benchmarks: every figure of ``docs/performance.md``. Run them with ``python -m benchmarks``.

::

    __main__        options ──▶ measure ──▶ results as JSON and as a table
    workloads       W1 to W11, as data
    measure         alternates the subscribers over one backlog, and compares the content
    subscribers     PostgreSQL's own subscription, and this program in a process for each target
    process_watch   processor time by part, and memory
    flame_graphs    a flame graph of each part, by py-spy
    tables          each step with 10, 100, 1,000 … tables: what grows faster than they do
    migration       the commands of a migration with 50, 500 and 5,000 tables
    results         figures, ratios, comparison with committed results
    page, picture   results ──▶ the documents
    peers           Debezium's engine and dlt as subscribers; peer_process runs in their environment
    receive         the stream → the journal
    decoder         tuples → Arrow columns, on one core
    filters         row filters, on one core
    transform       decoding, filtering and rewriting of changes, on one core
    apply           decoded frames → SQLite, by the exact path
    change_feed     the typed change feed of Spark, beside its parts alone

The tests of correctness are in ``tests/``, not here.
"""
