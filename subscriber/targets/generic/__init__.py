"""Any database that SQLAlchemy has a dialect for, without a folder of its own: what the other
dialects know is found out by probes (:mod:`subscriber.targets.generic.probes`).
"""
