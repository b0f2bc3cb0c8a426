"""``Recipe``: a public rule, fixed in advance, that turns each row of a raw table into numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from perinstance.data.recipes.arrow_cells import RawTable, RefusedCells, as_arrow, raw_table
from perinstance.data.recipes.cell_rules import texts_of
from perinstance.data.recipes.column_kinds import ColumnKind, DeclaredRange, column_kind, left_to_fill_in
from perinstance.data.recipes.recipe_file import read_recipe_file, recipe_text
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.block import in_order_of
from perinstance.numerics.array_types import Floats

INTERCEPT = "intercept"
PARTS = ("columns", "target", "intercept", "decimal", "delimiter", "encoding", "na")  #: of a recipe's file


class Recipe(TransformerMixin, BaseEstimator):
    """Turn text, yes and no, dates and missing cells into numbers, by rules that nobody learnt from the data.

    A row's numbers depend on that row alone, so a loss of the numbers is the loss of the raw person. Nothing is learnt:
    ``fit`` keeps the names of the columns.

    Parameters
    ----------
    columns
        For each column of the raw table that is used, in this order, what is publicly known of it:

        - ``{"range": [0, 110]}``: a number, clipped to the range and scaled to [-1, 1] (``"scale": False``: only
          clipped);
        - ``{"categories": ["north", "south"]}``: a column of zeros and ones for each, and one for every other word
          (``"other": False``: without it);
        - ``{"yes": ["yes", "y"], "no": ["no", "n"]}``: 1 or 0;
        - ``{"dates": ["2015-01-01", "2024-12-31"]}``: a date, clipped and scaled to [-1, 1]; ``"format": "%d.%m.%Y"``
          says how a text is written;
        - ``{"as_is": True}``: a number as it is.

        Each may have ``"missing"``: the answer for missing cells (a number, a word, a date); they are refused
        otherwise. And how its cells are written: ``"na": ["k.A."]``, words that mean missing; of numbers
        ``"thousands": "."``, ``"currency": ["EUR"]`` and ``"censored": "limit"`` (``<0.6`` counts as 0.6); ``"unit"``
        is for readers. None takes every column as it is.
    target
        The same for the target, with its name: ``{"column": "cost", "range": [0, 50_000]}``, or yes and no.
    intercept
        Whether a column of ones is added, last.
    decimal
        The decimal mark of numbers that are written as text.
    delimiter
        Between the fields of a text file; None is what ``scan`` takes by itself.
    encoding
        Of a text file, where it is not UTF-8: ``"cp1252"``.
    na
        Words that mean missing, in every column.

    Examples
    --------
    >>> recipe = Recipe({"age": {"range": [0, 100]}, "ward": {"categories": ["A", "B"], "missing": "other"}})
    >>> import pyarrow as pa
    >>> recipe.transform(pa.table({"age": [50, 75], "ward": ["B", None]}))
    array([[0. , 0. , 1. , 0. ],
           [0.5, 0. , 0. , 1. ]])
    >>> recipe.get_feature_names_out().tolist()
    ['age', 'ward_A', 'ward_B', 'ward_other']
    """

    def __init__(
        self,
        columns: dict[str, dict[str, Any]] | None = None,
        target: dict[str, Any] | None = None,
        intercept: bool = False,
        decimal: str = ".",
        delimiter: str | None = None,
        encoding: str | None = None,
        na: list[str] | None = None,
    ) -> None:
        self.columns = columns
        self.target = target
        self.intercept = intercept
        self.decimal = decimal
        self.delimiter = delimiter
        self.encoding = encoding
        self.na = na

    def fit(self, X: Any, y: Any = None) -> Recipe:
        """Learn nothing: keep the names of the columns, and refuse cells that have no number."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Return the numbers of each row, and keep the names of the columns."""
        if y is not None and in_order_of(X, y) is not y:  # a Pipeline hands y on as it is
            raise InvalidTable("X and y have different pandas indexes; pass y.reindex(X.index)")
        raw = raw_table(X)
        numbers = self.rows(raw, 0)
        self.n_features_in_ = raw.n_columns
        if raw.names is not None and all(isinstance(name, str) for name in raw.names):
            self.feature_names_in_ = np.array(raw.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return numbers

    def transform(self, X: Any) -> Floats:
        """Return the numbers of each row; columns that the recipe does not name are left out."""
        raw = raw_table(X)
        expected = getattr(self, "n_features_in_", raw.n_columns)
        if self.columns is None and raw.n_columns != expected:
            raise InvalidTable(f"X has {raw.n_columns} features, but Recipe is expecting {expected} features as input")
        return self.rows(raw, 0)

    def rows(self, table: Any, start: int, refuse: bool = True) -> Floats:
        """Return the numbers of some rows of a larger table.

        ``start`` is what the table calls the first of these rows. Where nothing that a row holds may be refused, cells
        without a number are NaN.
        """
        raw = table if isinstance(table, RawTable) else raw_table(table)
        used, names, kinds = self._looked_at(raw), tuple(self.columns or ()), self._kinds()
        if kinds is None:
            names = tuple(f"x{k}" for k in used) if raw.names is None else tuple(raw.names)
            kinds = (column_kind("", {"as_is": True}),) * len(used)
        out = np.empty((raw.n_rows, sum(len(kind.suffixes) for kind in kinds) + bool(self.intercept)), order="F")
        refused, at = RefusedCells(start, refuse, texts_of("na", self.na)), 0
        for name, kind, place in zip(names, kinds, used, strict=True):
            refused.fill(name, kind, raw.column(place), self.decimal, out[:, at : at + len(kind.suffixes)])
            at += len(kind.suffixes)
        if self.intercept:
            out[:, -1] = 1.0
        refused.refuse_any()
        return out

    def transform_target(self, table: Any) -> Floats:
        """Return the target's numbers, given the raw table or the raw column itself."""
        _, name = self._target()
        series = table
        if getattr(table, "ndim", 2) == 2 and not isinstance(table, (list, tuple, pa.Array, pa.ChunkedArray)):
            raw = raw_table(table)
            if raw.names is None or name not in raw.names:
                raise InvalidTable(f"the table has no column '{name}', which the recipe declares as the target")
            series = raw.column(raw.names.index(name))
        return self.target_numbers(as_arrow(series), 0)

    def target_numbers(self, array: pa.Array, start: int, refuse: bool = True) -> Floats:
        """Return the target's numbers of some rows of a larger table; see ``rows``."""
        kind, name = self._target()
        out = np.empty((len(array), 1), order="F")
        refused = RefusedCells(start, refuse, texts_of("na", self.na))
        refused.fill(name, kind, array, self.decimal, out)
        refused.refuse_any()
        return out[:, 0]

    def inverse_transform_target(self, numbers: Any) -> Floats:
        """Return predictions in the target's own unit; yes and no stay 1 and 0."""
        kind, _ = self._target()
        values = np.asarray(numbers, dtype=np.float64)
        return kind.unscaled(values) if type(kind) is DeclaredRange else values

    @property
    def x_bound(self) -> float:
        """The largest norm that a row can have, by the declarations alone; infinite if a column is taken as it is."""
        kinds = self._kinds()
        squares = float("inf") if kinds is None else sum(kind.bound**2 for kind in kinds) + bool(self.intercept)
        return float(np.nextafter(np.sqrt(squares), np.inf))

    @property
    def y_bound(self) -> float:
        """The largest size that the target's number can have."""
        return self._target()[0].bound

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """Where each of the numbers lies, by the declarations alone: the bounds per column that a promise needs.

        Words (zeros and a one) and the column of ones are given as [-1, 1], so that nobody moves them to their middle.
        """
        kinds = self._kinds()
        if kinds is None or any(kind.bound == float("inf") for kind in kinds):
            raise InvalidInput("the recipe takes a column as it is: declare its range, or pass bounds of your own")
        found = [one for kind in kinds for one in [kind.ends] * len(kind.suffixes)]
        return found + [(-1.0, 1.0)] * bool(self.intercept)

    @property
    def row_bound(self) -> float:
        """The largest norm of a row once every column is divided by half its range: one for each raw column."""
        kinds = self._kinds()
        return float("inf") if kinds is None else float(np.sqrt(len(kinds) + bool(self.intercept)))

    @property
    def target_range(self) -> tuple[float, float]:
        """Where the target's number lies, by the declaration alone."""
        return self._target()[0].ends

    @property
    def target_scale(self) -> float:
        """How many of the target's own units one of its numbers is; 1 where the recipe declares no target."""
        low, high = (0.0, 1.0) if self.target is None else self.inverse_transform_target([0.0, 1.0])
        return abs(float(high - low))

    @property
    def target_column(self) -> str | None:
        """The name of the target in the raw table, if the recipe declares one."""
        return None if self.target is None else self._target()[1]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the numbers: those of the columns, with a category behind an underscore."""
        kinds = self._kinds()
        if kinds is None:
            names = self._names_as_they_are(input_features)
        else:
            pairs = zip(self.columns or (), kinds, strict=True)
            names = [f"{name}{end}" for name, kind in pairs for end in kind.suffixes]
        names += [INTERCEPT] if self.intercept else []
        if len(set(names)) < len(names):
            raise InvalidInput("two columns of numbers would have the same name; rename a column or a category")
        return np.array(names, dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe in plain types: dictionaries, lists, texts, numbers, truth values."""
        kinds = self._kinds()
        record: dict[str, Any] = {"intercept": bool(self.intercept), "decimal": self.decimal}
        file = {"delimiter": self.delimiter, "encoding": self.encoding, "na": list(texts_of("na", self.na))}
        record |= {name: value for name, value in file.items() if value}
        if kinds is not None:
            record["columns"] = {name: dict(kind.plain) for name, kind in zip(self.columns or (), kinds, strict=True)}
        if self.target is not None:
            kind, name = self._target()
            record["target"] = {"column": name, **kind.plain}
        return record

    @classmethod
    def from_dict(cls, record: Any) -> Recipe:
        """Make a recipe of what ``to_dict`` returned; what is left to fill in is refused, all of it at once."""
        if not isinstance(record, dict):
            raise InvalidInput(f"a recipe is a table of {', '.join(PARTS)}")
        unknown = sorted(map(str, set(record) - set(PARTS)))
        if unknown:
            raise InvalidInput(f"a recipe has no {', '.join(unknown)}; it has {', '.join(PARTS)}")
        left = left_to_fill_in(record)
        if left:
            raise InvalidInput(
                f"the recipe is a draft: fill in {', '.join(left)} from public knowledge (a code book, the law, "
                "a clinical range), never from the data"
            )
        recipe = cls(**record)
        recipe.get_feature_names_out() if recipe.columns is not None else recipe._kinds()
        return recipe

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Recipe:
        """Read a recipe from a TOML file."""
        return cls.from_dict(read_recipe_file(path))

    def to_toml(self) -> str:
        """Return the recipe as the text of a TOML file."""
        return recipe_text(self.to_dict())

    def declared_kinds(self) -> dict[str, ColumnKind]:
        """Return how the cells of each named column are read, the target's last."""
        kinds = dict(zip(self.columns or (), self._kinds() or (), strict=True))
        if self.target is not None:
            kind, name = self._target()
            kinds[name] = kind
        return kinds

    def _kinds(self) -> tuple[ColumnKind, ...] | None:
        """Validate the parameters where they are used (``__init__`` only stores); None: every column as it is."""
        if not isinstance(self.intercept, (bool, np.bool_)):
            raise InvalidInput("intercept must be true or false")
        if self.decimal not in (".", ","):
            raise InvalidInput("decimal must be '.' or ','")
        texts_of("na", self.na)
        if self.target is not None:
            self._target()
        if self.columns is None:
            return None
        columns: Any = self.columns
        if not isinstance(columns, dict) or not columns:
            raise InvalidInput("columns must name at least one column, for example {'age': {'range': [0, 110]}}")
        return tuple(self._kind(str(name), one) for name, one in columns.items())

    def _kind(self, name: str, declared: Any) -> ColumnKind:
        kind = column_kind(name, declared)
        if kind.rules.thousands == self.decimal:
            raise InvalidInput(f"{name}: thousands and decimal are the same mark; declare the other one")
        return kind

    def _target(self) -> tuple[ColumnKind, str]:
        target: Any = self.target
        if target is None:
            raise InvalidInput("the recipe declares no target; add target={'column': 'cost', 'range': [0, 50_000]}")
        if not isinstance(target, dict) or not isinstance(target.get("column"), str):
            raise InvalidInput("the target is declared with its column: {'column': 'cost', 'range': [0, 50_000]}")
        name = target["column"]
        kind = self._kind(name, {key: one for key, one in target.items() if key != "column"})
        if kind.suffixes != ("",):
            raise InvalidInput(f"{name}: a target is a range, yes and no, dates or a number as it is, not categories")
        if self.columns is not None and name in self.columns:
            raise InvalidInput(f"{name}: the target cannot be a feature too; leave it out of the columns")
        return kind, name

    def _looked_at(self, raw: RawTable) -> list[int]:
        """Return which columns of a raw table are used, in the recipe's order."""
        if self.columns is None:
            return list(range(raw.n_columns))
        if raw.names is None:
            if raw.n_columns != len(self.columns):
                raise InvalidTable(
                    f"X has {raw.n_columns} features, but Recipe is expecting {len(self.columns)} features as input; "
                    "a matrix has no names, so its columns are those of the recipe"
                )
            return list(range(raw.n_columns))
        absent = [str(name) for name in self.columns if name not in raw.names]
        if absent:
            raise InvalidTable(f"the table lacks {', '.join(absent)}, which the recipe names; check the names")
        return [raw.names.index(name) for name in self.columns]

    def _names_as_they_are(self, input_features: Any) -> list[str]:
        own = getattr(self, "feature_names_in_", None)
        if input_features is None and own is None and not hasattr(self, "n_features_in_"):
            raise InvalidInput("a recipe without columns has the names of its table: fit it, or pass input_features")
        if input_features is None:
            return [f"x{k}" for k in range(self.n_features_in_)] if own is None else [str(name) for name in own]
        given = [str(name) for name in input_features]
        if own is not None and given != list(own):
            raise ValueError("input_features is not equal to feature_names_in_")
        expected = getattr(self, "n_features_in_", len(given))
        if len(given) != expected:
            raise ValueError(f"input_features should have length equal to number of features ({expected})")
        return given

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
