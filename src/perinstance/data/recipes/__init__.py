"""Public recipes: how a table of text, dates and missing cells becomes numbers, fixed before anybody looks at the data.

``recipe`` is the transformer; ``column_kinds`` says what each kind of column does, ``declarations`` reads what is said
of it, ``raw_columns`` and ``arrow_cells`` read the table and its cells, ``recipe_file`` is the recipe's TOML,
``first_draft`` writes one from names and types, ``stateless_steps`` looks at pipelines.
"""
