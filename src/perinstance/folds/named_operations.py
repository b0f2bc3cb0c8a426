"""Steps by name: what a fold or a map does is a function of a module with parameters, so that an engine may replace it.

A step that is ``functools.partial(function, **parameters)`` is the *operation* ``function``. Every engine can call it
on blocks of numpy rows. One that computes elsewhere (``engines/cuda``) looks here whether it has an implementation of
its own, and falls back to the call for all others. Operations today: ``models.linear.gram_matrix.gram`` (X'X, X'y and
y'y, also seen through a factor) and ``releases.base.block_losses.losses_of_block`` (row statistics of a factor, the
pairs' columns and epsilon at a delta). An implementation keeps the bounds that the operation's own file charges for
rounding, or goes without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Step = Callable[..., Any]


def operation_of(step: Step) -> tuple[Step | None, dict[str, Any]]:
    """Return the operation behind a step and its parameters; None for a step without a name.

    >>> operation_of(partial(sorted, reverse=True))
    (<built-in function sorted>, {'reverse': True})
    >>> operation_of(lambda block: block)
    (None, {})
    """
    if isinstance(step, partial) and not step.args:
        return step.func, dict(step.keywords)
    return None, {}
