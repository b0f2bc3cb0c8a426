"""Public recipes: how a table of text, dates and missing cells becomes numbers, fixed before anybody looks at the data.

``recipe`` is the transformer, ``column_kinds`` what may be declared of a column, ``recipe_file`` the recipe's TOML.
"""
