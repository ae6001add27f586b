"""A SQLAlchemy engine with known roles.

:func:`open_target` turns a URL into a :class:`~subscriber.targets.target.Target`, a few roles put
together (:mod:`subscriber.targets.roles`). What a database can do is asked of its roles and of
``target.capabilities``, never of its name. One folder a dialect, which has one file a role.
"""

from sqlalchemy import Connection

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.dialects import open_target
from subscriber.targets.duckdb.leaving import leave_quietly
from subscriber.targets.interruption import Interruption
from subscriber.targets.roles.transactions import DurabilityWarning
from subscriber.targets.target import Target
from subscriber.targets.target_table import LeafRouting, RowVersion, TargetColumn, TargetTable, UniqueIndex

__all__ = [
    "Capabilities",
    "Connection",
    "DurabilityWarning",
    "Interruption",
    "LeafRouting",
    "RowVersion",
    "Target",
    "TargetColumn",
    "TargetTable",
    "UniqueIndex",
    "leave_quietly",
    "open_target",
]
