"""Everybody's losses as a noisy histogram, under a promise of its own: ``publish`` is the call (read it first),
``noisy_matrix`` says what is spent on what and looks at X'X, ``bounds_by_row`` bounds one person's loss by their own
row and what is public, and sorts such bounds into bins, ``record`` is what may leave the room.
"""
