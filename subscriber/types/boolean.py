"""boolean: text ``t`` or ``f``, binary one byte, non-zero for true (boolrecv)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.types.family import binary_numbers, family, fixed_width, invalid_text


def _from_text(array: pa.BinaryArray) -> pa.BooleanArray:
    rows = fixed_width(array, 1)
    if rows is not None:
        true = rows.reshape(-1) == ord("t")
        if np.all(true | (rows.reshape(-1) == ord("f"))):
            return pa.array(true)
    raise invalid_text("boolean")


def _from_binary(array: pa.BinaryArray) -> pa.BooleanArray:
    return pa.array(binary_numbers(array, "u1", "boolean") != 0)


FAMILIES: Final = (family("boolean", (16,), pa.bool_(), _from_text, _from_binary),)
