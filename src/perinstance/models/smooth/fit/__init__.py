"""The minimum of a smooth objective: Newton's method (``newton``) on sums over the rows (``objective_folds``), in
coordinates where the Hessian is the identity (``whitening``).
"""
