"""Everybody's step from a fourth-order expansion of the objective: ``fourth_order_expansion`` folds it,
``step_polynomial`` bounds the step for an added gradient, ``gradient_search`` maximises over the gradients of a domain.
"""
