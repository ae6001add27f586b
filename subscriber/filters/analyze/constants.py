"""Constants as their type's input function takes them, and as its output function prints them."""

from __future__ import annotations

from subscriber.errors import UsageError
from subscriber.filters.analyze import tree
from subscriber.filters.functions.forms import form_of


def check_constant(node: tree.Constant) -> None:
    """Have the type's input function read it, as PostgreSQL does when it analyses; without one of ours, that is left.

    Raises:
        SubscriberError: as the input function would: ``invalid input syntax for type …``.
    """
    form = form_of(node.type_oid)
    if form is not None and node.text is not None:
        form.from_text(node.text, node.type_modifier)


def output_text(node: tree.Constant) -> str:
    """The constant as the type's output function prints it; as it was written, where we have no form of the type."""
    assert node.text is not None
    form = form_of(node.type_oid)
    return node.text if form is None else form.to_text(form.from_text(node.text, node.type_modifier))


def bits_of(constant: str) -> str:
    """``bit_in``: the bits of a constant that begins with b or x.

    Raises:
        UsageError: 22P02, a digit that is none.
    """
    letter, digits = constant[0], constant[1:]
    allowed, name = ("01", "binary") if letter == "b" else ("0123456789abcdefABCDEF", "hexadecimal")
    for digit in digits:
        if digit not in allowed:
            raise UsageError(f'"{digit}" is not a valid {name} digit', sqlstate="22P02")
    return digits if letter == "b" else "".join(f"{int(digit, 16):04b}" for digit in digits)
