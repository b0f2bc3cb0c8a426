"""Generalised linear models: ``problem`` is the model. ``fit`` finds the minimum, ``certificates`` bound how far a
person moves it, ``movement_bounds`` puts the bounds together, from a few products of each row (``products_of_rows``);
``neighbour_refits`` refits exactly.
``laplace_covariance`` and ``perturbed_objective`` serve the Laplace posterior and objective perturbation.
"""
