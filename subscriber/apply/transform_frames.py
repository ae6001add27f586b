"""Changes whose columns have transforms, with the values of the target.

::

    decoded and filtered Frame ──▶ HistoryFrames ──▶ TransformFrames ──▶ exact or bulk path

Row filters see the publisher's values, because they are evaluated where frames are decoded. All
that follows sees the target's values: reordering, statements, the search for rows, conflicts and
their records. Old rows and keys are transformed like new ones, so a change finds the row that the
target has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.transform_rules import ColumnTransform, TransformRules
from subscriber.postgres.schema.transform_values import transformed_batch, transformed_relation


class TransformFrames:
    """Turns the frames of one batch. ``as_text``: the target gets PostgreSQL's text."""

    def __init__(self, rules: TransformRules, *, as_text: bool) -> None:
        self._rules = rules
        self._as_text = as_text
        self._relations: dict[Relation, Relation] = {}
        self._transforms: dict[Relation, Mapping[str, ColumnTransform]] = {}

    def of(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The errors of :func:`transformed_relation` and of :func:`transformed_batch`."""
        return map(self._turned, frames)

    def _turned(self, frame: Frame) -> Frame:
        truncated = {number: tuple(map(self._relation, named)) for number, named in frame.controls.relations.items()}
        return replace(
            frame,
            groups=tuple(map(self._group, frame.groups)),
            controls=replace(frame.controls, relations=truncated),
        )

    def _group(self, group: ChangeGroup) -> ChangeGroup:
        relation = self._relation(group.relation)
        transforms = self._transforms[group.relation]
        if not transforms:
            return group
        old, new = (
            None if rows is None else transformed_batch(transforms, group.relation, rows, as_text=self._as_text)
            for rows in (group.old, group.new)
        )
        return replace(
            group,
            relation=relation,
            old=old,
            new=new,
            binary=group.binary - transforms.keys(),
        )

    def _relation(self, relation: Relation) -> Relation:
        found = self._relations.get(relation)
        if found is None:
            self._transforms[relation] = self._rules.of(relation.namespace, relation.name)
            found = self._relations[relation] = transformed_relation(self._rules, relation)
        return found
