"""A SQLAlchemy engine with known capabilities.

:func:`open_target` turns a URL into a :class:`~subscriber.target.target.Target`; what a database
can do is asked of ``target.capabilities``, never of its name. One file a dialect.
"""

from subscriber.target.capabilities import Capabilities
from subscriber.target.interruption import Interruption
from subscriber.target.registry import leave_quietly, open_target
from subscriber.target.table import LeafRouting, RowVersion, TargetColumn, TargetTable, UniqueIndex
from subscriber.target.target import DurabilityWarning, Target

__all__ = [
    "Capabilities",
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
