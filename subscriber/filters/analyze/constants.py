"""Constants as their type's input function takes them, and as its output function prints them.

Whoever gets an error from here wrote the constant, so the message shows it, as PostgreSQL's does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from subscriber.errors import DataException, RowFilterError, UsageError
from subscriber.filters.analyze import tree
from subscriber.types import form_of
from subscriber.types.bits import bit_digits


@contextmanager
def shown_constant() -> Iterator[None]:
    """An input function's error with the text that it read.

    Raises:
        RowFilterError: for a DataException.
    """
    try:
        yield
    except DataException as error:
        raise RowFilterError(
            error.quoting or error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
        ) from None


def check_constant(node: tree.Constant) -> None:
    """Have the type's input function read it, as PostgreSQL does when it analyses; without one of
    ours, that is left.

    Raises:
        RowFilterError: as the input function would: ``invalid input syntax for type …``.
        NotSupportedError: a notation that is not read here.
    """
    form = form_of(node.type_oid)
    if form is not None and node.text is not None:
        with shown_constant():
            form.from_text(node.text, node.type_modifier)


def output_text(node: tree.Constant) -> str:
    """The constant as the type's output function prints it; as written where the type has no form.

    Raises:
        RowFilterError: its text is no value of the type.
    """
    assert node.text is not None
    form = form_of(node.type_oid)
    if form is None:
        return node.text
    with shown_constant():
        return form.to_text(form.from_text(node.text, node.type_modifier))


def bits_of(constant: str) -> str:
    """The bits of a constant that begins with b or x.

    Raises:
        UsageError: 22P02, a digit that is none.
    """
    try:
        return bit_digits(constant)
    except DataException as error:
        raise UsageError(error.quoting or error.message, sqlstate=error.sqlstate) from None
