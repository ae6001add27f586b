"""The changes of many small transactions as few long runs, where the order does not matter.

``regroup`` puts changes of the same kind together, ``fold`` makes one change of several changes of
a row. ``reorderable`` decides for which tables the order of changes of different rows does not
matter, and ``foldable`` for which values one change can take the place of several.
"""
