"""Pure functions over the batches of the journal and of COPY. They run on Spark's executors, and
also in one process without Spark; nothing in this package imports pyspark.

- ``decode_frames`` decodes rows of the journal into frames.
- ``publish`` filters and rewrites frames by emulated publications; without these it is left out.
- ``publication_history`` records in the journal by which emulated publications it was applied.
- ``blocks`` decodes the data of COPY for the initial copy.
- ``altered_tables`` finds where in a journal the publisher's tables were altered.
- ``explain_journal`` reports why each change was sent or left out.
"""
