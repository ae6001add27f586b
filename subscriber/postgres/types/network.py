"""inet, cidr, macaddr, macaddr8 and uuid.

inet and cidr are an address and the length of its netmask; they differ only in their texts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.base.byte_reader import Reader
from subscriber.base.digits import parse_int
from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types import family

_VERSIONS: Final = {2: 4, 3: 6}
_HEXADECIMAL: Final = re.compile(r"0[xX]([0-9A-Fa-f]+)")
_OCTETS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)*)")
_OCTETS_AND_POINT: Final = re.compile(rf"{_OCTETS.pattern}\.?")
_MASK: Final = re.compile(r"(?:/([0-9]+))?")
_SMALL_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_WORD: Final = re.compile(r"[0-9A-Fa-f]{1,4}")
_CLASSES: Final = ((240, 32), (224, 8), (192, 24), (128, 16), (0, 8))


@dataclass(frozen=True, slots=True)
class Inet:
    """An address as a number, with the length of the netmask and the IP version (4 or 6)."""

    version: int
    bits: int
    address: int

    @property
    def width(self) -> int:
        return 32 if self.version == 4 else 128

    @property
    def host_mask(self) -> int:
        return (1 << (self.width - self.bits)) - 1


# --- text ---------------------------------------------------------------------------------------


def _read(name: str, text: str) -> Inet:
    value = _ipv6(text) if ":" in text else _ipv4(text, is_cidr=name == "cidr")
    if value is None:
        raise family.invalid_syntax(name, text)
    return value


def _ipv4(text: str, *, is_cidr: bool) -> Inet | None:
    """An IPv4 address (``inet_net_pton.c``); None if the text is not one.

    cidr may be a hexadecimal number, and its netmask is that of the address's class or of the
    octets that are written. inet has four octets, or as many as its netmask needs.
    """
    if is_cidr and (found := _HEXADECIMAL.match(text)):
        octets = [int(pair.ljust(2, "0"), 16) for pair in re.findall("..?", found[1])]
    elif found := (_OCTETS if is_cidr else _OCTETS_AND_POINT).match(text):
        octets = [parse_int(one) for one in found[1].split(".")]
    else:
        return None
    mask = _MASK.fullmatch(text, found.end())
    count = len(octets)
    if mask is None or count > 4 or max(octets) > 255:
        return None
    if mask[1] is not None:
        bits = parse_int(mask[1])
    elif is_cidr:
        bits = max(next(length for least, length in _CLASSES if octets[0] >= least), 8 * count)
        bits = 4 if bits == 8 and octets[0] == 224 else bits
    else:
        bits = 32 if count == 4 else 33
    if bits > 32 or (not is_cidr and bits // 8 > count):
        return None
    return Inet(4, bits, int.from_bytes(bytes(octets).ljust(4, b"\0")))


def _ipv6(text: str) -> Inet | None:
    address, slash, mask = text.partition("/")
    if slash and _SMALL_NUMBER.fullmatch(mask) is None:
        return None
    bits = parse_int(mask) if slash else 128
    if address.startswith(":"):
        address = address[1:]
        if not address.startswith(":"):
            return None
    *words, last = address.split(":")
    value, gap = b"", None
    for word in words:
        if not word:
            if gap is not None:
                return None
            gap = len(value)
        elif _WORD.fullmatch(word) and len(value) < 16:
            value += int(word, 16).to_bytes(2)
        else:
            return None
    if "." in last:
        octets = last.split(".")
        # Octets may be empty, but not the last of the text. If there are too few, zeros follow.
        if len(octets) > 4 or len(value) > 12 or not (slash or octets[-1]):
            return None
        if not all(_SMALL_NUMBER.fullmatch(one or "0") and int(one or "0") <= 255 for one in octets):
            return None
        value += bytes(int(one or "0") for one in octets).ljust(4, b"\0")
    elif last:
        if _WORD.fullmatch(last) is None or len(value) == 16:
            return None
        value += int(last, 16).to_bytes(2)
    elif words and words[-1] and not slash:
        return None  # a single colon at the end
    if gap is not None:
        if len(value) == 16:
            return None
        value = value[:gap] + bytes(16 - len(value)) + value[gap:]
    return Inet(6, bits, int.from_bytes(value)) if len(value) == 16 and bits <= 128 else None


def inet_in(text: str) -> Inet:
    return _read("inet", text)


def cidr_in(text: str) -> Inet:
    """The input function of cidr, in which no bit may be set to the right of the netmask."""
    value = _read("cidr", text)
    if value.address & value.host_mask:
        raise DataException("invalid cidr value", sqlstate="22P02")
    return value


def host_text(value: Inet) -> str:
    """The text of the address without its netmask. In an IPv6 address the longest run of zeros is
    left out, and an address that contains an IPv4 address shows it in IPv4 notation.
    """
    if value.version == 4:
        return _dotted(value.address)
    words = [value.address >> shift & 0xFFFF for shift in range(112, -1, -16)]
    start, length = _longest_zeros(words)
    is_v4 = start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF))
    last = [_dotted(value.address & 0xFFFF_FFFF)] if is_v4 else [f"{word:x}" for word in words[6:]]
    parts = [f"{word:x}" for word in words[:6]] + last
    if length < 2:
        return ":".join(parts)
    return f"{':'.join(parts[:start])}::{':'.join(parts[start + length :])}"


def _dotted(address: int) -> str:
    return ".".join(str(octet) for octet in address.to_bytes(4))


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    """Begin and length of the first longest run; 0 if no run has more than one zero."""
    best, start = (0, 0), 0
    for place, word in enumerate([*words, 1]):
        if word:
            if place - start > max(best[1], 1):
                best = (start, place - start)
            start = place + 1
    return best


def inet_out(value: Inet) -> str:
    """The output function of inet. The netmask is omitted if it covers the whole address."""
    return host_text(value) if value.bits == value.width else cidr_out(value)


def cidr_out(value: Inet) -> str:
    """The output function of cidr, which always writes the netmask."""
    return f"{host_text(value)}/{value.bits}"


# --- order ---------------------------------------------------------------------------------------


def compare_addresses(left: Inet, right: Inet) -> int:
    """Compare version, the bits that both networks have, netmask length, and the remaining bits."""
    if left.version != right.version:
        return family.sign(left.version, right.version)
    outside = left.width - min(left.bits, right.bits)
    return family.sign(
        (left.address >> outside, left.bits, left.address), (right.address >> outside, right.bits, right.address)
    )


# --- the families -------------------------------------------------------------------------------


def _from_wire(is_cidr: bool, wire: Reader) -> Inet:
    """Layout: family u8, length of the netmask u8, is cidr u8, bytes i8, address."""
    kind, bits, _, size = wire.numbers("BBBb")
    version = _VERSIONS.get(kind)
    if version is None or size != (4 if version == 4 else 16) or bits > size * 8:
        raise family.BadWire
    value = Inet(version, bits, int.from_bytes(wire.bytes(size)))
    if is_cidr and value.address & value.host_mask:
        raise family.BadWire
    return value


def inet_send(read: Callable[[str], Inet], is_cidr: bool, text: str) -> bytes:
    value = read(text)
    size = value.width // 8
    kind = next(kind for kind, version in _VERSIONS.items() if version == value.version)
    return struct.pack(">BBBb", kind, value.bits, is_cidr, size) + value.address.to_bytes(size)


def _convert(write: Callable[[Inet], str], is_cidr: bool, wire: Reader) -> str:
    return write(_from_wire(is_cidr, wire))


_ADDRESSES: Final = tuple(
    family.of_texts(
        name,
        oid,
        partial(_convert, write, is_cidr),
        family.Form(family.without_modifier(read), write, compare=compare_addresses),
        send=partial(inet_send, read, is_cidr),
    )
    for name, oid, read, write, is_cidr in (
        ("inet", 869, inet_in, inet_out, False),
        ("cidr", 650, cidr_in, cidr_out, True),
    )
)


MIDDLE: Final = (0xFF, 0xFE)
"""Inserted when an address of six bytes is extended to eight bytes."""


_OUTPUT: Final = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){2})?")
_HEX: Final = "[0-9A-Fa-f]"
_ANY, _TWO = f"({_HEX}+)", f"({_HEX}{{1,2}})"
_LAYOUTS: Final = (
    *((_ANY, mark * 5) for mark in ":-"),
    *((_TWO, f"  {mark}  ") for mark in ":-"),
    *((_TWO, f" {mark} {mark} ") for mark in ".-"),
    (_TWO, "     "),
)
"""The layouts of an address: the digits of a byte, and what stands between the bytes (a blank means
nothing).
"""
_PAIR: Final = re.compile(_HEX * 2)
_DASHES: Final = re.compile(
    rf"[{family.WHITESPACE}]*(?:{_HEX}+(?:-{_HEX}+){{5}}|{_HEX}{{6}}-{_HEX}{{6}}|{_HEX}{{4}}(?:-{_HEX}{{4}}){{2}})[{family.WHITESPACE}]*"
)
_UNUSUAL: Final = re.compile(rf"[0-9A-Fa-f:.xX+{family.WHITESPACE}-]*")


def macaddr_in(text: str) -> bytes:
    """The input function of macaddr, which tries each of the layouts with C's ``sscanf``."""
    if _OUTPUT.fullmatch(text) and len(text) == len("00:00:00:00:00:00"):
        return bytes.fromhex(text.replace(":", ""))
    # sscanf reads a sign and 0x as parts of a number.
    if (re.search("[xX+]", text) or ("-" in text and not _DASHES.fullmatch(text))) and _UNUSUAL.fullmatch(text):
        raise NotSupportedError(
            "a value of type macaddr that is written this way is not supported",
            hint="Write two digits for each byte, with colons between them.",
        )
    for digits, marks in _LAYOUTS:
        numbers = _scanned(text, digits, marks)
        if numbers is not None:
            if max(numbers) > 255:
                raise DataException(
                    'invalid octet value in "macaddr" value',
                    sqlstate="22003",
                    quoting=f'invalid octet value in "macaddr" value: "{text}"',
                )
            return bytes(numbers)
    raise family.invalid_syntax("macaddr", text)


