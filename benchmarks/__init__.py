"""Speed as ratios to a floor and to peers, measured in one process; accuracy on shared tables.

``python -m benchmarks [names]`` runs every module here that has ``run() -> list[Ratio]`` and prints one table.
Modules with a ``main`` of their own say at their top how to run them.
"""
