"""The pages of a journal: its transactions, their messages, and why a change was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.publications import insert_publication
from subscriber.catalog.stored_publishing import store_publishing
from subscriber.operate import journal_pages
from subscriber.operate.journal_pages import MESSAGES, TRANSACTIONS
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.journal.browse import TransactionPage
from tests.dashboards import ServedDashboard, served_dashboard
from tests.frames import transaction, values
from tests.journals import T as SERVERS_TABLE
from tests.journals import insert, publish, segment_files, writing
from tests.publications import as_sent, entry, table, tables
from tests.waits import wait_until

JOURNAL = "/subscriptions/1/journal"
SECRET = "<b>secret</b>"
T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
P = Publication("p", tables=(entry(T, "(a > 1)"),))
SENT = as_sent(T)


@pytest.fixture
def dashboard(tmp_path) -> Iterator[ServedDashboard]:
    with served_dashboard(tmp_path) as served:
        yield served


@pytest.fixture(params=[False, True], ids=["without values", "with values"])
def show_values(request) -> bool:
    shown: bool = request.param
    return shown


@pytest.fixture
def filtered(tmp_path, show_values) -> Iterator[ServedDashboard]:
    """A subscription that evaluates its publication: rows of public.t with a > 1."""
    with served_dashboard(tmp_path, carrier="c", show_values=show_values) as served:
        with served.target.begin() as connection:
            insert_publication(connection, P, "ann")
            store_publishing(connection, 1, Publishing((P,), tables(T)))
        changes: list[m.Message] = [
            SENT,
            m.Insert(SENT.relation_id, values("1", SECRET)),
            m.Insert(SENT.relation_id, values("2", SECRET)),
            m.Truncate((SENT.relation_id,), False, False),
        ]
        with writing(served.journal, system="1") as journal:
            publish(journal, 0x200, transaction(0x200, *changes, xid=731), xid=731)
        yield served


def test_transactions_are_listed_with_what_is_applied(dashboard):
    with writing(dashboard.journal, system="1") as journal:
        sent = [*transaction(0x200, SERVERS_TABLE, insert(1), xid=7), *transaction(0x300, insert(2), xid=8)]
        publish(journal, 0x300, sent)
    dashboard.worker["applied"] = LSN(0x200)
    page = dashboard.ask(JOURNAL)
    assert page.status == 200
    _, newest, oldest = page.read.rows
    moment = "2000-01-01 00:00:01 UTC"
    assert newest[:5] == ["0/300", "8", "COMMIT", moment, "3"]
    assert oldest[:5] == ["0/200", "7", "COMMIT", moment, "4"]
    assert (newest[6:], oldest[6:]) == (["public.t", "waits"], ["public.t", "applied"])


def test_many_transactions_have_pages(dashboard):
    ends = [0x200 + 0x100 * number for number in range(TRANSACTIONS + 1)]
    with writing(dashboard.journal, system="1") as journal:
        publish(journal, ends[-1], [one for end in ends for one in transaction(end, SERVERS_TABLE, insert(end))])
    page = dashboard.ask(JOURNAL)
    assert page.read.elements.count("tr") == TRANSACTIONS + 1
    assert "Newest" not in page.read.links
    older = dashboard.follow(page, "Older")
    assert older.read.elements.count("tr") == 2
    assert "0/200" in older.read.links
    assert "Older" not in older.read.links
    assert dashboard.follow(older, "Newest").content == page.content


def test_many_messages_have_pages(dashboard):
    with writing(dashboard.journal, system="1") as journal:
        changes = [insert(number) for number in range(MESSAGES)]
        publish(journal, 0x200, transaction(0x200, SERVERS_TABLE, *changes, xid=9), xid=9)
    page = dashboard.follow(dashboard.ask(JOURNAL), "0/200")
    assert page.read.elements.count("tr") == MESSAGES + 1
    following = dashboard.follow(page, "Next")
    assert following.read.elements.count("tr") == 3 + 1
    assert "COMMIT at 0/1F8, ends at 0/200" in following.read.text
    assert "Next" not in following.read.links
    assert dashboard.follow(following, "First").content == page.content


def test_values_are_on_pages_only_if_the_run_shows_them(filtered, show_values):
    """Invariant names_are_data."""
    page = filtered.ask(f"{JOURNAL}/transaction?lsn=0/200")
    assert (SECRET in page.read.text) is show_values
    assert ("13 bytes" in page.read.text) is not show_values
    row = next(row for row in page.read.rows if row[2].startswith("INSERT"))
    explained = filtered.follow(page, f"Explain the change at {row[0]}")
    assert (SECRET in explained.read.text) is show_values
    assert "b" not in explained.read.elements


def test_a_change_says_which_filter_left_it_out(filtered):
    page = filtered.ask(f"{JOURNAL}/transaction?lsn=0/200")
    first = next(row for row in page.read.rows if row[2].startswith("INSERT"))
    assert [row[3] for row in page.read.rows[1:]].count("Explain") == 3
    explained = filtered.follow(page, f"Explain the change at {first[0]}").read.text
    assert "INSERT public.t: left out" in explained
    assert "p: WHERE (a > 1)  old -, new f" in explained


def test_all_changes_of_a_transaction_can_be_explained(filtered):
    explained = filtered.ask(f"{JOURNAL}/explain?finish=0/200&lsn=0/200").read.text
    for words in ("INSERT public.t: left out", "INSERT public.t: sent", "TRUNCATE public.t: sent for public.t"):
        assert words in explained


def test_a_server_that_evaluates_the_publications_explains_nothing(dashboard):
    with writing(dashboard.journal, system="1") as journal:
        publish(journal, 0x200, transaction(0x200, SERVERS_TABLE, insert(1)))
    assert "Explain" not in dashboard.ask(f"{JOURNAL}/transaction?lsn=0/200").read.text
    refused = dashboard.ask(f"{JOURNAL}/explain?finish=0/200&lsn=0/200")
    assert refused.status == 400
    assert "has publications of the server" in refused.read.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (JOURNAL, 503, "there is no journal"),
        (f"{JOURNAL}?before=x", 400, "invalid input syntax for type pg_lsn"),
        (f"{JOURNAL}/transaction", 400, "invalid input syntax for type pg_lsn"),
        (f"{JOURNAL}/transaction?lsn=0/0", 400, "no transaction ends at 0/0"),
        (f"{JOURNAL}/transaction?lsn=0/200&row=-1", 400, '"row" is not a number'),
        ("/subscriptions/2/journal", 404, "not found"),
    ],
)
def test_what_cannot_be_shown_says_why(dashboard, path, status, said):
    page = dashboard.ask(path)
    assert (page.status, said in page.read.text) == (status, True)


@pytest.mark.parametrize("page", ["", "/cutover", "/journal", "/journal/transaction", "/commands/disable"])
def test_a_number_of_thousands_of_digits_is_no_subscription(tmp_path, page):
    """Python refuses to convert such a number."""
    with served_dashboard(tmp_path, admin=True) as served:
        assert served.ask(f"/subscriptions/{'9' * 5000}{page}").status == 404


def test_other_numbers_of_thousands_of_digits_are_numbers(dashboard):
    digits = "9" * 5000
    assert dashboard.ask(f"/events?subscription={digits}").status == 200
    assert dashboard.ask(f"/health?errors={digits}").status == 200


def test_pages_that_wait_hold_up_neither_metrics_nor_probes(dashboard, monkeypatch):
    """Invariant one_does_not_end_another: a journal or a target may not answer."""
    answers, waiting = threading.Event(), []

    def held_up(*_: object) -> TransactionPage:
        waiting.append(1)
        answers.wait(60)
        return TransactionPage([], None)

    monkeypatch.setattr(journal_pages, "newest_transactions", held_up)
    pages = [threading.Thread(target=dashboard.ask, args=(JOURNAL,)) for _ in range(4)]
    for page in pages:
        page.start()
    wait_until(lambda: len(waiting) == 4)
    assert [dashboard.ask(path).status for path in ("/metrics", "/livez", "/")] == [200, 503, 200]
    refused = dashboard.ask(JOURNAL)
    assert (refused.status, "4 other pages wait" in refused.read.text) == (503, True)
    answers.set()
    for page in pages:
        page.join()


def test_a_damaged_segment_is_reported_and_the_other_pages_work(dashboard):
    with writing(dashboard.journal, system="1") as journal:
        publish(journal, 0x200, transaction(0x200, SERVERS_TABLE, insert(1)))
    segment_files(dashboard.journal)[0].write_bytes(b"damaged")
    page = dashboard.ask(JOURNAL)
    assert page.status == 503
    assert "cannot be read" in page.read.text
    assert dashboard.ask("/").status == 200
