"""Which values of an Arrow array a column of the target cannot hold: what the targets share.

The answer must agree with :meth:`Values.bind_values`, which raises at the first such value. Where a
target's rule can be computed for a whole array, the target's module does so. A value that is read
as another type (:mod:`subscriber.targets.conversion`) has no such rule: its input function decides.
Then each distinct value is bound alone, and only if binding all of them has failed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import UnsupportedValue
from subscriber.targets.declared_columns import none_of


def refused_one_by_one(bind: Callable[[pa.Array], object], values: pa.Array) -> pa.Array:
    """For each value whether ``bind`` raises UnsupportedValue for it; NULL is not refused.

    Args:
        bind: converts values, each of them independently of the others.
        values: the values.
    """
    if _binds(bind, values):
        return none_of(values)
    encoded = values.dictionary_encode()
    known = encoded.dictionary
    refused = pa.array([not _binds(bind, known.slice(place, 1)) for place in range(len(known))], pa.bool_())
    return pc.fill_null(refused.take(encoded.indices), False)


def _binds(bind: Callable[[pa.Array], object], values: pa.Array) -> bool:
    try:
        bind(values)
    except UnsupportedValue:
        return False
    return True
