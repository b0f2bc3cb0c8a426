"""Multinomial logistic regression: ``objective`` is its loss of K scores, ``certificate`` the upper bound, ``problem``
the model (of two classes too, which ``models.smooth`` fits).
"""
