"""Pure functions over the journal's batches: they run on Spark's executors and in one process
alike.

::

    journal's rows ──decode_frames──▶ Frame ──publish──▶ Frame as the subscription's own publications publish it ──▶ apply
    COPY's text    ──blocks──▶ Arrow blocks of a table ──▶ a target's loader

``emulate`` runs the stages of the stream in this process, ``explain_journal`` says why each change
was sent or left out. Nothing here imports pyspark: that is :mod:`subscriber.pipeline`.
"""
