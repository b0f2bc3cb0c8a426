"""The two things that are ever done to a table: a fold and a map over its blocks of rows (``sweep``, ``block``). Also
what several models fold alike: class labels, gathered rows, exact sums of columns, and pieces of a block that stay in
the cache.
"""
