"""Tables whose columns have transforms: copy and stream together equal the transform of the
publisher's rows, however the stream is cut into frames and batches, by the exact and by the bulk
path.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.applier import ANY_FORMAT, Rules
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG, ConflictKind
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.transform_rules import TransformRules, parse_transforms
from subscriber.publisher.copy_out import CopyBlock
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE
from subscriber.stream.decode.blocks import load_block
from subscriber.targets import Target
from subscriber.targets.base.loading import LoadColumn
from tests.property.test_apply import BAG, KEYED, SHAPES, Publisher
from tests.property.test_history_tables import KINDS, create_again, cuts, frames_of, histories, played
from tests.target_databases import opened

pytestmark = pytest.mark.slow

SECRET = b"a secret of this test"
SNAPSHOT = LSN(500)


def shout(values: pa.Array) -> pa.Array:
    """A function of a user: NULL becomes a text, and a text is written twice."""
    return pa.array([_shouted(value) for value in values.to_pylist()], pa.string())


shout.injective = False  # type: ignore[attr-defined]


def _shouted(value: str | None) -> str:
    return "none" if value is None else 2 * value


def digest(value: object) -> str | None:
    return None if value is None else hmac.new(SECRET, str(value).encode(), hashlib.sha256).hexdigest()


def masked(value: str | None) -> str | None:
    return value and ("*" * len(value) if len(value) < 2 else value[0] + "*" * (len(value) - 1))


Model = Callable[[Any], Any]
TRANSFORMS: dict[str, Model] = {
    "null": lambda _: None,
    "constant('7')": lambda _: "7",
    "sha256": digest,
    "partial(1, 0)": masked,
    f"{__name__}:shout": _shouted,
}
texts = st.none() | st.sampled_from([*TRANSFORMS])
hashes = st.none() | st.just("sha256")


@st.composite
def chosen(draw: st.DrawFn) -> dict[tuple[str, str], str]:
    """Transforms of some columns of both tables."""
    found = {
        ("keyed", "k"): draw(hashes),
        ("keyed", "v"): draw(texts),
        ("keyed", "big"): draw(texts),
        ("bag", "a"): draw(hashes | st.sampled_from(["null", "constant('7')"])),
        ("bag", "b"): draw(texts),
    }
    return {place: text for place, text in found.items() if text is not None}


def model(transforms: dict[tuple[str, str], str], table: str, column: str, value: object) -> object:
    text = transforms.get((table, column))
    if text is None:
        return value
    made = TRANSFORMS[text](value)
    return 7 if (table, column) == ("bag", "a") and made == "7" else made


def expected(transforms: dict[tuple[str, str], str], publisher: Publisher) -> tuple[Counter[Any], Counter[Any]]:
    of = partial(model, transforms)
    keyed = Counter(
        (of("keyed", "k", key), of("keyed", "v", v), of("keyed", "big", big))
        for key, (v, big) in publisher.keyed.items()
    )
    bag: Counter[Any] = Counter()
    for (a, b), count in (+publisher.bag).items():
        bag[of("bag", "a", a), of("bag", "b", b)] += count
    return keyed, bag


@pytest.fixture(scope="module", params=KINDS)
def target(request, tmp_path_factory) -> Iterator[Target]:
    with opened(request.param, request, tmp_path_factory.mktemp("transforms")) as made:
        with made.begin() as connection:
            CATALOG.create_all(connection)
        yield made


@pytest.fixture(autouse=True, scope="module")
def _secret(tmp_path_factory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("secret") / "secret"
    file.write_bytes(SECRET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBSCRIBER_TRANSFORM_SECRET_FILE", str(file))
        patch.setenv("SUBSCRIBER_FUNCTION_MODULES", __name__)
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        patch.setattr(reorder, "_LEAST_SAVED", 0)
        patch.setattr(reorder, "_LEAST_MESSAGES", 1)
        yield


def copy(target: Target, rules: TransformRules, publisher: Publisher) -> None:
    """Load the publisher's rows as an initial copy does."""
    rows: dict[str, list[tuple[object, ...]]] = {
        "keyed": [(key, *values) for key, values in publisher.keyed.items()],
        "bag": [one for one, count in publisher.bag.items() for _ in range(count)],
    }
    for shape in SHAPES:
        with target.begin() as connection:
            table = target.shapes.reflect(connection, shape.namespace, shape.name)
            assert table is not None
            transforms = rules.of(shape.namespace, shape.name)
            columns = []
            for announced in rules.relation(shape).columns:
                column = table.column(announced.name)
                assert column is not None
                # PostgreSQL would load integers and texts in binary format, which is not made here.
                replaced = announced.name in transforms or target.capabilities.postgresql_types
                columns.append(LoadColumn(column, announced.type_oid, replaced=replaced))
            is_text = target.loading.block_format(columns) == "text"
            lines = [_line(row, is_text=is_text) for row in rows[shape.name]]
            block = CopyBlock("".join(lines).encode(), len(lines))
            with target.loading.loader(connection, table, columns) as load:
                if lines:
                    load(load_block(shape, "text" if is_text else "csv", block, transforms).content())


def _line(row: Sequence[object], *, is_text: bool) -> str:
    if is_text:
        return "\t".join("\\N" if value is None else str(value) for value in row) + "\n"
    return (
        CSV_DELIMITER.join("" if value is None else CSV_QUOTE * 2 if value == "" else str(value) for value in row)
        + "\n"
    )


def contents(target: Target) -> tuple[Counter[Any], Counter[Any]]:
    with target.begin() as connection:
        found = []
        for shape in (KEYED, BAG):
            table = target.shapes.reflect(connection, shape.namespace, shape.name)
            assert table is not None
            clause = table.clause()
            rows = connection.execute(sa.select(*(clause.c[column.name] for column in shape.columns)))
            found.append(Counter(tuple(row) for row in rows))
    return found[0], found[1]


@settings(max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(chosen(), histories, st.integers(0, 8), cuts, st.integers(1, 9), st.sampled_from([ExactApplier, BulkApplier]))
def test_copy_and_stream_are_the_transform_of_the_publisher_s_rows(
    target, transforms, history, copied, at, together, make
):
    rules = parse_transforms(
        ", ".join(f"public.{table}.{column} = {text}" for (table, column), text in transforms.items())
    )
    create_again(target, rules.shape, SNAPSHOT)
    publisher = Publisher()
    played(publisher, history[:copied])
    copy(target, rules, publisher)
    assert contents(target) == expected(transforms, publisher)

    transactions = played(publisher, history[copied:])
    options = replace(ANY_FORMAT, transform=rules)
    text = target.capabilities.postgresql_text
    for last in range(together, len(transactions) + together, together):
        applier = make(target, subscription="s", subid=1, read_rules=lambda _: Rules(options=options))
        part: list[m.Message] = [message for one in transactions[:last] for message in one]
        end = LSN(1000 * min(last, len(transactions)))
        result = apply_batch(applier, partial(frames_of, part, at, text=text), SNAPSHOT, end)
        # Copied rows have no origin.
        assert result.conflicts.keys() <= {ConflictKind.UPDATE_ORIGIN_DIFFERS, ConflictKind.DELETE_ORIGIN_DIFFERS}
    assert contents(target) == expected(transforms, publisher)
