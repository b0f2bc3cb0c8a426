"""scikit-learn's ``HuberRegressor``, which fits its scale too: ``problem`` is the model, ``objective`` what it
minimises.
"""
