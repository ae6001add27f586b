from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from subscriber.targets.add_column import AddColumn

TABLE = sa.Table("a.b", sa.MetaData(), sa.Column('c"d', sa.Integer, nullable=False, server_default="0"), schema="s t")


def test_a_column_is_added_with_its_whole_declaration():
    """names_are_data"""
    statement = AddColumn(TABLE, TABLE.c['c"d'])
    assert str(statement.compile(dialect=sqlite.dialect())) == (
        """ALTER TABLE "s t"."a.b" ADD COLUMN "c""d" INTEGER DEFAULT '0' NOT NULL"""
    )
    assert str(statement.compile(dialect=mysql.dialect())) == (
        "ALTER TABLE `s t`.`a.b` ADD COLUMN `c\"d` INTEGER NOT NULL DEFAULT '0'"
    )
