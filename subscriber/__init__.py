"""``CREATE SUBSCRIPTION`` for any database.

::

    publisher ─▶ receive ─▶ journal ─▶ stages, on Spark (pipeline) ─▶ apply ─▶ targets
    what is      stream     durable,   decode the stream, publish     one       any SQLAlchemy
    asked of     in         in commit  it by the subscriber's own     target    database, and what
    the server              order      publications and filters       txn       it can do

    cli ─▶ scenario ─▶ runtime ─▶ commands ─▶ catalog      who calls; docs/architecture.md has all

All of these packages use four basic ones: protocol (the messages of the replication protocol),
types (PostgreSQL's types and values), sql (the lexemes of PostgreSQL's commands) and schema
(descriptions of tables).

The public names are :func:`subscriber.emulate`, which runs the same stages in one process without
Spark, :class:`subscriber.PgoutputSource` for ``spark.dataSource.register``,
:class:`subscriber.ChangeFeedLag` for ``spark.streams.addListener``, and
:class:`subscriber.ReceivedMessage`, the argument of the function that ``subscriber run
--on-message`` calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subscriber.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from subscriber.apply.message_listener import ReceivedMessage
    from subscriber.spark.feed.lag_listener import ChangeFeedLag
    from subscriber.spark.source import PgoutputSource
    from subscriber.testing.emulate import emulate
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "apply.message_listener": ("ReceivedMessage",),
            "spark.feed.lag_listener": ("ChangeFeedLag",),
            "spark.source": ("PgoutputSource",),
            "testing.emulate": ("emulate",),
        },
    )

__all__ = ["ChangeFeedLag", "PgoutputSource", "ReceivedMessage", "__version__", "emulate"]

__version__ = "0.1.0"
