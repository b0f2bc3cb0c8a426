"""``audit``: the exact privacy loss of every person of a table, or of people outside it."""

from __future__ import annotations

import os
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from perinstance.auditing.map_people import walk_people
from perinstance.auditing.raw_tables import (
    columns_named,
    feature_names,
    features_but,
    in_fitted_order,
    outsiders_of,
    read_rows,
)
from perinstance.auditing.result import Audit
from perinstance.auditing.scattered_audit import open_folder, scatter
from perinstance.checked_numbers import one_of, probability
from perinstance.data import LossWriter, Recipe, write_losses
from perinstance.data.checks.identifiers import warn_of_identifiers
from perinstance.data.persons import PersonTable, by_person, column_of_weights, weighted_people
from perinstance.data.recipes.preparation import Preparation, refuse_target_of_recipe, split_pipeline
from perinstance.data.source import Source
from perinstance.engines import Cuda, Local, default_engine
from perinstance.engines.cuda import is_on_device
from perinstance.engines.dask import DaskSweep, dask_by_person, is_dask
from perinstance.engines.local import quiet_libraries
from perinstance.engines.protocol import Engine, Progress
from perinstance.errors import BeyondBounds, InvalidInput, InvalidTable, RepeatedIds
from perinstance.event_log import LOG
from perinstance.numerics.compile_notice import compilation_as_stage
from perinstance.pairs.kinds import Method, check_method
from perinstance.releases.base.release import check_answers_persons, instead_of_a_release, is_release
from perinstance.releases.base.weighted_rows import is_weighted, row_weights, weighing_of, weights_as_they_are

MANY_CLIPPED = 0.05  # a share of the people
#: people written at once: the file does not depend on how the table was cut into blocks
ROWS = 1 << 17


