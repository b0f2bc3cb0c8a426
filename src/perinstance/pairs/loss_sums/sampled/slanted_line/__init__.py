"""Inversion along a line that slants: for a few steps, or seldom ones, whose transform does not die along a straight
one. ``noise_path`` integrates over the noise, ``panels`` lays the line, ``slanted_line`` inverts along it (read this
first).
"""
