"""What every vector of pairs can do (``base``), how certain its answers are (``kinds``), how its arguments are
validated (``arguments``), and pairs that are held as columns, one array per parameter (``column_pairs``).
"""
