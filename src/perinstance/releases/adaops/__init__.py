"""AdaOPS: ``estimator`` is the class, ``mechanism`` what it spends and draws, ``eigenvalue_floor`` the choice of ridge,
``eigenvalue_moves`` how far one person moves the smallest eigenvalue, ``realised_draws`` what its draws told about each
person, ``own_row_promise`` what a person's own row makes of the promise.
"""
