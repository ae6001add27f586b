"""Reads and prints constants as the input and output functions of their types do.

The error messages quote the constant, as PostgreSQL's messages do. This discloses no data, because
the user who receives the message wrote the constant.
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
    """Replace an error of an input function by an error that quotes the text.

    Raises:
        RowFilterError: for each DataException.
    """
    try:
        yield
    except DataException as error:
        raise RowFilterError(
            error.quoting or error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
        ) from None


def check_constant(node: tree.Constant) -> None:
    """Check a constant with the input function of its type, as PostgreSQL does during the analysis.

    A constant of a type that the subscriber cannot read is not checked.

    Raises:
        RowFilterError: the error of the input function: ``invalid input syntax for type …``.
        NotSupportedError: the constant has a notation that the subscriber does not read.
    """
    form = form_of(node.type_oid)
    if form is not None and node.text is not None:
        with shown_constant():
            form.from_text(node.text, node.type_modifier)


def output_text(node: tree.Constant) -> str:
    """Return the constant as the output function of its type prints it.

    A constant of a type that the subscriber cannot read is returned as it was written.

    Raises:
        RowFilterError: the text is not a value of the type.
    """
    assert node.text is not None
    form = form_of(node.type_oid)
    if form is None:
        return node.text
    with shown_constant():
        return form.to_text(form.from_text(node.text, node.type_modifier))


def bits_of(constant: str) -> str:
    """Return the bits of a constant that begins with b or x.

    Raises:
        UsageError: 22P02, a character is not a valid digit.
    """
    try:
        return bit_digits(constant)
    except DataException as error:
        raise UsageError(error.quoting or error.message, sqlstate=error.sqlstate) from None
