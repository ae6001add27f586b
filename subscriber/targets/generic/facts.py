"""The facts about a database of which only SQLAlchemy's dialect is known, and what follows from
them: its capabilities, the types of its columns, and whether it can be a target at all.

A fact that forbids exactness is refused with its name (invariant refuse_not_guess).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql import quoted_name

from subscriber.base.errors import NotSupportedError
from subscriber.targets.base.catalog import declared_as, declared_storage
from subscriber.targets.capabilities import Capabilities, Fact, FactValue, Limits

KEY_CHARACTERS: Final = 255
"""The length of a text in a key. MySQL's family requires one, and refuses a longer value."""

PRECISIONS: Final = (38, 31, 28, 18)
"""The precisions of decimals that are probed, the largest first."""

UPPER_CASE: Final = "upper case"
"""How a database stores names without quotes, if not in lower case or as they are written."""

KINDS: Final[Mapping[str, sa.types.TypeEngine[Any]]] = {
    "boolean": sa.Boolean(),
    "smallint": sa.SmallInteger(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "double": sa.Double(),
    "bytes": sa.LargeBinary(),
    "date": sa.Date(),
    "timestamp": sa.DateTime(),
    "text": sa.Text(),
    "varchar": sa.String(KEY_CHARACTERS),
}
"""The kinds of columns, by SQLAlchemy's types; decimals have a precision of their own."""

LOCATORS: Final = ("rowid", "RDB$DB_KEY", "$rowid$")
"""Names that databases have for the place of a row."""

_FORBIDDEN: Final[Mapping[str, str]] = {
    "transactions": "A rollback does not undo an INSERT, so progress and data could not be committed together.",
    "row_counts": "An UPDATE does not report how many rows it found, so progress could not be compared and set, and a"
    " missing row would not be noticed.",
    "integer": "An integer does not come back as it was.",
    "varchar": "A text of a key does not come back as it was.",
    "text": "A long text does not come back as it was, and every type that the database does not have is stored as text.",
    "text_comparison": "Texts that differ in more than final blanks are equal in a key, or are not found by it.",
    "exact_names": "A table is not found again under its name.",
}
"""Why a database cannot be a target if one of these facts is not true."""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What is known of one database: facts by their names."""

    database: str
    facts: Mapping[str, Fact]

    def __getitem__(self, name: str) -> FactValue:
        found = self.facts.get(name)
        return None if found is None else found.value

    def with_overrides(self, overrides: Mapping[str, FactValue]) -> DatabaseFacts:
        """The facts with those that a package has registered in their place."""
        given = {name: Fact(name, value, "registered") for name, value in overrides.items()}
        return DatabaseFacts(self.database, {**self.facts, **given})

    def refusal(self) -> NotSupportedError | None:
        """The error for a database that cannot be a target."""
        for name, reason in _FORBIDDEN.items():
            fact = self.facts[name]
            if not fact.value:
                return NotSupportedError(
                    f"{self.database} cannot be a target, because of fact {name}: {fact.shown}",
                    detail=f"{reason} Found by: {fact.found}.",
                    hint="Write with the Spark source into this database; docs/targets.md lists the facts.",
                )
        return None

    def capabilities(self) -> Capabilities:
        length, parameters = self["name_length"], self["parameters"]
        return Capabilities(
            database=self.database,
            multi_rowcount=bool(self["multi_row_counts"]),
            transactional_ddl=bool(self["transactional_ddl"]),
            savepoints=bool(self["savepoints"]),
            signed_zero=bool(self["signed_zero"]),
            column_case=bool(self["column_case"]),
            table_case=bool(self["table_case"]),
            limits=Limits(
                # An UPDATE of a table without a key has two parameters for each column.
                columns=parameters // 2 if isinstance(parameters, int) else None,
                name_length=length if isinstance(length, int) else None,
                final_blank=bool(self["final_blank"]),
                upper_case=self["unquoted_names"] != UPPER_CASE,
                last_character="\U0010ffff" if self["wide_names"] else "\uffff",
            ),
        )

    @property
    def precision(self) -> int:
        """The greatest precision of a decimal that is stored exactly; 0 if there is none."""
        found = self["decimal_precision"]
        return found if isinstance(found, int) else 0

    def kinds(self, storage: str) -> tuple[str, ...]:
        """The kinds of values that columns of a type hold exactly, by the type's stored name."""
        return tuple(name for name in (*KINDS, "decimal") if self[name] == storage)


def locator(name: str) -> quoted_name:
    """A pseudo-column, whose name some databases know only without quotes."""
    return quoted_name(name, quote=False)


DOUBLES: Final[tuple[sa.types.TypeEngine[Any], ...]] = (sa.Double(), sa.DOUBLE_PRECISION(), sa.Float(53))
"""Some dialects write a name for the first of these that their database does not have."""


def declared_type(kind: str, facts: DatabaseFacts, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
    """SQLAlchemy's type of columns of a kind; decimals have the greatest precision."""
    if kind == "decimal":
        return sa.Numeric(facts.precision or None)
    if kind == "double":
        shown = [one for one in DOUBLES if declared_storage(declared_as(one, dialect)) == facts[kind]]
        return shown[0] if shown else KINDS[kind]
    return KINDS[kind]


# The errors of a driver ---------------------------------------------------------------------------

_CODES: Final = ("sqlstate", "pgcode", "sqlite_errorname", "sqlcode", "errno")
"""Attributes in which drivers have an error's code."""


def signature(error: BaseException | None) -> str:
    """The class and the codes of a driver's error, by which it is recognized; never its text."""
    codes: list[str] = []
    for name in _CODES:
        code = getattr(error, name, None)
        if isinstance(code, int | str) and re.fullmatch(r"-?\w{1,60}", str(code)):
            codes.append(f"{name}={code}")
    first = error.args[0] if error is not None and error.args else None
    if not codes and isinstance(first, int):
        codes.append(f"code={first}")
    return " ".join([type(error).__name__, *codes])


def sqlstate_of(error: BaseException | None) -> str | None:
    found = next((getattr(error, name, None) for name in ("sqlstate", "pgcode")), None)
    return found if isinstance(found, str) and re.fullmatch(r"[0-9A-Z]{5}", found) else None


def by_name(facts: Iterable[Fact]) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts}


def folds_names(dialect: sa.Dialect) -> bool:
    """Whether the database stores names without quotes in upper case, and SQLAlchemy in lower."""
    return bool(getattr(dialect, "requires_name_normalize", False))
