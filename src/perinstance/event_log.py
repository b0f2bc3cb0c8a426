"""The logger ``perinstance``: which steps were taken, for operators. Logs travel, so it says nothing of anybody.

A message names the step, the class of the release, the kind of file. It never carries a cell, an id, a number computed
from rows, or a count of people; ``tests/test_event_log.py`` plants cells and looks for them.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("perinstance")
LOG.addHandler(logging.NullHandler())
