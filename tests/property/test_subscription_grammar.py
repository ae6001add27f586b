"""Lexer, statements and grammar of commands with random texts."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import UsageError
from subscriber.commands.subscription_grammar import Command, parse
from subscriber.postgres.sql.lexer import Kind, lex
from subscriber.postgres.sql.statements import cut

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)

PIECES = st.sampled_from(
    [
        *("create", "ALTER", "drop", "subscription", "publication", "connection", "with", "if", "exists", "cascade"),
        *(
            "select",
            "set",
            "skip",
            "s",
            '"S"',
            '""',
            "'c'",
            "''",
            "$$c$$",
            "$t$",
            "$",
            "E'\\u12'",
            "U&'\\0041'",
            "'",
            '"',
        ),
        *(
            "(",
            ")",
            ",",
            ";",
            "=",
            "-",
            "+",
            ".",
            "1",
            "0x",
            "0xg",
            "1.5",
            "1a",
            "slot_name",
            "none",
            "copy_data",
            "false",
        ),
        *("for", "all", "TABLE", "tables", "in", "schema", "current_schema", "only", "*", "where", "except", "add"),
        *("drop", "rename", "to", "publish", "create publication p for", "alter publication p set"),
        *("--x\n", "/*", "*/", "\\", "{#", "é", "\u00a0", "\x01", "\n", " "),
    ]
)


@given(TEXT)
def test_any_text_is_read_from_each_form_of_string_constant(text):
    escaped = "".join(f"\\U{ord(character):08x}" for character in text)
    doubled = text.replace("'", "''")
    for constant in (f"'{doubled}'", f"E'{escaped}'", f"$q${text}$q$" if "$" not in text else "''" + f"\n'{doubled}'"):
        assert [(lexeme.kind, lexeme.value) for lexeme in lex(constant)] == [(Kind.STRING, text)]


@given(TEXT.filter(bool))
def test_any_text_is_read_from_a_quoted_identifier(text):
    doubled = text.replace('"', '""')
    assert [(lexeme.kind, lexeme.value) for lexeme in lex(f'"{doubled}"')] == [(Kind.IDENTIFIER, text)]


@given(st.lists(PIECES, max_size=15))
def test_a_command_is_parsed_or_refused(pieces):
    """Invariant refuse_not_guess."""
    with suppress(UsageError):
        assert isinstance(parse(" ".join(pieces)), Command)


@given(st.lists(TEXT, max_size=5))
def test_joined_statements_are_split_again(texts):
    statements = ["x '" + text.replace("'", "''") + "';" for text in texts]
    found = cut(" \n".join(statements))
    assert [statement.sql for statement in found] == statements
    starts = [1 + sum(part.count("\n") + 1 for part in statements[:number]) for number in range(len(statements))]
    assert [statement.line for statement in found] == starts
