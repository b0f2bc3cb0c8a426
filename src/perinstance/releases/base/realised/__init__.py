"""What one published output told about each person: ``log q/p``, with over without, at the numbers that were published.

``log_ratios`` (read first) has the record, the protocol and the output as balls; ``ridge_ratios`` the three linear
families; ``noisy_sums`` vectors of sums with independent noise; ``refitted`` smooth models.
"""
