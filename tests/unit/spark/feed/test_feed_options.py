from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.spark.feed.feed_options import FEED_OPTIONS, RAW_OPTIONS, FeedBound, feed_options, is_typed, raw_options

MINIMUM = {"journal": "/j", "table": "orders"}


def test_a_table_asks_for_the_typed_feed_in_any_case():
    assert is_typed({"JOURNAL": "/j", "Table": "orders"})
    assert not is_typed({"journal": "/j"})


@pytest.mark.parametrize("options", [{}, {"journal": ""}, {"table": "t"}], ids=str)
def test_a_missing_journal_is_refused_with_where_to_find_one(options):
    with pytest.raises(UsageError, match='needs the option "journal"') as caught:
        (feed_options if is_typed(options) else raw_options)(options)
    assert "subscriber journal ls" in str(caught.value.hint)


def test_an_unknown_option_is_refused_with_one_that_is_like_it_or_all():
    with pytest.raises(UsageError, match='unrecognized option "tabel"') as caught:
        feed_options({**MINIMUM, "tabel": "t"})
    assert caught.value.hint == 'Perhaps you meant the option "table".'
    with pytest.raises(UsageError) as caught:
        feed_options({**MINIMUM, "x": "t"})
    assert all(name in str(caught.value.hint) for name in FEED_OPTIONS)
    with pytest.raises(UsageError) as caught:
        raw_options({"journal": "/j", "truncate": "event"})
    assert all(name in str(caught.value.hint) for name in RAW_OPTIONS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("truncate", "drop"),
        ("computeUpdates", "yes"),
        ("keyChanges", ""),
        ("unsupportedValues", "round"),
        ("maxBytesPerTrigger", "0"),
        ("maxBytes", "-1"),
        ("partitionBytes", "8m"),
        ("startingVersion", "first"),
        ("startingVersion", "9223372036854775808"),
        ("startingVersion", "1" * 5000),
        ("table", ""),
        ("table", "a.b.c"),
        ("table", "a.b, c.d"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_give(name, value):
    with pytest.raises(UsageError, match=f'invalid value for option "{name}"') as caught:
        feed_options({**MINIMUM, name: value})
    assert caught.value.sqlstate == "22023"
    assert str(caught.value.hint).startswith("Give ")


def test_a_wrong_lsn_is_refused_as_postgresql_does():
    for options in ({**MINIMUM, "startingLsn": "16"}, {"journal": "/j", "startingLsn": "16"}):
        with pytest.raises(UsageError, match="pg_lsn") as caught:
            (feed_options if is_typed(options) else raw_options)(options)
        assert caught.value.sqlstate == "22P02"


@pytest.mark.parametrize("pair", [("startingVersion", "startingLsn"), ("maxBytesPerTrigger", "maxBytes")])
def test_two_options_for_the_same_exclude_each_other(pair):
    with pytest.raises(UsageError, match="exclude each other"):
        feed_options({**MINIMUM, pair[0]: "1", pair[1]: "1"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", ("public", "orders")),
        ("Sales.Orders", ("sales", "orders")),
        ('"Sales"."a.b"', ("Sales", "a.b")),
        ("public.user", ("public", "user")),
    ],
)
def test_a_table_is_named_as_in_sql(text, name):
    assert feed_options({**MINIMUM, "table": text}).table == name


def test_a_version_is_the_first_that_is_read_or_the_last_that_is_not():
    assert feed_options({**MINIMUM, "startingVersion": "512"}).start == FeedBound(LSN(512))
    assert feed_options({**MINIMUM, "startingVersion": "512", "startingBoundInclusive": "false"}).start == FeedBound(
        LSN(512), inclusive=False
    )
    assert feed_options({**MINIMUM, "startingVersion": "0"}).start == FeedBound(LSN(0))


def test_both_names_of_the_batch_size_mean_the_same():
    assert feed_options({**MINIMUM, "maxBytesPerTrigger": "7"}) == feed_options({**MINIMUM, "MAXBYTES": "7"})


def test_a_snapshot_needs_the_publisher_and_its_publications():
    for missing in ("connection", "publication"):
        given = {"connection": "host=h", "publication": "p", "startingSnapshot": "true"}
        del given[missing]
        with pytest.raises(UsageError, match=f'needs the option "{missing}"'):
            feed_options({**MINIMUM, **given})


def test_a_snapshot_is_a_start_of_its_own():
    with pytest.raises(UsageError, match="exclude each other"):
        feed_options(
            {**MINIMUM, "startingSnapshot": "true", "startingVersion": "1", "connection": "", "publication": "p"}
        )


@pytest.mark.parametrize("conninfo", ["host=h password=secret", "postgresql://u:secret@h/d"])
def test_a_password_in_an_option_is_refused_because_spark_shows_options(conninfo):
    with pytest.raises(UsageError, match="must not have a password") as caught:
        feed_options({**MINIMUM, "connection": conninfo})
    assert "secret" not in caught.value.report()


def test_the_connection_is_not_shown():
    assert "host=h" not in repr(feed_options({**MINIMUM, "connection": "host=h"}))
