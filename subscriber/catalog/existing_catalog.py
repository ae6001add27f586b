"""A look at a target that may have no catalog yet; neither a file nor a catalog is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog, has_catalog
from subscriber.catalog.subscriptions import Subscription, find_subscription

if TYPE_CHECKING:
    from subscriber.targets.target import Target


@contextmanager
def existing_catalog(target: Target) -> Iterator[sa.Connection | None]:
    """A connection to a target that has a catalog, which is brought up to date; else None."""
    if target.file is not None and not target.file.exists() and target.file.parent.is_dir():
        yield None
        return
    with target.reporting():
        with target.engine.connect() as connection:
            exists = has_catalog(connection)
        if not exists:
            yield None
            return
        ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            yield connection


def existing_subscription(target: Target, name: str) -> Subscription:
    """A subscription of a target, or the error 42704."""
    with existing_catalog(target) as connection:
        found = None if connection is None else find_subscription(connection, name)
    if found is None:
        hint = (
            "`subscriber status` lists the subscriptions of a target."
            if connection is not None
            else f"{missing_catalog(target)}. Is the target URL correct?"
        )
        raise UsageError(f'subscription "{name}" does not exist', sqlstate="42704", hint=hint)
    return found


def missing_catalog(target: Target) -> str:
    if target.file is not None and not target.file.exists():
        return f"There is no file {target.file}"
    return f"{target.url.set(query={}).render_as_string()} has no subscriptions"
