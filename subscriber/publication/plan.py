"""What becomes of the changes of one relation: the answer that :mod:`combine` gives, and
:mod:`transform` carries out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from subscriber.protocol.messages import Relation
from subscriber.publication.definition import Operation
from subscriber.schema.publisher_tables import PublisherTable


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a publication says of an operation that it publishes (rule B8).

    Attributes:
        publication: its name.
        where: its filter; None: the operation is published unfiltered.
    """

    publication: str
    where: str | None


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """What becomes of the changes that come under one relation.

    Attributes:
        relation: the relation, as it came.
        publish_as: what the changes go on as, with the columns that are sent; None: the relation is
            not published.
        table: the table of ``publish_as``, for whose columns the filters are written.
        operations: what is published.
        opinions: what the publications that count say of insert, update and delete, in the
            subscription's order.
    """

    relation: Relation
    publish_as: Relation | None = None
    table: PublisherTable | None = None
    operations: frozenset[Operation] = frozenset()
    opinions: Mapping[Operation, tuple[Opinion, ...]] = field(default_factory=dict)

    def filters(self, operation: Operation) -> tuple[Opinion, ...]:
        """The filters that are OR-ed for an operation; empty where it is unfiltered (rules B9,
        B10a).
        """
        opinions = self.opinions.get(operation, ())
        return () if any(one.where is None for one in opinions) else opinions
