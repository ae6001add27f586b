"""A psql session: its file format, its statements, and what psql prints.

::

    session_file   the format of a scenario file: prompts, statements, expected output, comments
    psql_input     the queries and backslash commands in what is typed
    effects        whether a statement reads rows, or changes subscriptions or publications
    psql           runs statements on a connection and returns what psql would print
    aligned        psql's table format
    expect         compares what was printed with what the file expects

``session_file`` reads a file into statements. For each statement, ``effects`` decides whether the
session waits, ``psql`` runs it, printing tables by ``aligned``, and ``expect`` compares the result.

Where a statement runs is in :mod:`subscriber.scenario.nodes`.
"""
