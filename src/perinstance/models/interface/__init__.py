"""What releases ask of a model (``problem``: fit, movement of each person, refinement), and what the floors above ask
of any confidential fit (``fit_health``).
"""
