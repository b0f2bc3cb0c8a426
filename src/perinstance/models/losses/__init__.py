"""What one person contributes to a smooth objective. ``base`` is the contract; ``smooth``, ``with_knots`` and
``negative_binomial`` the losses; ``catalogue`` lists them for the tests; ``penalised_objective`` adds the penalty and
the convention of a neighbour.
"""
