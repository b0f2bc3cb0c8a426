"""What one person contributes to a smooth objective. ``base`` is the contract; ``smooth`` and ``with_knots`` the
losses; ``catalogue`` lists them for the tests; ``penalised_objective`` adds the penalty and the convention of a
neighbour.
"""
