"""The typed change feed of ``format("pgoutput")``: a table's changes as rows with Spark's types.

::

    options ──▶ table_shape: the table's columns, from the journal or the publisher ──▶ feed_schema
                                                                                           │
    journal ──read_rows──▶ FrameDecoder ──▶ groups of changes ──feed_rows──▶ Arrow batches ▼ ──▶ Spark

- ``feed_options`` reads and checks the options.
- ``spark_types`` has Spark's type for each type of PostgreSQL.
- ``table_shape`` finds in a journal how a table was described at a place.
- ``feed_schema`` has the rows' columns: those of the table, and those that describe the change.
- ``feed_publications`` finds by which publications a journal's changes are published.
- ``feed_rows`` makes rows of changes, column by column, on the executors.
- ``published_shape`` and ``table_snapshot`` ask the publisher: how it describes a table, and
  its rows.
- ``feed_range`` decides how far a batch goes, and finds transactions by their time.
- ``json_rows`` has the rows of several tables.
- ``net_changes`` folds the changes of each row.
- ``lag_listener`` tells how far queries are behind.
- ``change_feed`` is the reader of a stream, ``change_batch`` that of a batch read.
"""
