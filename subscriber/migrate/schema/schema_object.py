"""An object of the publisher's schema that the target lacks, and what finds it: a publisher's table
beside its table in the target.

The target shows an expression in a form of its own: with other blanks, quotes and parentheses than
it was declared with. So what the target has is compared with what it would show for the wanted
expression (:meth:`Objects.shown`), without blanks, quotes of names and outer parentheses.

*Rejected:* parsing both and comparing the trees, which can differ although the target stores the
same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.schema.shape import RelatedDifference, StandaloneSequence, UserFunction, UserType
from subscriber.publisher.table_checks import Parent
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.table_changes import CannotBuild, Definition, FoundObjects, TableChange

Phase = Literal["before", "after", "manual"]
"""Before the initial copy, after it, or not at all by this program."""

KINDS: Final[tuple[str, ...]] = (
    "table",
    "type",
    "sequence",
    "column type",
    "primary key",
    "identity",
    "default",
    "different default",
    "generated column",
    "different generated column",
    "check constraint",
    "check of enum",
    "check of domain",
    "different check",
    "partitions",
    "unique key",
    "unique index",
    "index",
    "exclusion constraint",
    "different index",
    "unmet check",
    "replica identity",
    "inheritance",
    "partitioned table",
    "partition",
    "foreign key",
    "comment",
    "missing column",
    "surplus not null",
    "surplus unique key",
    "inexact unique key",
    "surplus check",
    "column",
    "collation",
    "text search dictionary",
    "text search configuration",
    "shared sequence",
    "function",
    "view",
    "materialized view",
    "trigger",
    "rule",
    "policy",
)
"""The kinds, in the order in which objects are built and shown."""
VIEWS: Final = frozenset({"view", "materialized view"})
"""Kinds whose objects depend on each other, so they are shown together."""
REPLICABLE: Final = ("table", "partitioned table")
"""The kinds of the target's tables that can be replicated into."""
AFTER: Final = frozenset(
    {
        "unique key",
        "unique index",
        "index",
        "exclusion constraint",
        "unmet check",
        "replica identity",
        "inheritance",
        "partitioned table",
        "partition",
        "foreign key",
        "comment",
    }
)
"""The kinds that are built after the copy."""


WITHOUT_ROWS: Final = frozenset({"table", "missing column"})
"""Kinds without which values are missing; in phase manual, because a copy must follow."""
MISSED: Final = frozenset({"partitioned table", "partition", "inheritance", "view", "materialized view", "trigger"})
"""The kinds that an application would miss, although this program may not build them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """An object that the target lacks. ``kind`` is one of :data:`KINDS`; ``name`` includes that of
    the table; ``ddl`` is in the target's dialect. ``reason``: why it is left out, or what differs
    from the publisher's. ``waits_for``: the functions (``regprocedure``) that it calls and the
    target lacks; of a function, ``needed_by`` are the objects that call it. ``change`` builds it;
    None if it is left out, with ``needs_stop`` only because `subscriber run` is running.
    ``atomic``: the statements begin with a check, so they need one transaction. ``order`` sorts
    objects of one kind and table. ``above`` is the level above existing partitions, 0 for other
    objects, which come before.
    """

    kind: str
    name: str
    phase: Phase
    ddl: str = ""
    reason: str = ""
    publisher_ddl: str = ""
    relation: str = ""
    waits_for: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()
    schema: str = ""
    needs_stop: bool = False
    atomic: bool = field(default=False, repr=False)
    table: TargetTable | None = field(default=None, repr=False, compare=False)
    change: TableChange | None = field(default=None, repr=False, compare=False)
    order: int = field(default=0, repr=False, compare=False)
    above: int = field(default=0, repr=False, compare=False)

    def as_json(self) -> Mapping[str, Any]:
        names = ("phase", "kind", "name", "ddl", "reason", "publisher_ddl")
        return {**{name: getattr(self, name) for name in names}, "waits_for": list(self.waits_for)}


def sort_objects(objects: list[SchemaObject]) -> tuple[SchemaObject, ...]:
    phases = ("before", "after", "manual")

    def place(one: SchemaObject) -> tuple[int, int, int, int, str, int, str]:
        is_view = one.kind in VIEWS
        relation = "" if is_view else one.relation  # a view of several tables has the first of them
        kind = KINDS.index("view" if is_view else one.kind)
        if one.kind in ("partitioned table", "partition"):
            kind -= len(KINDS)  # before what belongs to it
        return phases.index(one.phase), _stage(one), one.above, kind, relation, one.order, one.name

    return tuple(sorted(objects, key=place))


def _stage(one: SchemaObject) -> int:
    """Partitions' tables first, with indexes; then roots; then foreign keys, the roots' last."""
    if one.phase != "after":
        return 0
    if one.kind in ("foreign key", "comment"):
        return 2
    return 1 if one.above else 0


@dataclass(frozen=True, slots=True)
class SchemaComparison:
    """What the target of a subscription lacks, in the order in which it is built."""

    subscription: str
    database: str
    objects: tuple[SchemaObject, ...]

    def missing(self, phase: Phase) -> list[SchemaObject]:
        return [one for one in self.objects if one.phase == phase]

    def lacking(self) -> list[SchemaObject]:
        """What ``subscriber schema apply`` builds, now or while no run works. Then what is built by
        hand: views, triggers, and functions and defaults that call them.
        """
        named = [one for one in self.objects if one.kind in WITHOUT_ROWS]
        stopped = [one for one in self.objects if one.needs_stop]
        missed = [one for one in self.missing("manual") if not one.needs_stop and _is_missed(one)]
        return [*named, *self.missing("before"), *self.missing("after"), *stopped, *missed]


def _is_missed(one: SchemaObject) -> bool:
    return bool(one.needed_by) or one.kind in MISSED or (one.kind == "default" and bool(one.waits_for))


TEXT: Final = 25
"""The type OID of text, in which other targets than PostgreSQL store the values of enums."""


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that the target lacks, or has with another definition. ``name`` is without the
    table's, and empty for the table. ``change`` builds it. ``reason``: why it is left out, or what
    is in its place; ``by_hand`` are statements for a user.
    """

    kind: str
    name: str
    change: TableChange | None
    reason: str = ""
    publisher_ddl: str = ""
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePair:
    """A publisher's table and its target's. ``published`` is None for all columns that are not
    generated; ``references`` has the target's tables by the publisher's names; ``shared_names`` are
    foreign keys' names that several tables have.
    """

    target: Target
    connection: Connection
    objects: PublisherTable
    table: TargetTable
    found: FoundObjects
    names: RelationNames
    subscription: str = ""
    published: Collection[str] | None = None
    references: Mapping[tuple[str, str], TargetTable] = field(default_factory=dict)
    shared_names: Collection[str] = ()

    @property
    def keeps_types(self) -> bool:
        return self.target.capabilities.postgresql_expressions

    def place(self, name: str) -> str:
        """The target's name of an object of the table's schema; a long name is shortened."""
        shape = self.objects
        schema, _ = self.names.in_target(shape.schema, shape.name)
        return self.target.capabilities.limits.shortened(self.target.ddl.qualified(schema, name)[1])

    def expression(self, text: str, *, loose: bool = False) -> str:
        """An expression with enums as texts. CannotBuild: it is not known to mean the same."""
        enums = self.enums()
        columns = {
            one.name: (TEXT if one.type_name in enums else one.type_oid, found)
            for one in self.objects.columns
            if (found := self.table.column(one.name)) is not None
        }
        return self.target.objects.expression(text, columns, inexact=self.found.inexact, enums=enums, loose=loose)

    def enums(self) -> frozenset[str]:
        """The enums of the table's columns, as ``format_type`` writes them."""
        types = self.objects.types
        return frozenset(
            column.type_name
            for column in self.objects.columns
            if column.name in types and types[column.name][0].kind == "enum" and not types[column.name][1]
        )

    def shown(self, change: Definition) -> str:
        """A change's definition as the target would show it. CannotBuild: it cannot have this."""
        return self.target.objects.shown(self.connection, self.table, change)


