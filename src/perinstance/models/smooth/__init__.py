"""Generalised linear models: ``problem`` is the model. ``newton`` finds the minimum of sums over the rows
(``objective_folds``), in coordinates where the Hessian is the identity; ``certificates`` bound how far a person moves
it, ``movement_bounds`` puts the bounds together, ``neighbour_refits`` refits exactly.
``laplace_covariance`` and ``perturbed_objective`` serve the Laplace posterior and objective perturbation.
"""