def audit(
    release: Any,
    X: Any,
    y: Any = None,
    *,
    delta: float = 1e-6,
    target: Any = None,
    ids: Any = None,
    features: Any = None,
    recipe: Recipe | None = None,
    outsiders: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    weights: Literal["own", "from the table"] = "own",
    method: Method = "auto",
    engine: Engine | None = None,
    progress: Progress | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Audit:
    """Return each person's privacy loss at ``delta`` when ``release`` is published on this table.

    Parameters
    ----------
    release
        What is published: ``PosteriorSample``, ``OutputPerturbation``, ...; or a scikit-learn ``Pipeline`` with one at
        its end, after steps that learn nothing from the data (``Recipe``, ``FunctionTransformer``, ``OneHotEncoder``
        with given categories, ...).
    X, y
        The table: numpy, pandas, polars, pyarrow, arrays on a GPU; or ``scan(...)`` of files. ``y`` is the target.
    delta
        Each loss epsilon holds up to this probability.
    target
        Instead of ``y``: the column of X that is the target.
    ids
        A column of X, or one name per row. Rows with one id are one person, whose loss is that of all of them together;
        people stand in the order of their first rows. Without ids every row is a person.
    features
        The columns of X to use; all others by default. A column that looks like an identifier is then warned of
        (``IdentifierAsFeature``), by its name and its first rows.
    recipe
        What turns a raw table (text, dates, missing cells) into numbers; it names the features, and may declare the
        target.
    outsiders
        ``(X_new, y_new)`` or ``(X_new, y_new, ids_new)``: ask about these people, who are **not** in the table,
        instead of those who are.
    sample_weight
        A column of X, or one number per row: weights, which scale what a row adds to the fit. Zero is somebody who is
        not there.
    weights
        ``"own"``: each weight follows from its own row (a design weight, an exposure, a count). ``"from the table"``:
        others' rows helped to determine it (raking, propensities): losses, at these very weights, are estimates.
    method
        ``"exact"``, ``"upper"`` or ``"estimate"``; ``"auto"`` is the best code that the model affords. Linear
        models are always exact.
    engine
        Where the work runs; None is the GPU for arrays that lie on one, the cluster for Dask's collections, and for
        Parquet when a client is active, else the threads of this machine (``perinstance.engines.Local()``).
    progress
        Called as ``progress(stage, rows_done, rows_total)``; stage is "fold", "map" or "refit" (people refitted). Once
        ``progress("compile", 0, None)``, from whichever thread it is, when numerical code is compiled, which happens
        once on a machine.
    out
        A ``.parquet`` or ``.csv`` file for everybody's losses, which only its owner may read; it appears when it is
        complete. On a cluster also a folder: every partition writes its own file, and the answer is a
        ``ScatteredAudit``, which holds sums and the most exposed people only.

    Examples
    --------
    >>> import numpy as np
    >>> from perinstance import PosteriorSample, audit
    >>> X, y = np.array([[1.0], [2.0], [10.0]]), np.array([1.0, 2.0, 11.0])
    >>> losses = audit(PosteriorSample(alpha=1.0, gamma=1.0), X, y, delta=1e-6)
    >>> losses.leverage.round(3).tolist()
    [0.01, 0.039, 16.667]
    """
    release, preparation = split_pipeline(release, recipe)
    refuse_target_of_recipe(preparation, target)
    if not is_release(release):
        raise InvalidInput(
            f"a release is audited (PosteriorSample, OutputPerturbation, ...), got {instead_of_a_release(release)}"
        )
    if ids is None and getattr(release, "rows_per_person", None) is not None:
        raise InvalidInput(
            "a release with rows_per_person is audited person by person, because which rows of a person it used is "
            "drawn; pass ids="
        )
    delta = probability("delta", delta)
    check_method(method)
    if out is not None and not is_folder(out):
        LossWriter(out)  # an unusable path is refused before the work
    weighted = sample_weight is not None
    one_of("weights", weights, ("own", "from the table"))
    if weighted and (outsiders is not None or is_folder(out)):
        raise InvalidInput("weighted audits are of the people of a table on this machine; leave outsiders and folders")
    if is_weighted(release) and not weighted:
        raise InvalidInput("this release has weighted rows; pass sample_weight=, the weights that fit is given")
    if isinstance(sample_weight, str | int):
        column, sample_weight = sample_weight, column_of_weights(X, sample_weight)
        if features is None and preparation is None:
            features = features_but(X, column, target, ids)
    chosen = in_fitted_order(release, X, target, ids, features) if preparation is None else features
    table = read_rows(release, X, y, target, ids, chosen, preparation)
    named = feature_names(X, table, target, ids, chosen)
    if features is None and preparation is None and table is not X:  # nobody said which columns are features
        warn_of_identifiers(table)
    more: dict[str, Any] = {"preparation": preparation, "features": named, "has_weights": weighted}
    if weighted:
        more["n_features"] = table.n_features  # without the ones that weighted rows bring
        release, table = _weighted(release, table, X, sample_weight)
    given: dict[str, Any] = {"delta": delta, "method": method, "engine": engine, "progress": progress}
    given |= {"outsiders": outsiders, "out": out, "more": more, "as_estimates": weights != "own"}
    try:
        return _audited(release, table, **given)
    except RepeatedIds:  # which only reading told
        return _audited(release, dask_by_person(table) or by_person(table, not release.mechanism().promises), **given)


def _weighted(release: Any, table: Source, X: Any, sample_weight: Any) -> tuple[Any, Source]:
    """Return the release of weighted rows, and the table with its rows weighed."""
    if is_dask(X) or is_on_device(X):
        raise InvalidInput("weighted audits are of tables in memory or in files; load the columns that are needed")
    promises, weighing = release.mechanism().promises, weighing_of(release)
    rows = table.n_rows if table.n_rows is not None else sum(len(piece()) for piece in table.pieces())
    checked = weights_as_they_are if promises else row_weights
    return weighing.release, weighted_people(table, checked(X, sample_weight, rows), weighing.rows, not promises)


def _audited(
    release: Any,
    table: Source,
    delta: float,
    method: Method,
    engine: Engine | None,
    progress: Progress | None,
    outsiders: tuple[Any, ...] | None,
    out: str | os.PathLike[str] | None,
    more: dict[str, Any],
    as_estimates: bool,
) -> Audit:
    """Fit without noise, and map over the people; ``as_estimates``: label what is found so."""
    if isinstance(table, PersonTable):
        check_answers_persons(release)
        engine = Local() if isinstance(engine, Cuda) else engine  # people with several rows are for the host
    engine = default_engine(table) if engine is None else engine
    sweep = engine.sweep(table, progress)
    if is_folder(out) and not isinstance(sweep, DaskSweep):
        raise InvalidInput(
            "losses of a table that is audited on this machine go to one file, called .parquet or .csv; a folder, with "
            "one file per partition, is for Dask's collections and for Parquet on a cluster"
        )
    folder = open_folder(out) if out is not None and is_folder(out) else None
    name = type(release).__name__
    LOG.info("audit of %s begins: %d features", name, table.n_features)
    with closing(sweep), quiet_libraries(table.n_features), compilation_as_stage(progress):
        fit = release.confidential_fit(sweep, method)
        LOG.debug("audit: the confidential fit is made")
        who: Any = sweep
        if outsiders is not None:
            names = {name: more[name] for name in ("features", "preparation")}
            who = engine.sweep(_outsiders(release, outsiders, table, **names), progress)
        about: dict[str, Any] = {"release": release, "fit": fit, "delta": delta, "inside": outsiders is None}
        if folder is not None:
            scattered: Any = scatter(**about, sweep=sweep, who=who, folder=folder)
            return scattered  # only where a folder was named
        answers = walk_people(**about, sweep=sweep, who=who)
        if as_estimates:
            answers = replace(answers, pairs=answers.pairs.as_estimates())
        found = Audit.of(answers, who, **about, **more)
    if out is not None:
        columns = {**({} if found.ids is not None else {"row": np.arange(len(found))}), **found.columns()}
        runs = [slice(start, start + ROWS) for start in range(0, len(found), ROWS)]
        write_losses(out, ({name: values[run] for name, values in columns.items()} for run in runs))
    LOG.info("audit of %s ends", name)
    if hasattr(fit, "clipped"):  # of most fits the health takes longer than the answer is worth
        health = fit.health
        for what, count in (("rows", health.clipped_features), ("targets", health.clipped_targets)):
            if count is not None and count > MANY_CLIPPED * health.n_people:
                warnings.warn(
                    f"more than {MANY_CLIPPED:.0%} of the {what} lie beyond the declared bounds and were clipped, "
                    "which shifts the estimate; audit.health says how many (confidential). Declare bounds from public "
                    "knowledge",
                    BeyondBounds,
                    stacklevel=3,
                )
    return found


def _outsiders(
    release: Any,
    outsiders: Any,
    table: Source,
    features: tuple[str, ...] | None,
    preparation: Preparation | None,
) -> Source:
    """Read people outside as the table was read: its features by their names, its classes."""
    new = outsiders_of(outsiders)
    by_recipe = preparation is not None and preparation.columns is not None
    own = None if features is None or by_recipe else columns_named(new[0], features)
    asked = read_rows(release, *new, own, preparation, getattr(table, "classes", ()))
    if table.n_features != asked.n_features:
        raise InvalidTable(
            f"the table has {table.n_features} features and outsiders have {asked.n_features}; they must be the same"
        )
    if table.names is not None and asked.names is not None and tuple(table.names) != tuple(asked.names):
        raise InvalidTable("the features of outsiders have other names, or another order, than those of the table")
    return asked


def is_folder(out: Any) -> bool:
    """Tell whether losses are to go to a folder: anything that is not called like a file of losses."""
    return out is not None and Path(out).suffix.lower() not in (".csv", ".parquet")
