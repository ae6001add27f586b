"""What commands tell beside their result, in PostgreSQL's words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from subscriber.apply.names import RelationNames, TableName

Notify = Callable[[str], None]
"""Told notices and warnings, each with its severity in front as psql prints it; DETAIL and HINT are lines of the same text."""


def notice(notify: Notify, message: str) -> None:
    """``NOTICE:  …``."""
    notify(f"NOTICE:  {message}")


def warning(notify: Notify, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
    """``WARNING:  …``, with DETAIL and HINT below it."""
    lines = [f"WARNING:  {message}"]
    lines += [f"{label}:  {text}" for label, text in (("DETAIL", detail), ("HINT", hint)) if text]
    notify("\n".join(lines))


def quoted(names: Sequence[str]) -> str:
    """``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def warn_missing_publications(notify: Notify, missing: Sequence[str]) -> None:
    """Rule C54: a publication may be made later."""
    if len(missing) == 1:
        warning(notify, f"publication {quoted(missing)} does not exist on the publisher")
    elif missing:
        warning(notify, f"publications {quoted(missing)} do not exist on the publisher")


def warn_unused_names(notify: Notify, names: RelationNames, relations: Collection[TableName]) -> None:
    """A map may be there before its tables are published; or it has a mistake in it."""
    schemas = {schema for schema, _ in relations}
    unused = [f'relation "{".".join(remote)}"' for remote, _ in names.tables if remote not in relations]
    unused += [f'schema "{remote}"' for remote, _ in names.schemas if remote not in schemas]
    for one in unused:
        warning(notify, f"the subscription has no table that the map's {one} is about")


def warn_other_origins(notify: Notify, subscription: str, publications: Sequence[str]) -> None:
    """Rule C55: a copy cannot tell where rows came from."""
    if not publications:
        return
    names = quoted(publications)
    subscribes = (
        f"a publication ({names}) that contains" if len(publications) == 1 else f"publications ({names}) that contain"
    )
    warning(
        notify,
        f'subscription "{subscription}" requested copy_data with origin = NONE but might copy data that had a different origin',
        detail=f"The subscription being created subscribes to {subscribes} tables that are written to by other subscriptions.",
        hint="Verify that initial data copied from the publisher tables did not come from other origins.",
    )
