"""Collations that a library computes, and what is said where it is not the publisher's. The
conformance tests compare them with servers.
"""

from __future__ import annotations

import ctypes
import platform
from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.functions import collators
from subscriber.postgres.expressions.functions.collators import collator_of, orders_by_bytes
from subscriber.postgres.schema.publisher_tables import PublisherCollation

GLIBC = platform.libc_ver()[1]


def icu(locale: str, version: str, rules: str | None = None) -> PublisherCollation:
    return PublisherCollation(100, "default", "i", locale, locale, version, rules)


def libc(locale: str, version: str | None = GLIBC) -> PublisherCollation:
    return PublisherCollation(100, "default", "c", locale, locale, version)


def refusal(collation: PublisherCollation) -> str:
    with pytest.raises(NotSupportedError) as caught:
        collator_of(collation)
    assert '"default"' in caught.value.message
    assert caught.value.hint
    assert caught.value.detail
    return caught.value.detail


@pytest.mark.parametrize(
    ("provider", "locale", "by_bytes"),
    [
        ("b", "PG_UNICODE_FAST", True),
        ("c", "C.UTF-8", True),
        ("c", "c.utf8", True),
        ("c", "POSIX", True),
        ("c", "en_US.UTF-8", False),
        ("c", "ca_ES.UTF-8", False),
        ("i", "C.UTF-8", False),
    ],
)
def test_the_collations_that_order_by_bytes(provider, locale, by_bytes):
    assert orders_by_bytes(PublisherCollation(1, "x", provider, locale, locale)) is by_bytes


def test_the_detail_says_what_the_publisher_has_and_what_is_here(monkeypatch):
    monkeypatch.setattr(collators, "_installed", lambda: ())
    assert (
        refusal(icu("de", "153.120")) == "The publisher uses ICU with version 153.120, this machine has no ICU library."
    )
    monkeypatch.setattr(collators, "_installed", lambda: (collators._Icu(72, ctypes.CDLL(None), ctypes.CDLL(None)),))
    monkeypatch.setattr(collators, "_opened", lambda *_: (1, "153.120"))
    assert "153.999, this machine has ICU 72 with version 153.120" in refusal(icu("fr", "153.999"))
    assert refusal(icu("de", "153.120", "&a<b")) == "It has rules of its own."
    assert refusal(libc("en_US.UTF-8", "2.1")) == f"The publisher uses glibc 2.1, this machine glibc {GLIBC}."
    assert "a libc whose version it does not know" in refusal(libc("en_US.UTF-8", None))
    assert refusal(libc("xx_YY.UTF-8")) == 'The locale "xx_YY.UTF-8" is not installed (locale -a).'
    assert "Unicode" in refusal(libc("C.UTF-8"))


def test_the_case_of_c_utf8_is_that_of_single_characters():
    c_utf8 = PublisherCollation(100, "default", "b", "C.UTF-8", "C.UTF-8", "16.0")
    found = collator_of(c_utf8)
    assert found.upper("straße ǆ ɐ") == "STRAßE Ǆ Ɐ"
    assert found.lower("ÀΣİ") == "à\u03c3i"
    assert found.compare("a", "B") > 0 == found.compare("a", "a")
    for other in (replace(c_utf8, version="15.1"), replace(c_utf8, locale="PG_UNICODE_FAST")):
        assert "Unicode" in refusal(other)


def test_texts_of_equal_order_are_compared_by_bytes():
    assert collators._ordered(lambda *_: 0, "a", "b") < 0
    assert collators._ordered(lambda *_: 1, "a", "a") == 0
    assert collators._ordered(lambda *_: 5, "a", "b") > 0


def test_a_result_of_icu_may_be_longer_than_its_text():
    def sharp_s_to_ss(target, room, source, length, locale, status):
        made = "SS".encode(collators._UTF_16)
        if room < 3:
            status._obj.value = 15
            return 2
        ctypes.memmove(target, made, len(made))
        return 2

    assert collators._converted(sharp_s_to_ss, b"de", "ß") == "SS"
