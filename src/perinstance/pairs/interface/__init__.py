"""What every vector of pairs can do (``base``), how certain its answers are (``kinds``), how its arguments are
validated (``arguments``), pairs that are kept as columns, one array per parameter (``column_pairs``), and what a file
says about the columns it stores (``schema``).
"""
