"""Loops over the rows of a block for particular machines and widths, each one call that runs without the interpreter:
``eight_lanes`` for processors with registers of eight numbers, ``few_columns``, ``fewest_columns`` and ``grid_sums``
(whose loops are ``grid_kernels``) for up to seven columns, ``column_kernels`` for tables that lie column by column,
``library_loops`` for many columns, by a library.
"""
