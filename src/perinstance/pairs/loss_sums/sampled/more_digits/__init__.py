"""Inversion along straight lines with more digits than floats have, for sums that cancel many of them. In pairs of
floats: ``pair_functions`` has exponentials and logarithms, ``noise_pairs`` the noise of a step, ``pair_moments`` and
``pair_sums`` its moments along a line, ``pair_logs`` their logarithms, which people share, ``pair_integral`` inverts
(read this first). In balls: ``noise_balls``, ``ball_integral``. ``precise_tables`` keeps what was computed,
``line_answer`` reads an epsilon or a delta off a line, ``precise_answers`` serves everybody.
"""
