"""A SQLAlchemy engine with known capabilities.

:func:`open_target` turns a URL into a :class:`~subscriber.targets.target.Target`; what a database
can do is asked of ``target.capabilities``, never of its name. One folder a dialect.
"""

from sqlalchemy import Connection

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.dialects import leave_quietly, open_target
from subscriber.targets.interruption import Interruption
from subscriber.targets.target import DurabilityWarning, Target
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
