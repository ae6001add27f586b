"""The order and the case of text by collations of ICU, libc and the server, beside the server's own
(rules B11, B25).

ICU is that of PostgreSQL 15 from Debian, which is the library of this machine. The locales of libc
are made by ``localedef`` (Debian's package ``locales``), and servers of each version use them.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from subscriber.postgres.expressions.functions.collators import _UNICODE, _case_mapping
from subscriber.testing.servers.open_servers import open_postgresql
from subscriber.testing.servers.postgresql_server import PostgreSQL
from tests.conftest import server_or_skip
from tests.filter_answers import Both

pytestmark = pytest.mark.server

WORDS: Final = (
    "", "a", "A", "ä", "Ä", "b", "z", "Z", "ß", "ss", "SS", "ﬁ", "İ", "\u0131", "I", "i", "é", "e", "E", "e\u0301", "-a", "a-", "_", "1", "10",
    "2", "ñ", "n", "😀", "中", "Straße", "STRASSE", "co-op", "coop", "CO-OP", " a", "a ", "ǆ", "Σ", "ς", "a\\",
)  # fmt: skip
"""Among them letters whose case depends on the locale, and texts that libraries take for equal."""
ORDERED: Final = (
    "a < b", "a <= b", "a > b", "a >= b", "a = b", "a <> b", "a < 'm'", "greatest(a, b)", "least(a, 'co-op', b)", "c < b::char(6)", "c >= 'a '",
    "x < ARRAY[b, a]", "greatest(x, ARRAY[b])", "y < ARRAY[c, c]", "(a, b) < (b, a)", "(a, 1) >= (b, 1)", "a BETWEEN 'B' AND b",
    "a < ANY (ARRAY['b', 'ä', b])", "a > ALL (x)", "text_larger(a, b)", "text_smaller(a, b)", "bpchar_larger(c, b::char(6))",
    "bpchar_smaller(c, b::char(6))", "coalesce(a, 'x') < 'x'", "'a' < 'B'", "CASE WHEN 'a' < 'B' THEN a ELSE b END", "NOT a < b OR a IS NULL",
    'a COLLATE "C" < b', "a || b < 'b'", "array_larger(x, ARRAY[a])",
)  # fmt: skip
UNORDERED: Final = (
    "a IN ('a', b)", "a IS DISTINCT FROM b", "a LIKE 'a%'", "a LIKE b", "a NOT LIKE '%s%'", "a ~ '^[a-z]'", "starts_with(a, 'a')", "a ^@ 'co'",
    "strpos(a, 'a')", "length(a)", "NULLIF(a, b)", "c = 'a'", "x = ARRAY[a, b]", "replace(a, 's', 'z')", "split_part(a, '-', 1)", "a ~<~ b",
)  # fmt: skip
CASED: Final = (
    "lower(a)", "upper(a)", "a ILIKE b", "a ILIKE '%S%'", "a NOT ILIKE '%ß%'", "a ~~* '%i%'", "c ILIKE 'A%'", "lower(a) = lower(b)", "a ILIKE 'a\\\\'",
    "upper(a) < 'ZZ'",
)  # fmt: skip


def ddl(kind: str = "text", padded: str = "char(6)") -> str:
    words = ", ".join("'" + word.replace("'", "''") + "'" for word in WORDS)
    return (
        f"CREATE TABLE sample (i int GENERATED ALWAYS AS IDENTITY, a {kind}, b {kind}, c {padded}, x text[], y char(6)[]);"
        " INSERT INTO sample (a, b, c, x, y) SELECT w, v, left(w, 6), ARRAY[w, v], ARRAY[left(v, 6)]"
        f" FROM unnest(ARRAY[{words}]) w, unnest(ARRAY[{words}]) v WHERE (length(w) * 7 + ascii(v || 'a') + ascii(w || 'b')) % 11 < 3 OR w = v"
        " UNION ALL SELECT NULL, 'a', NULL, NULL, NULL"
    )


COLUMNS: Final = ("a", "b", "c", "x", "y")


def differences(
    server: PostgreSQL, options: str, table: str, expressions: tuple[str, ...], refused: tuple[str, ...] = ()
) -> list[str]:
    """The differences in a new database; and all that is refused, or not, unlike what is said."""
    server.execute(f"CREATE DATABASE ordered TEMPLATE template0 ENCODING 'UTF8' {options}")
    try:
        with psycopg.connect(server.conninfo("ordered"), autocommit=True) as connection:
            both = Both(connection, table, COLUMNS)
            found = list(both.differences(expressions))
            assert both.ours.refused == 0
            assert both.ours.compared > 1000
            answers = {text: both.ours.answer(text).canonical for text in refused}
            return found + [text for text, answer in answers.items() if answer != "ERROR 0A000"]
    finally:
        server.execute("DROP DATABASE ordered WITH (FORCE)")


@pytest.mark.parametrize("locale", ["de-DE", "en-US-u-ks-level1", "tr", "sv", "und-u-kn-true"])
def test_icu_of_the_same_version_has_the_servers_order_and_case(postgresql15, locale):
    options = f"LOCALE_PROVIDER icu ICU_LOCALE '{locale}' LOCALE 'C.UTF-8'"
    assert differences(postgresql15, options, ddl(), ORDERED + UNORDERED + CASED, ("a ~ '\\w'", "initcap(a)")) == []


def test_the_collation_of_a_column_decides(postgresql15):
    table = ddl('text COLLATE "sv-x-icu"', 'char(6) COLLATE "tr-x-icu"')
    of_columns = ("a < b", "a > 'z'", "c < 'b'", "lower(c::text)", "upper(a)", "a COLLATE \"tr-x-icu\" ILIKE '%I%'")
    assert differences(postgresql15, "LOCALE 'C.UTF-8'", table, of_columns, ('a < b COLLATE "da-x-icu"',)) == []


@pytest.fixture(scope="module")
def locales() -> Iterator[Path]:
    """A folder with two locales, in which this process and the servers look for locales."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        folder.chmod(0o755)  # the servers run as another user
        for locale in ("en_US", "tr_TR"):
            subprocess.run(["localedef", "-i", locale, "-f", "UTF-8", folder / f"{locale}.UTF-8"], check=True)
        patch.setenv("LOCPATH", name)
        yield folder


