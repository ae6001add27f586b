"""Benchmarks: every figure of ``docs/performance.md``. Run them with ``python -m benchmarks``.

::

    __main__     runs the benchmarks and prints the figures
    end_to_end   the stream: throughput, memory, latency, idle load, and PostgreSQL's own subscriber
    copy         the initial copy into every kind of target, and PostgreSQL's own
    decoder      tuples → Arrow columns, on one core
    filters      row filters, on one core
    transform    decoding, filtering and rewriting of changes, on one core
    apply        decoded frames → SQLite, by the exact path
    harness      the publisher, the target and the supervisor of the stream, and measured processes

The tests of correctness are in ``tests/``, not here.
"""
