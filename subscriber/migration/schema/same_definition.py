"""Whether two expressions of the target's SQL are written the same.

The target shows an expression in a form of its own: with other blanks, quotes and parentheses than
it was declared with. So what the target has is compared with what it would show for the wanted
expression (:meth:`Objects.shown`), without blanks, quotes of names and outer parentheses.

*Rejected:* parsing both and comparing the trees. Two trees can differ although the target stores
the same, and the target itself is the only judge of that.
"""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = r"'(?:[^'\\]|''|\\.)*'"
_TEXTS: Final = re.compile(rf"({_TEXT})", re.DOTALL)
_CAST: Final = r'(?:::[\w ".]+(?:\([\d, ]+\))?(?:\[\])*)?'
_CONSTANT: Final = re.compile(
    rf"(?:-?\s*\d+(?:\.\d+)?|[xX]?{_TEXT}|TRUE|FALSE){_CAST}|CAST\({_TEXT} AS [\w ]+(?:\([\d, ]+\))?\)",
    re.IGNORECASE | re.DOTALL,
)


def plain(expression: str) -> str:
    """An expression without blanks, quotes of names and outer parentheses. Texts in it stay as they
    are.
    """
    parts = _TEXTS.split(expression)
    parts[::2] = [re.sub(r'[\s"`]', "", part).replace("!=", "<>") for part in parts[::2]]
    text = "".join(parts)
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1]
    return text


def is_constant(expression: str) -> bool:
    """Whether a default consists of one constant, so that its value can be computed. The constant
    may be cast, and may have parentheses around it.
    """
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
