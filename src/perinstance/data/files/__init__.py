"""Tables in files, read block by block: ``open_files`` picks the reader of a format; ``file_source`` is what they
share, ``prepared_source`` reads raw columns by a recipe.
"""
