"""Tables that are in memory already: numpy, pandas, polars, pyarrow. ``table`` is the source; ``columns`` hold numbers,
``prepared_columns`` raw ones that a recipe reads, ``class_words`` targets that are words.
"""
