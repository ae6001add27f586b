"""What happens to the publisher: its servers, the way to them, its password, its publications
(:mod:`tests.chaos.chaos`).
"""

from __future__ import annotations

import contextlib
from typing import Final

from tests.chaos.chaos import NAME, Chaos, Steps, fault
from tests.crash.harness import TABLES

_REFUSED: Final = "password authentication failed"

# Servers ------------------------------------------------------------------------------------------


@fault("publisher")
def publisher_killed(chaos: Chaos) -> Steps:
    chaos.note("the publisher is killed")
    chaos.pair.primary.kill()
    yield chaos.random.uniform(0, 3)
    chaos.pair.primary.start()
    chaos.note("the publisher is back")


@fault("publisher")
def publisher_stopped(chaos: Chaos) -> Steps:
    chaos.note("the publisher is stopped")
    chaos.pair.primary.stop()
    yield chaos.random.uniform(1, 6)
    chaos.pair.primary.start()
    chaos.note("the publisher is back")


@fault("publisher")
def walsender_terminated(chaos: Chaos) -> Steps:
    chaos.note("the walsenders are terminated")
    chaos.end_walsenders()
    yield 0


@fault("publisher")
def standby_stopped(chaos: Chaos) -> Steps:
    chaos.note("the standby is stopped, and the walsender waits for it")
    chaos.pair.standby.stop()
    yield chaos.random.uniform(1, 6)
    chaos.pair.standby.start()
    chaos.note("the standby is back")


@fault("publisher")
def failed_over(chaos: Chaos) -> Steps:
    yield from chaos.standby_ready()
    chaos.note("the primary is killed")
    chaos.pair.kill_primary()
    yield chaos.random.uniform(0, 3)
    chaos.pair.promote()
    chaos.note("the standby is promoted")
    yield chaos.random.uniform(0, 5)
    chaos.pair.rejoin()
    chaos.note("the killed server is the standby, with a new copy")


@fault("publisher")
def switched_over(chaos: Chaos) -> Steps:
    yield from chaos.standby_ready()
    chaos.note("the primary is stopped, the standby promoted, and the servers change roles")
    chaos.pair.switch_over()
    chaos.note("the servers have changed roles")
    yield 0


# The way to them ----------------------------------------------------------------------------------


@fault("publisher")
def pooler_restarted(chaos: Chaos) -> Steps:
    with contextlib.ExitStack() as away:
        for proxy in chaos.access.proxies:
            away.enter_context(proxy.away())
        chaos.note("the proxies are away")
        yield chaos.random.uniform(0, 5)
    chaos.note("the proxies are back")


@fault("publisher", "target")
def password_rotated(chaos: Chaos) -> Steps:
    """In either order; a new connection is needed before the second step, and fails."""
    steps = {"role": chaos.access.set_password, "passfile": chaos.access.write_passfile}
    order = chaos.random.sample(list(steps), 2)
    password = chaos.access.next_password()
    for place in order:
        chaos.note(f"the password is changed in the {place}")
        steps[place](password)
        if place == order[0]:
            chaos.end_walsenders()
            yield from chaos.until(lambda: chaos.reports(_REFUSED), f"status to report: {_REFUSED}")


# Publications -------------------------------------------------------------------------------------


@fault("publisher", "target", "subscription")
def publication_dropped(chaos: Chaos) -> Steps:
    """Its rows are lost meanwhile; REFRESH TABLE brings them."""
    name = chaos.random.choice(["everything", "appended"])
    *most, audit = TABLES
    tables = [audit] if name == "appended" else [*most, *chaos.tables]
    only = " WITH (publish = 'insert')" if name == "appended" else ""
    chaos.note(f"publication {name} is dropped")
    chaos.pair.execute(f"DROP PUBLICATION {name}", NAME)
    # An UPDATE or DELETE finds no row that was lost, an INSERT one whose DELETE was lost.
    chaos.conflicts |= {"update_missing", "delete_missing"}
    yield chaos.random.uniform(1, 6)
    status = chaos.replication.runner.status()[chaos.name]
    assert status["missing_publications"] == [name]
    chaos.note(f"publication {name}, which status reports as missing, is created again")
    chaos.pair.execute(f"CREATE PUBLICATION {name} FOR TABLE {', '.join(tables)}{only}", NAME)
    yield chaos.random.uniform(0, 2)
    yield from chaos.alter(f"REFRESH TABLE {', '.join(tables)}")
