"""Logistic regression with two or more classes: ``problem`` is the model, ``objective`` the softmax sums,
``neighbour_refits`` the exact refits.
"""
