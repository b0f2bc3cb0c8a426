"""Least squares and ridge regression, exactly. ``ridge`` is the model: read it first. It folds ``gram_matrix``,
factorises it (``cholesky_qr``) and maps ``row_statistics`` (leverage, residual) over the rows, with bounds of what
rounding took. Whoever that leaves open is answered by ``open_people``, in balls from exact sums. Where there are more
columns than people, it all comes from an n x n system instead (``wide_fit``, ``dual_system``, ``dual_balls``).
"""
