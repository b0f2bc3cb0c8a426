"""Least squares and ridge regression, exactly. ``ridge`` is the model: read it first. It folds ``gram_matrix``,
factorises it (``cholesky_qr``, ``sharpened_factor``) and maps ``row_statistics`` (leverage, residual) over the rows,
with bounds of what rounding took (``row_norms``). Whoever that leaves open is answered by ``open_people``, in pairs of
floats (``residuals_in_pairs``), else in balls or rationals (``normal_equations``, ``sums_in_pairs``). Where there are
more columns than people, all of it comes from an n x n system instead (``dual_form``). Loops are in ``row_kernels`` and
``loops``.
"""
