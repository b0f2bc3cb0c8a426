"""Public recipes: how a table of text, dates and missing cells becomes numbers, fixed before anybody looks at the data.

``recipe`` is the transformer; ``column_kinds`` says what each kind of column does, ``arrow_cells`` reads its cells,
``recipe_file`` is its TOML, ``first_draft`` writes one from names and types, ``stateless_steps`` looks at pipelines.
"""
