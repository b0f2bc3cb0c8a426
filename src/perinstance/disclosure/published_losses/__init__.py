"""Everybody's losses as a noisy histogram, under a promise of its own: ``publish`` is the call (read it first),
``split_promise`` what is spent on what, ``noisy_matrix`` looks at X'X, ``bounds_by_row`` bounds one person's loss by
their own row and what is public, ``loss_bins`` sorts such bounds into bins, ``record`` is what may leave the room.
"""