@pytest.fixture(scope="module", params=[18, 16, 15], ids="pg{}".format)
def with_locales(request: pytest.FixtureRequest, locales: Path) -> Iterator[PostgreSQL]:
    """A server of each version that finds these locales."""
    with server_or_skip(lambda: open_postgresql(request.param)) as server:
        yield server


@pytest.mark.parametrize("locale", ["en_US.UTF-8", "tr_TR.UTF-8"])
def test_glibc_of_the_same_version_has_the_servers_order_and_case(with_locales, locale):
    assert differences(with_locales, f"LOCALE '{locale}'", ddl(), ORDERED + UNORDERED + CASED) == []


def test_c_utf8_of_libc_is_the_order_of_bytes_and_its_case_is_refused(postgresql):
    options = "LOCALE 'C.UTF-8'"
    assert differences(postgresql, options, ddl(), ORDERED + UNORDERED, ("lower(a)", "a ILIKE 'A'")) == []
    table = ddl('text COLLATE "C.utf8"')
    assert differences(postgresql, "LOCALE 'C'", table, ("a < b", "greatest(a, b)", "a LIKE 'a%'"), ("upper(a)",)) == []


def test_the_servers_own_collations_order_by_bytes_and_c_utf8_changes_case(postgresql18):
    options = "LOCALE_PROVIDER builtin LOCALE 'C' BUILTIN_LOCALE "
    assert differences(postgresql18, f"{options} 'C.UTF-8'", ddl(), ORDERED + UNORDERED + CASED, ("initcap(a)",)) == []
    cased = ("lower(a)", "a ILIKE 'A'")
    assert differences(postgresql18, f"{options} 'PG_UNICODE_FAST'", ddl(), ORDERED + UNORDERED, cased) == []


def test_the_case_mapping_is_that_of_postgresql_18(postgresql18):
    """Of every character."""
    rows = postgresql18.execute(
        "SELECT i, ascii(lower(chr(i) COLLATE pg_c_utf8)), ascii(upper(chr(i) COLLATE pg_c_utf8))"
        " FROM generate_series(1, 1114111) AS i WHERE NOT i BETWEEN 55296 AND 57343"
        " AND (lower(chr(i) COLLATE pg_c_utf8) <> chr(i) OR upper(chr(i) COLLATE pg_c_utf8) <> chr(i))"
    )
    lower, upper = _case_mapping()
    assert {code: low for code, low, _ in rows if low != code} == lower
    assert {code: up for code, _, up in rows if up != code} == upper
    assert postgresql18.execute("SELECT unicode_version()") == [(_UNICODE,)]


def test_a_database_of_another_encoding_has_no_order_of_a_library(postgresql15):
    postgresql15.execute(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'"
    )
    try:
        with psycopg.connect(postgresql15.conninfo("latin"), autocommit=True) as connection:
            both = Both(connection, "CREATE TABLE sample (i int, a text); INSERT INTO sample VALUES (1, 'a')", ["a"])
            assert both.ours.answer("a < 'b'").canonical == "ERROR 0A000"
            assert list(both.differences(["a = 'a'", "a LIKE 'a%'"])) == []
    finally:
        postgresql15.execute("DROP DATABASE latin WITH (FORCE)")
