"""Ridge regression with more columns than people: nothing here is larger than the table or n x n.

Read ``wide_fit`` first: the confidential fit. ``reflected_rows`` takes the intercept out, ``dual_system`` factorises
``K = XX' + alpha I`` in floats and says what rounding took, ``dual_balls`` answers whom floats leave open.
"""
