"""The plan for the changes of one relation, which :mod:`combine` makes and :mod:`transform` carries
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from subscriber.protocol.messages import Relation
from subscriber.publication.definition import Operation
from subscriber.schema.publisher_tables import PublisherTable


@dataclass(frozen=True, slots=True)
class Opinion:
    """The filter of a publication for an operation that it publishes (rule B8).

    Attributes:
        publication: the name of the publication.
        where: its filter; None if it publishes the operation unfiltered.
    """

    publication: str
    where: str | None


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """The plan for the changes of one relation.

    Attributes:
        relation: the relation, as it was received.
        publish_as: the relation with which the changes are sent, with the columns that are sent;
            None if the relation is not published.
        table: the table of ``publish_as``; the filters are written for its columns.
        operations: the published operations.
        opinions: for insert, update and delete, the filters of the publications that count, in the
            subscription's order.
    """

    relation: Relation
    publish_as: Relation | None = None
    table: PublisherTable | None = None
    operations: frozenset[Operation] = frozenset()
    opinions: Mapping[Operation, tuple[Opinion, ...]] = field(default_factory=dict)

    def filters(self, operation: Operation) -> tuple[Opinion, ...]:
        """The filters that are combined with OR for an operation; empty if it is unfiltered (rules
        B9, B10a).
        """
        opinions = self.opinions.get(operation, ())
        return () if any(one.where is None for one in opinions) else opinions
