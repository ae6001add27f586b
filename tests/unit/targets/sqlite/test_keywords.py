"""SQLite's keywords."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.targets.sqlite.keywords import KEYWORDS


def test_a_keyword_can_be_the_name_of_a_table_and_of_a_column(target):
    """names_are_data"""
    for word in sorted(KEYWORDS):
        table = sa.Table(word, sa.MetaData(), sa.Column(word, sa.Integer))
        with target.begin() as connection:
            table.create(connection)
            connection.execute(sa.insert(table).values({word: 1}))
            assert connection.execute(sa.select(table).order_by(table.c[word])).all() == [(1,)], word
            table.drop(connection)
