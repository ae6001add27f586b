"""A psql session: its file format, its statements, and what psql prints.

::

    session_file   the format of a scenario file: prompts, statements, expected output, comments
    psql_input     the queries and backslash commands in what is typed, and whether a statement reads
                   rows, or changes subscriptions or publications
    psql           runs statements on a connection and returns what psql would print
    aligned        psql's table format
    psql_table     tables of texts and of query results as psql prints them, also for the command line
    describe_publications   the backslash commands that describe emulated publications
    expect         compares what was printed with what the file expects

Where a statement runs is in :mod:`subscriber.testing.nodes`.
"""
