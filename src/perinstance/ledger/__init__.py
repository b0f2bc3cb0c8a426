"""The ledger: what each person has lost over all releases, kept safe. Read ``ledger`` first.

``charging`` writes charges and settles them: a file in ``files``, then an event in ``log``. ``totals`` composes what
was charged, for everybody and for one person. ``budgets`` are the filters and ``admission`` publishes under one;
``renaming`` rewrites ids; ``verification`` says what is wrong with a ledger.
"""

from perinstance.ledger.budgets import GaussianBudget, RenyiBudget
from perinstance.ledger.ledger import Ledger

__all__ = ["GaussianBudget", "Ledger", "RenyiBudget"]
