"""What is fitted: losses, mergeable statistics, leave-one-out answers."""

from perinstance.models.problem import Movement, Problem, problem_of
from perinstance.models.sweep import ArraySweep, People, Sweep

__all__ = ["ArraySweep", "Movement", "People", "Problem", "Sweep", "problem_of"]
