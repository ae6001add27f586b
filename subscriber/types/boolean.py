"""boolean: the text is ``t`` or ``f``; the binary format is one byte, not zero for true
(boolrecv).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.errors import DataException
from subscriber.types.family import binary_numbers, family, fixed_width, invalid_text, packed
from subscriber.types.form import WHITESPACE, Form, invalid_syntax, sign, without_modifier


def _from_text(array: pa.BinaryArray) -> pa.BooleanArray:
    rows = fixed_width(array, 1)
    if rows is not None:
        true = rows.reshape(-1) == ord("t")
        if np.all(true | (rows.reshape(-1) == ord("f"))):
            return pa.array(true)
    raise invalid_text("boolean")


def _from_binary(array: pa.BinaryArray) -> pa.BooleanArray:
    return pa.array(binary_numbers(array, "u1", "boolean") != 0)


def boolin(text: str) -> bool:
    """The input function: ``true``, ``yes`` or their abbreviations, ``on``, ``1``, and the
    opposites.

    Raises:
        DataException: 22P02, the text is not a boolean.

    >>> boolin(" Yes"), boolin("fal"), boolin("of")
    (True, False, False)
    """
    word = text.strip(WHITESPACE).lower()
    if word in ("1", "on") or (word and any(whole.startswith(word) for whole in ("true", "yes"))):
        return True
    if word in ("0", "of", "off") or (word and any(whole.startswith(word) for whole in ("false", "no"))):
        return False
    raise invalid_syntax("boolean", text)


def parse_bool(text: str) -> bool | None:
    """The value of an option: as :func:`boolin`, but without space around it (``parse_bool``); None
    if the text is not a boolean.

    >>> parse_bool("off"), parse_bool(" off"), parse_bool("o")
    (False, None, None)
    """
    try:
        return None if text != text.strip(WHITESPACE) else boolin(text)
    except DataException:
        return None


def boolout(value: bool) -> str:
    """The output function of boolean."""
    return "t" if value else "f"


_FORM: Final = Form(without_modifier(boolin), boolout, pa.bool_(), compare=sign)

FAMILIES: Final = (
    family("boolean", (16,), pa.bool_(), _from_text, _from_binary, _FORM, send=partial(packed, "B", boolin)),
)
