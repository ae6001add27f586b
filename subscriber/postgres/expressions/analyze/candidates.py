"""The choice of the function or operator that a call means, among all with its name:
``parse_func.c``, ``parse_oper.c`` and ``namespace.c``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze.coerce import Coercions
from subscriber.postgres.expressions.analyze.typeinfo import UNKNOWN
from subscriber.postgres.expressions.builtin_catalog import Function, Operator

_STRING: Final = "S"


class HasArguments(Protocol):
    @property
    def arguments(self) -> tuple[int, ...]:
        """The types of the arguments, as many as the call has."""


_Candidate = TypeVar("_Candidate", bound=HasArguments)


@dataclass(frozen=True, slots=True)
class FunctionCandidate:
    """A function as the call would use it. ``place`` is the index of its schema in the search path.
    Of a VARIADIC function, ``arguments`` has the element type once for each of ``variadic_count``
    arguments. ``ambiguous``: another function with the same argument types is equally good.
    """

    function: Function
    arguments: tuple[int, ...]
    place: int
    variadic_count: int = 0
    default_count: int = 0
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class OperatorCandidate:
    operator: Operator
    arguments: tuple[int, ...]


def matching(coercions: Coercions, inputs: Sequence[int], candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """``func_match_argtypes``: those to which the inputs can be converted implicitly."""
    return [one for one in candidates if coercions.possible(inputs, one.arguments)]


def select(coercions: Coercions, inputs: Sequence[int], candidates: Sequence[_Candidate]) -> _Candidate | None:
    """``func_select_candidate``: the best of several that match; None if none is the best."""
    types = coercions.types
    bases = [oid if oid == UNKNOWN else types.base(oid) for oid in inputs]
    known = [place for place, oid in enumerate(bases) if oid != UNKNOWN]
    unknown = [place for place, oid in enumerate(bases) if oid == UNKNOWN]

    best = _best(candidates, lambda one: sum(one.arguments[place] == bases[place] for place in known))
    if len(best) == 1:
        return best[0]
    categories = [types.category(oid) for oid in bases]
    best = _best(
        best,
        lambda one: sum(
            one.arguments[place] == bases[place] or types.is_preferred(categories[place], one.arguments[place])
            for place in known
        ),
    )
    if len(best) == 1:
        return best[0]
    if not unknown:
        return None
    found = _by_category(coercions, unknown, best)
    if len(found) == 1:
        return found[0]
    same = {bases[place] for place in known}
    if len(same) == 1:
        (oid,) = same
        best = matching(coercions, [oid] * len(inputs), found or best)
        if len(best) == 1:
            return best[0]
    return None


def _best(candidates: Sequence[_Candidate], score: _Score) -> list[_Candidate]:
    scores = [score(one) for one in candidates]
    return [one for one, points in zip(candidates, scores, strict=True) if points == max(scores)]


class _Score(Protocol):
    def __call__(self, one: HasArguments, /) -> int: ...


def _by_category(coercions: Coercions, unknown: Sequence[int], candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The candidates whose types at the places of unknown inputs have the right category.

    This is the string category if any candidate has it there, otherwise the one that all have. If a
    candidate has its preferred type, the others are left out. If categories differ, all stay.
    """
    types = coercions.types
    wanted: dict[int, tuple[str, bool]] = {}
    for place in unknown:
        found = [types.get(one.arguments[place]) for one in candidates]
        categories = {one.category for one in found}
        category = _STRING if _STRING in categories else found[0].category
        if len(categories) > 1 and category != _STRING:
            return list(candidates)
        wanted[place] = category, any(one.preferred for one in found if one.category == category)
    kept = [
        one
        for one in candidates
        if all(
            types.category(one.arguments[place]) == category
            and (not preferred or types.get(one.arguments[place]).preferred)
            for place, (category, preferred) in wanted.items()
        )
    ]
    return kept or list(candidates)


# Functions ----------------------------------------------------------------------------------------


def function_candidates(
    coercions: Coercions,
    names: tuple[str, ...],
    count: int,
    argument_names: tuple[str | None, ...],
    *,
    expand_variadic: bool,
) -> list[FunctionCandidate]:
    """``FuncnameGetCandidates``: the functions that could take this number of arguments."""
    schema, name = (None, names[0]) if len(names) == 1 else (names[-2], names[-1])
    found: dict[tuple[int, ...], FunctionCandidate] = {}
    named = any(argument_names)
    for place, function in coercions.catalog.find_functions(schema, name):
        candidate = _candidate(function, place, count, expand_variadic=expand_variadic)
        if candidate is not None and named:
            candidate = _by_names(candidate, count, argument_names)
        if candidate is None:
            continue
        key = candidate.arguments[:count]
        found[key] = _preferred(found[key], candidate) if key in found else candidate
    return list(found.values())


