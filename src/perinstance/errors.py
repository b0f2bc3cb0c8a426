"""Every error and warning a user can meet.

A message says what is wrong, what was got and what to do. It may name row and column *numbers*; it never
carries the content of a cell, because error texts end up in logs and tickets.
"""

from __future__ import annotations

import errno

#: What a system says of a disk, a quota or a limit that leaves no room.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PerinstanceError(Exception):
    """The root of all errors of this package."""


class InvalidInput(PerinstanceError, ValueError):  # noqa: N818 - reads as a sentence: raise InvalidInput("delta must ...")
    """A value that no computation could accept: negative, NaN, of the wrong shape, outside its range."""


class InvalidTable(InvalidInput):
    """A table that cannot be audited: missing values, text in a feature, duplicate ids, no rows."""


class RepeatedIds(InvalidTable):
    """A table in which people have several rows, where every row has to be a person."""


class TooLarge(InvalidTable):
    """A file that would unpack to more than the limits allow (``perinstance.data.Limits``)."""


class UnsafeFile(PerinstanceError):  # noqa: N818
    """A confidential file that others could read, or a path that is not what it seems (a link)."""


class DiskFull(PerinstanceError):  # noqa: N818
    """The disk has no room for a file; what was begun of it was removed, and an older file is as it was."""


class ScratchFull(PerinstanceError):  # noqa: N818
    """The private scratch file of a large table cannot be written or read."""


class RefusedModel(InvalidInput):
    """An estimator that breaks an assumption of the theory (non-smooth, non-convex, weighted)."""


class InvalidModelFile(InvalidInput):
    """A file that is no published model of perinstance, or was cut off or edited."""


class NewerModelFile(InvalidModelFile):
    """A published model in a format that this version of perinstance does not know yet."""


class NumericalTrouble(PerinstanceError):  # noqa: N818
    """A computation could not be completed to the precision that is promised."""


class LedgerTrouble(PerinstanceError):  # noqa: N818
    """The ledger could not be read or written; what had been committed is still there."""


class LedgerDamaged(LedgerTrouble):
    """The ledger is not what was written: a changed, missing or reordered part (``Ledger.verify`` names it)."""


class LedgerConflict(LedgerTrouble):
    """A key that stands for another charge already, or a step that does not follow from those before."""


class ClusterTrouble(PerinstanceError):  # noqa: N818
    """The cluster gave the work up: its scheduler is gone, or workers died again and again at one partition."""


class PerinstanceWarning(UserWarning):
    """The root of all warnings of this package."""


class ManyReleases(PerinstanceWarning):
    """A search or a cross-validation fits a release many times: each fit publishes."""


class BeyondBounds(PerinstanceWarning):
    """The table holds rows beyond bounds that were declared for it. Said to the curator, by audits alone."""


class ClassesNotDeclared(PerinstanceWarning):
    """Labels come in a list, which has no type, and no classes were declared: 0 and 1 are taken for them."""


class CodeNotKept(PerinstanceWarning):
    """No folder for compiled code can be trusted or written: everything works, and is compiled anew in each process."""


class IdentifierAsFeature(PerinstanceWarning):
    """A column that looks like an identifier is a feature, because nobody said what it is."""
