"""Quadratics over a ball: the secular equation of a trust region, and weak duality over a part of a ball."""
