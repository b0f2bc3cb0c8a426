"""What one person contributes to a smooth objective: ``base`` is the contract, ``catalogue`` has all losses,
``penalised_objective`` adds the penalty and the convention of a neighbour.
"""
