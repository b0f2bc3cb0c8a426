"""The ledger: what each person has lost over all releases, kept safe. Read ``ledger`` first.

``event_log`` is the transactional log (one row per event, chained by hashes) over ``databases`` (SQLite in the folder,
PostgreSQL through SQLAlchemy); ``charge_files`` writes and reads the immutable, id-sorted Parquet file of one release;
``aligned_files`` walks over several of them together; ``totals`` and ``history`` compose them, for everybody and for
one person; ``budgets`` are the filters; ``renaming`` rewrites ids; ``verification`` says what is wrong with a ledger.
"""

from perinstance.ledger.budgets import GaussianBudget, RenyiBudget
from perinstance.ledger.ledger import Ledger

__all__ = ["GaussianBudget", "Ledger", "RenyiBudget"]