def _scanned(text: str, digits: str, marks: str) -> list[int] | None:
    """The numbers of a text in this layout. White space may stand before each of them."""
    numbers, place = [], 0
    for mark in (*marks, None):
        found = re.compile(rf"[{family.WHITESPACE}]*{digits}").match(text, place)
        if found is None:
            return None
        numbers.append(min(parse_int(found[1], 16), 2**64 - 1) % 2**32)
        place = found.end()
        if mark and mark != " ":
            if text[place : place + 1] != mark:
                return None
            place += 1
    return None if text[place:].strip(family.WHITESPACE) else numbers


def macaddr8_in(text: str) -> bytes:
    rest = text.lstrip(family.WHITESPACE)
    value, spacer = b"", ""
    # A single character at the end is ignored, as in the server.
    while len(rest) > 1:
        pair, rest = rest[:2], rest[2:]
        if len(value) == 8 or _PAIR.fullmatch(pair) is None:
            raise family.invalid_syntax("macaddr8", text)
        value += bytes.fromhex(pair)
        if rest[:1] in {":", "-", "."}:
            if spacer not in {"", rest[0]}:
                raise family.invalid_syntax("macaddr8", text)
            spacer, rest = rest[0], rest[1:]
        if len(value) in {6, 8} and rest[:1] and rest[0] in family.WHITESPACE:
            if rest.strip(family.WHITESPACE):
                raise family.invalid_syntax("macaddr8", text)
            break
    if len(value) not in {6, 8}:
        raise family.invalid_syntax("macaddr8", text)
    return value if len(value) == 8 else eight_bytes(value)


