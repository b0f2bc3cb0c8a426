"""Least squares and ridge regression, exactly. ``ridge`` is the model: read it first. It folds ``gram_matrix``,
factorises it (``cholesky_qr``) and maps ``row_statistics`` (leverage, residual) over the rows, with
``high_leverage`` for the few who determine a direction alone, and ``dual_form`` where there are more columns than
people. ``row_kernels``, ``column_kernels`` and
``blas_products`` are the loops behind them.
"""
