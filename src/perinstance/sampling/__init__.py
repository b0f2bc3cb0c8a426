"""Exact draws, rounded to a public grid, from the operating system's randomness. There is no seed."""

from perinstance.sampling.eigenvalue_balls import noisy_eigenvalue
from perinstance.sampling.exact_gram import ExactGram, NormalEquations, exact_sums
from perinstance.sampling.fixed_point import FixedRows, fixed_rows
from perinstance.sampling.grid_draw import GRID, GridPoint, draw
from perinstance.sampling.ideal_laws import ExactDescent, ExactObjective, ExactOutput, ExactPosterior, Noisy
from perinstance.sampling.perturbed_logistic import PerturbedLogistic

__all__ = [
    "GRID",
    "ExactDescent",
    "ExactGram",
    "ExactObjective",
    "ExactOutput",
    "ExactPosterior",
    "FixedRows",
    "GridPoint",
    "Noisy",
    "noisy_eigenvalue",
    "NormalEquations",
    "PerturbedLogistic",
    "draw",
    "exact_sums",
    "fixed_rows",
]