def macaddr_out(value: bytes) -> str:
    return value.hex(":")


def eight_bytes(value: bytes) -> bytes:
    return bytes([*value[:3], *MIDDLE, *value[3:]])


def _macaddr_from_wire(size: int, wire: Reader) -> str:
    return macaddr_out(wire.bytes(size))


_MACADDR: Final = tuple(
    family.of_texts(
        name,
        oid,
        partial(_macaddr_from_wire, size),
        family.Form(family.without_modifier(read), macaddr_out, pa.binary(), compare=family.sign),
        send=read,
    )
    for name, oid, size, read in (("macaddr", 829, 6, macaddr_in), ("macaddr8", 774, 8, macaddr8_in))
)


# A hyphen is allowed after every second byte, and braces are allowed around the whole text.
_DIGITS: Final = r"(?:[0-9A-Fa-f]{4}-?){7}[0-9A-Fa-f]{4}"
_READ: Final = re.compile(rf"\{{{_DIGITS}\}}|{_DIGITS}", re.ASCII)
_TEXT_SIZE: Final = 36
_HYPHENS: Final = (8, 13, 18, 23)
_DIGIT_PLACES: Final = np.array([place for place in range(_TEXT_SIZE) if place not in _HYPHENS])
_UUID_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_IS_IN_UUID: Final = np.isin(np.arange(256), list(b"0123456789abcdef-"))


def _from_text(array: pa.BinaryArray) -> pa.StringArray:
    texts = family.fixed_width(array, _TEXT_SIZE)
    if texts is None or not (
        _IS_IN_UUID[texts].all()
        and (texts[:, _HYPHENS] == ord("-")).all()
        and np.count_nonzero(texts == ord("-")) == len(_HYPHENS) * len(texts)
    ):
        raise family.invalid_text("uuid")
    return family.as_text(array)


def _from_binary(array: pa.BinaryArray) -> pa.StringArray:
    rows = family.fixed_width(array, 16)
    if rows is None:
        raise family.invalid_binary("uuid")
    text = np.full((len(array), _TEXT_SIZE), ord("-"), dtype=np.uint8)
    text[:, _DIGIT_PLACES[0::2]] = _UUID_HEX[rows >> 4]
    text[:, _DIGIT_PLACES[1::2]] = _UUID_HEX[rows & 15]
    offsets = np.arange(len(array) + 1, dtype=np.int32) * _TEXT_SIZE
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets), pa.py_buffer(text))


def uuid_in(text: str) -> bytes:
    if not _READ.fullmatch(text):
        raise family.invalid_syntax("uuid")
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def uuid_out(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_FORM: Final = family.Form(family.without_modifier(uuid_in), uuid_out, pa.binary(), compare=family.sign)

_UUID: Final = (family.of_decoders("uuid", 2950, pa.string(), _from_text, _from_binary, _FORM, send=uuid_in),)

FAMILIES: Final = (*_ADDRESSES, *_MACADDR, *_UUID)