def _candidate(function: Function, place: int, count: int, *, expand_variadic: bool) -> FunctionCandidate | None:
    declared = function.arguments
    if function.variadic and expand_variadic and len(declared) <= count:
        extra = count - len(declared) + 1
        return FunctionCandidate(function, declared[:-1] + (function.variadic,) * extra, place, variadic_count=extra)
    if len(declared) == count:
        return FunctionCandidate(function, declared, place)
    if count < len(declared) <= count + function.default_count:
        return FunctionCandidate(function, declared[:count], place, default_count=len(declared) - count)
    return None


def _by_names(
    candidate: FunctionCandidate, count: int, argument_names: tuple[str | None, ...]
) -> FunctionCandidate | None:
    """``MatchNamedCall``: with arguments in the call's order; None if names do not fit."""
    function = candidate.function
    if candidate.variadic_count or not function.argument_names:
        return None
    order: list[int | None] = [None] * len(function.arguments)
    for number, name in enumerate(argument_names):
        places = [number] if name is None else [i for i, own in enumerate(function.argument_names) if own == name]
        if not places or places[0] >= len(order) or order[places[0]] is not None:
            return None
        order[places[0]] = number
    missing = [place for place, number in enumerate(order) if number is None]
    if any(place < len(order) - function.default_count for place in missing):
        return None
    given = [0] * count
    for place, number_or_none in enumerate(order):
        if number_or_none is not None:
            given[number_or_none] = function.arguments[place]
    return replace(candidate, arguments=tuple(given), default_count=len(missing))


def _preferred(old: FunctionCandidate, new: FunctionCandidate) -> FunctionCandidate:
    """The better of two with the same types: earlier schema, not VARIADIC, fewer defaults."""

    def rank(one: FunctionCandidate) -> tuple[int, bool, int]:
        return one.place, one.variadic_count > 0, one.default_count

    if rank(old) == rank(new):
        return replace(old, ambiguous=True)
    return min(old, new, key=rank)


# Operators ----------------------------------------------------------------------------------------


def find_operator(coercions: Coercions, names: tuple[str, ...], left: int, right: int) -> Operator:
    """``oper``: the binary operator for these types."""
    schema, name = (None, names[0]) if len(names) == 1 else (names[-2], names[-1])
    operators = coercions.catalog.find_operators(schema, name, prefix=False)
    candidates = [OperatorCandidate(one, (one.left, one.right)) for one in operators]
    exact = {one.arguments: one.operator for one in candidates}
    like_other = (right, right) if left == UNKNOWN else (left, left) if right == UNKNOWN else (left, right)
    if like_other in exact:
        return exact[like_other]
    if like_other != (left, right):
        base = coercions.types.base(like_other[0])
        if (base, base) in exact:
            return exact[base, base]
    return _chosen_operator(coercions, names, (left, right), candidates)


def find_prefix_operator(coercions: Coercions, names: tuple[str, ...], operand: int) -> Operator:
    """``left_oper``: the prefix operator for this type."""
    schema, name = (None, names[0]) if len(names) == 1 else (names[-2], names[-1])
    operators = coercions.catalog.find_operators(schema, name, prefix=True)
    candidates = [OperatorCandidate(one, (one.right,)) for one in operators]
    for one in candidates:
        if one.arguments == (operand,):
            return one.operator
    return _chosen_operator(coercions, names, (operand,), candidates)


def _chosen_operator(
    coercions: Coercions, names: tuple[str, ...], inputs: tuple[int, ...], candidates: list[OperatorCandidate]
) -> Operator:
    found = matching(coercions, inputs, candidates)
    if len(found) == 1:
        return found[0].operator
    if found and (best := select(coercions, inputs, found)) is not None:
        return best.operator
    types = coercions.types
    operator = ".".join(names)
    signature = " ".join([*map(types.name, inputs[:-1]), operator, types.name(inputs[-1])])
    if found:
        raise UsageError(
            f"operator is not unique: {signature}",
            sqlstate="42725",
            hint="Could not choose a best candidate operator. You might need to add explicit type casts.",
        )
    raise UsageError(
        f"operator does not exist: {signature}",
        sqlstate="42883",
        hint="No operator matches the given name and argument "
        + (
            "types. You might need to add explicit type casts."
            if len(inputs) > 1
            else "type. You might need to add an explicit type cast."
        ),
    )
