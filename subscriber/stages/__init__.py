"""Pure functions over the batches of the journal and of COPY. They run on Spark's executors, and
also in one process without Spark.

::

    journal's rows ──decode_frames──▶ Frame ──publish──▶ Frame as the emulated publications publish it ──▶ apply
    COPY's text    ──blocks──▶ Arrow blocks of a table ──▶ a target's loader

The modules:

- ``decode_frames`` decodes rows of the journal into frames.
- ``publish`` filters and rewrites frames by emulated publications. Without these, the server has
  filtered the changes, and the stage is left out.
- ``blocks`` decodes the data of COPY for the initial copy.
- ``emulate`` runs the stages of the stream in this process, and applies their result.
- ``in_process`` is a subscription to a publisher without a server, in this process.
- ``explain_journal`` reports why each change was sent or left out.
- ``replay_journal`` feeds a journal to an output plugin, with the catalogs of ``replayed_catalog``;
  ``slot_file`` keeps how far.

Not here: nothing in this package imports pyspark. The Spark jobs that run the stages are in
:mod:`subscriber.pipeline`, the rules of publications are in :mod:`subscriber.publication`, the form
of frames is in :mod:`subscriber.protocol.changes`, and applying is in :mod:`subscriber.apply`.
"""
