"""The order and the case of text under the collations of libc and ICU.

The server calls a library for these collations, and records the version of the library's rules
(``pg_collation_actual_version``). The same library of this machine gives the same results if it has
the same version. Otherwise the collation is refused.

::

    collation          order                          case
    C, POSIX           bytes                          ASCII        the functions themselves
    builtin C.UTF-8    bytes                          a table      that of PostgreSQL 18, case_mapping.tsv
    builtin, others    bytes                          refused      full case mapping; another version of Unicode
    libc C.UTF-8       bytes                          refused      it has no version
    libc, others       strcoll_l                      towlower_l   glibc of the same version, the locale is installed
    ICU                ucol_strcollUTF8               u_strToLower a library whose collator has the same version

Texts that the library takes for equal are ordered by their bytes (``varstr_cmp``). All collations
of a filter are deterministic: PostgreSQL refuses those that users have created.

*Rejected:* PyICU. It has to be compiled, and is bound to one version of ICU, whereas this module
takes the publisher's version from those that are installed. *Rejected:* ``locale.setlocale``, which
changes the locale of the whole process.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Any, Final, NamedTuple

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.schema.publisher_tables import PublisherCollation
from subscriber.postgres.types.family import sign

_LC_CTYPE_MASK, _LC_COLLATE_MASK, _CODESET = 1 << 0, 1 << 3, 14
_BYTES: Final = ("c", "posix")
_ICU_VERSIONS: Final = range(99, 49, -1)
_VERSION_BYTES: Final = 4
_BUFFER_TOO_SMALL: Final = 15
_UNICODE: Final = "16.0"
"""The version of Unicode of PostgreSQL 18."""
_UTF_16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


@dataclass(frozen=True, slots=True)
class Collator:
    """A collation that a library of this machine computes; ``compare`` gives a sign."""

    compare: Callable[[str, str], int]
    lower: Callable[[str], str]
    upper: Callable[[str], str]


def orders_by_bytes(collation: PublisherCollation) -> bool:
    """Whether UTF-8 texts are ordered by bytes. PostgreSQL records no version of these either."""
    locale = collation.locale.lower()
    return collation.provider == "b" or (collation.provider == "c" and (locale in _BYTES or locale.startswith("c.")))


@lru_cache(maxsize=100)
def collator_of(collation: PublisherCollation) -> Collator:
    if collation.provider == "i":
        return _of_icu(collation)
    if collation.provider == "c" and not orders_by_bytes(collation):
        return _of_libc(collation)
    if (collation.provider, collation.locale, collation.version) == ("b", "C.UTF-8", _UNICODE):
        lower, upper = _case_mapping()
        return Collator(partial(_ordered, sign), lambda text: text.translate(lower), lambda text: text.translate(upper))
    raise _unavailable(collation, "Its case mapping belongs to the server's version of Unicode.")


@cache
def _case_mapping() -> tuple[dict[int, int], dict[int, int]]:
    """A line of the file has first and last character, their distance, and what is added."""
    found: dict[str, dict[int, int]] = {"lower": {}, "upper": {}}
    for line in (files(__package__) / "case_mapping.tsv").read_text(encoding="ascii").splitlines():
        kind, first, last, step, difference = line.split("\t")
        codes = range(int(first, 16), int(last, 16) + 1, int(step))
        found[kind] |= {code: code + int(difference) for code in codes}
    return found["lower"], found["upper"]


def _unavailable(collation: PublisherCollation, detail: str) -> NotSupportedError:
    return NotSupportedError(
        f'collation "{collation.name}" of the publisher cannot be computed on this machine',
        detail=detail,
        hint='Install what the detail names on the machines of the subscriber, or write COLLATE "C" after the value.',
    )


def _ordered(compare: Callable[[bytes, bytes], int], left: str, right: str) -> int:
    one, other = left.encode(), right.encode()
    if one == other:
        return 0
    return compare(one, other) or sign(one, other)


# --- libc -----------------------------------------------------------------------------------------


def _of_libc(collation: PublisherCollation) -> Collator:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        here = library.gnu_get_libc_version().decode()
    except AttributeError:
        raise _unavailable(collation, "The publisher's collation is that of glibc, which this machine lacks.") from None
    if collation.version != here:
        theirs = f"glibc {collation.version}" if collation.version else "a libc whose version it does not know"
        raise _unavailable(collation, f"The publisher uses {theirs}, this machine glibc {here}.")
    library.newlocale.restype = ctypes.c_void_p
    library.newlocale.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    handle = library.newlocale(_LC_COLLATE_MASK, collation.locale.encode(), None)
    handle = handle and library.newlocale(_LC_CTYPE_MASK, collation.ctype.encode(), handle)
    if not handle:
        raise _unavailable(collation, f'The locale "{collation.locale}" is not installed (locale -a).')
    library.nl_langinfo_l.restype = ctypes.c_char_p
    library.nl_langinfo_l.argtypes = [ctypes.c_int, ctypes.c_void_p]
    if library.nl_langinfo_l(_CODESET, handle) != b"UTF-8":
        raise _unavailable(collation, f'The locale "{collation.locale}" is not one of UTF-8.')
    strcoll = library.strcoll_l
    strcoll.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    cases = []
    for function in (library.towlower_l, library.towupper_l):
        function.argtypes, function.restype = [ctypes.c_uint, ctypes.c_void_p], ctypes.c_uint
        cases.append(partial(_each_character, function, handle))
    return Collator(partial(_ordered, lambda left, right: int(strcoll(left, right, handle))), *cases)


def _each_character(function: Callable[[int, int], int], handle: int, text: str) -> str:
    return "".join(chr(function(ord(one), handle)) for one in text)


# --- ICU ------------------------------------------------------------------------------------------


class _Icu(NamedTuple):
    """A version of ICU that is installed: ``collation`` is libicui18n, ``common`` is libicuuc."""

    major: int
    collation: ctypes.CDLL
    common: ctypes.CDLL

    def function(self, library: ctypes.CDLL, name: str, *arguments: Any, result: Any = None) -> Any:
        """A function of a library. Its name has the version as a suffix."""
        found = getattr(library, f"{name}_{self.major}")
        found.argtypes, found.restype = arguments, result
        return found


@cache
def _installed() -> tuple[_Icu, ...]:
    return tuple(_search())


def _search() -> Iterator[_Icu]:
    for major in _ICU_VERSIONS:
        try:
            yield _Icu(major, ctypes.CDLL(f"libicui18n.so.{major}"), ctypes.CDLL(f"libicuuc.so.{major}"))
        except OSError:
            continue


def _of_icu(collation: PublisherCollation) -> Collator:
    if collation.rules:
        raise _unavailable(collation, "It has rules of its own.")
    found = {}
    for icu in _installed():
        handle, version = _opened(icu, collation.locale)
        if handle and version == collation.version:
            return _icu_collator(icu, handle, collation.locale)
        found[icu.major] = version
    here = ", ".join(f"ICU {major} with version {version}" for major, version in found.items()) or "no ICU library"
    raise _unavailable(collation, f"The publisher uses ICU with version {collation.version}, this machine has {here}.")


def _opened(icu: _Icu, locale: str) -> tuple[int | None, str]:
    """A collator of ICU and its version, as ``u_versionToString`` writes it."""
    status = ctypes.c_int()
    open_collator = icu.function(
        icu.collation, "ucol_open", ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), result=ctypes.c_void_p
    )
    handle = open_collator(locale.encode(), ctypes.byref(status))
    if status.value > 0 or not handle:
        return None, "unknown"
    parts = ctypes.create_string_buffer(_VERSION_BYTES)
    icu.function(icu.collation, "ucol_getVersion", ctypes.c_void_p, ctypes.c_char_p)(handle, parts)
    numbers = list(parts.raw)
    while len(numbers) > 2 and not numbers[-1]:
        numbers.pop()
    return handle, ".".join(map(str, numbers))


def _icu_collator(icu: _Icu, handle: int, locale: str) -> Collator:
    text, size, status = ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int)
    compare = icu.function(
        icu.collation, "ucol_strcollUTF8", ctypes.c_void_p, text, size, text, size, status, result=ctypes.c_int
    )

    def collate(left: bytes, right: bytes) -> int:
        return int(compare(handle, left, len(left), right, len(right), ctypes.byref(ctypes.c_int())))

    cases = []
    for name in ("u_strToLower", "u_strToUpper"):
        convert = icu.function(icu.common, name, text, size, text, size, text, status, result=size)
        cases.append(partial(_converted, convert, locale.encode()))
    return Collator(partial(_ordered, collate), *cases)


def _converted(convert: Callable[..., int], locale: bytes, value: str) -> str:
    units = value.encode(_UTF_16)
    room = len(units) // 2 + 1
    while True:
        target = ctypes.create_string_buffer(2 * room)
        status = ctypes.c_int()
        needed = convert(target, room, units, len(units) // 2, locale, ctypes.byref(status))
        if status.value == _BUFFER_TOO_SMALL:
            room = needed + 1
            continue
        return target.raw[: 2 * needed].decode(_UTF_16)