def different(both: TablePair, kind: str, name: str, change: Definition, present: tuple[str, str], ddl: str) -> Missing:
    """Left to the user, who may have declared ``present`` so, with statements that replace it."""
    objects, (present_name, definition) = both.target.objects, present
    reason = f"the target has {definition}"
    try:
        removal = objects.removal(both.table, change, present_name)
        statements = objects.statements(both.connection, both.table, change).sql
    except CannotBuild as error:
        return Missing(kind, name, None, f"{reason}; {error.reason}", ddl)
    return Missing(kind, name, None, reason, ddl, (*removal, *statements))


_TEXT: Final = r"'(?:[^'\\]|''|\\.)*'"
_TEXTS: Final = re.compile(rf"({_TEXT})", re.DOTALL)
_CAST: Final = r'(?:::[\w ".]+(?:\([\d, ]+\))?(?:\[\])*)?'
_CONSTANT: Final = re.compile(
    rf"(?:-?\s*\d+(?:\.\d+)?|[xX]?{_TEXT}|TRUE|FALSE){_CAST}|CAST\({_TEXT} AS [\w ]+(?:\([\d, ]+\))?\)",
    re.IGNORECASE | re.DOTALL,
)


def plain(expression: str) -> str:
    """An expression without blanks, quotes of names and outer parentheses, except in texts."""
    parts = _TEXTS.split(expression)
    parts[::2] = [re.sub(r'[\s"`]', "", part).replace("!=", "<>") for part in parts[::2]]
    text = "".join(parts)
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1]
    return text


def is_constant(expression: str) -> bool:
    """Whether a default is one constant, also cast or in parentheses: its value can be computed."""
    text = expression.strip()
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1].strip()
    return _CONSTANT.fullmatch(text) is not None


def _closes_at_end(text: str) -> bool:
    depth = 0
    place = 0
    for part in _TEXTS.split(text):
        place += len(part)
        if _TEXTS.fullmatch(part):
            continue
        for offset, letter in enumerate(part):
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return place - len(part) + offset == len(text) - 1
    return False


@dataclass(frozen=True, slots=True)
class PublisherSchema:
    tables: Sequence[PublishedTable]
    objects: Sequence[PublisherTable]
    others: Sequence[RelatedDifference]
    parents: Sequence[Parent]
    roots: Sequence[PublisherTable]
    sequences: Sequence[StandaloneSequence]
    functions: Sequence[UserFunction]
    types: Mapping[int, UserType]
    view_depths: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TargetSchema:
    """The target's tables and views by the publisher's names, and what its tables have."""

    tables: Mapping[TableName, TargetTable]
    found: Mapping[TargetTable, FoundObjects]
