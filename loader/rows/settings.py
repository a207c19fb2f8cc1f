"""Settings of the source "rows": keys of [data.rows]."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loader.rows.columns import ColumnsConfig
from loader.section import Effect, Section, WrongKeyError, as_tuple

DEFAULT_FIELD = "features"
MAX_FEATURES = 1 << 31
MAX_ACTIVE = 1 << 20
MAX_FEATURE_NUMBER = 1 << 62
_MAX_FLOAT32 = 3.4e38  # about
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_NAMES = ("label", "weight", "qid", "header", "bucket_offsets")


_Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
_Range = Annotated[tuple[int, int], BeforeValidator(as_tuple)]
_Active = Annotated[int, Field(ge=1, le=MAX_ACTIVE)]


class SyntheticRowsConfig(Section):
    """Clicks drawn from a known logistic model, if data.train is empty; each field has as many features in each row."""

    num_rows: Annotated[int, Field(ge=0, le=1 << 40, description="rows of an epoch; 0: none"), Effect.FIXED] = 0
    active: Annotated[
        int, Field(ge=1, le=1 << 10, description="features of a row in each field, of which some may coincide"),
        Effect.FIXED,
    ] = 8  # fmt: skip
    seed: Annotated[int, Field(ge=0, le=1 << 62, description="of rows and model"), Effect.FIXED] = 1


class RowsConfig(Section):
    """The numbers of a row, and the fields that its features belong to."""

    num_features: Annotated[
        int,
        Field(ge=1, le=MAX_FEATURES, description="features of the only field, `features`, if `fields` is empty"),
        Effect.FIXED,
    ] = 1 << 20
    fields: Annotated[
        dict[str, _Range],
        Field(
            description="fields: the first of its feature numbers, counted from 0, and the one behind its last; "
            "`{user = [0, 1000000], item = [1000000, 2000000]}`"
        ),
        Effect.FIXED,
    ] = {}  # noqa: RUF012 (frozen)
    shared_tables: Annotated[
        dict[str, _Names],
        Field(
            description='fields that share a table: `{items = ["history", "candidate"]}`; batches have them as one '
            "field of that name, with a bag of each. They have as many features each, and their numbers follow one "
            "another in that order"
        ),
        Effect.FIXED,
    ] = {}  # noqa: RUF012 (frozen)
    max_active: Annotated[
        _Active | dict[str, _Active],
        Field(description="features of a row in one field at most; a table gives each field its own"),
        Effect.FIXED,
    ] = 128
    values: Annotated[
        bool | _Names,
        Field(description="features have values; a list names the fields that have them; without, each counts 1"),
        Effect.FIXED,
    ] = True
    label: Annotated[
        Literal["real", "binary", "class", "none"],
        Field(
            description="any number; 1, and 0 or -1; a class number from 0 on; or none: neither labels nor weights are "
            "read, and rows need not have them (pool predict sets it)"
        ),
        Effect.FIXED,
    ] = "real"
    label_map: Annotated[
        dict[str, float],
        Field(
            description="labels by what files have in their place, words or numbers: `{no = 0, yes = 1}`, "
            '`{"1" = 0, "2" = 1}`; others are refused; empty: files have the labels themselves'
        ),
        Effect.FIXED,
    ] = {}  # noqa: RUF012 (frozen)
    num_classes: Annotated[
        int, Field(ge=2, le=1 << 24, description='classes of label = "class"'), Effect.FIXED
    ] = 2  # fmt: skip
    weight: Annotated[
        bool, Field(description="rows have weights, in svmlight files as LABEL:WEIGHT"), Effect.FIXED
    ] = False  # fmt: skip
    qid: Annotated[bool, Field(description="batches have the rows' query numbers, int64"), Effect.FIXED] = False
    dense: Annotated[_Names, Field(description="further numbers of a row, float32 each, by name"), Effect.FIXED] = ()
    zero_based: Annotated[
        bool, Field(description="the first feature's number is 0 in text files, else 1"), Effect.FIXED
    ] = True
    blocks: Annotated[
        str,
        Field(
            description="module:function that gives rows, if data.train is empty: a scipy.sparse.csr_matrix and its "
            "labels, an object with num_blocks() and block(i), or a generator"
        ),
        Effect.FIXED,
    ] = ""
    validation_blocks: Annotated[
        str, Field(description="the same for validations, while data.validation names no file"), Effect.FIXED
    ] = ""  # fmt: skip
    columns: ColumnsConfig = ColumnsConfig()
    synthetic: SyntheticRowsConfig = SyntheticRowsConfig()

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Returns the range of feature numbers of each field: the first one, and the one after the last."""
        return self.fields or {DEFAULT_FIELD: (0, self.num_features)}

    def names_by_number(self) -> list[str]:
        """Returns the names of the fields in the order of their feature numbers."""
        ranges = self.ranges()
        return sorted(ranges, key=ranges.__getitem__)

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Returns the fields of batches, in the order of `fields`. Each has the names of the rows' fields that share
        its table."""
        table_of = {field: name for name, fields in self.shared_tables.items() for field in fields}
        names = dict.fromkeys(table_of.get(field, field) for field in self.ranges())
        return {name: self.shared_tables.get(name, (name,)) for name in names}

    def has_values(self, field: str) -> bool:
        """Returns whether the features of a field have values of their own; otherwise each counts 1."""
        return self.values if isinstance(self.values, bool) else field in self.values

    def check_columns(self) -> None:
        """Raises ValueError if settings want values for features, which are categories in files with columns and have
        none."""
        if not isinstance(self.values, bool) and self.values:
            raise ValueError(
                f"data.rows.values: {self.values[0]}: a field takes the categories of columns, and a category has no "
                "value; name columns of numbers in data.rows.dense, and leave out data.rows.values"
            )

    def max_active_in(self, field: str) -> int:
        """Returns the largest number of features that a row may have in a field."""
        begin, end = self.ranges()[field]
        limit = self.max_active if isinstance(self.max_active, int) else self.max_active[field]
        return min(limit, end - begin)

    @model_validator(mode="after")
    def _check_one_origin(self) -> Self:
        """Raises WrongKeyError if rows come from a user's code and from the built-in model, too."""
        if self.blocks and self.synthetic.num_rows:
            raise WrongKeyError(f"{self.blocks!r}: rows come from synthetic.num_rows, too; set one of them", "blocks")
        return self

    @model_validator(mode="after")
    def _check_label_map(self) -> Self:
        """Raises WrongKeyError if label_map contains a number that is no label of this kind, or that float32 can't
        hold."""
        allowed = {"binary": (0, 1, -1), "class": range(self.num_classes)}.get(self.label)
        for text, label in self.label_map.items():
            if allowed is not None and label not in allowed:
                raise WrongKeyError(f"{label:g} is no label: data.rows.label = {self.label!r}", "label_map", text)
            if not abs(label) <= _MAX_FLOAT32:
                raise WrongKeyError(f"{label:g}: expected a number that float32 holds", "label_map", text)
        return self

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        """Raises WrongKeyError if the range of a field is empty, too large, or overlaps with another one."""
        last, last_end = "", 0
        for name, (begin, end) in sorted(self.fields.items(), key=lambda item: item[1]):
            if begin < 0 or not begin < end <= begin + MAX_FEATURES:
                raise WrongKeyError(
                    f"[{begin}, {end}]: expected 1 to {MAX_FEATURES} features from 0 on", "fields", name
                )
            if end > MAX_FEATURE_NUMBER:
                raise WrongKeyError(
                    f"[{begin}, {end}]: expected feature numbers up to {MAX_FEATURE_NUMBER}", "fields", name
                )
            if last and begin < last_end:
                raise WrongKeyError(
                    f"[{begin}, {end}] begins inside of {last}, which ends at {last_end}", "fields", name
                )
            last, last_end = name, end
        return self

    @model_validator(mode="after")
    def _check_shared_tables(self) -> Self:
        """Raises WrongKeyError if fields that are named together in shared_tables can't share a table."""
        shared: set[str] = set()
        for name, fields in self.shared_tables.items():
            problem = self._find_table_problem(fields)
            if problem:
                raise WrongKeyError(problem, "shared_tables", name)
            repeated = shared & set(fields)
            if repeated:
                raise WrongKeyError(f"{min(repeated)!r} shares another table, too", "shared_tables", name)
            shared |= set(fields)
        return self

    def _find_table_problem(self, fields: tuple[str, ...]) -> str:
        """Returns why these fields can't share a table; an empty text if they can."""
        listed = ", ".join(fields)
        unknown = [field for field in fields if field not in self.fields]
        if unknown:
            return f"{unknown[0]!r} is no field; the fields are {', '.join(self.ranges())}"
        if len(fields) < 2 or len(set(fields)) < len(fields):
            return f"[{listed}]: expected two fields or more, each once"
        if len({end - begin for begin, end in map(self.fields.__getitem__, fields)}) > 1:
            return f"{listed} have different numbers of features, and a table has one"
        if len(set(map(self.has_values, fields))) > 1:
            return f"data.rows.values names some of {listed}; name all or none"
        names = self.names_by_number()
        first = names.index(fields[0])
        if tuple(names[first : first + len(fields)]) != fields:
            return f"the numbers of {listed} must follow one another in that order (data.rows.fields)"
        return ""

    @model_validator(mode="after")
    def _check_columns_are_used(self) -> Self:
        """Raises WrongKeyError if `columns` sets a column for a field or number that the settings do not ask for."""
        columns = self.columns
        self._check_column_names("sparse", columns.sparse, self.ranges(), "field of data.rows.fields")
        self._check_column_names("dense", columns.dense, self.dense, "number of data.rows.dense")
        for key in ("weight", "qid"):
            column = getattr(columns, key)
            if column != key and not getattr(self, key):
                raise WrongKeyError(f"{column!r} is not read: data.rows.{key} is false", "columns", key)
        return self

    @staticmethod
    def _check_column_names(key: str, names: Iterable[str], allowed: Collection[str], kind: str) -> None:
        """Raises WrongKeyError for the first of the names in data.rows.columns.`key` that is not allowed."""
        for name in names:
            if name not in allowed:
                raise WrongKeyError(f"no {kind}; there are {', '.join(allowed) or 'none'}", "columns", key, name)

    @model_validator(mode="after")
    def _check_field_references(self) -> Self:
        """Raises WrongKeyError if max_active or values names a field that does not exist."""
        fields = self.ranges()
        allowed = f"the fields are {', '.join(fields)}"
        if isinstance(self.max_active, dict) and self.max_active.keys() != fields.keys():
            raise WrongKeyError(
                f"has {', '.join(self.max_active) or 'none'}; {allowed}: each needs a number", "max_active"
            )
        unknown = set() if isinstance(self.values, bool) else set(self.values) - set(fields)
        if unknown:
            raise WrongKeyError(f"{min(unknown)!r} is no field; {allowed}", "values")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Raises WrongKeyError if the name of a field, table or dense number is invalid or used twice."""
        names = [*self.ranges(), *self.shared_tables, *self.dense]
        for name in names:
            if not _NAME.fullmatch(name) or name in _RESERVED_NAMES or names.count(name) > 1:
                raise WrongKeyError(
                    f"{name!r} can't be the name of a field or number: letters, digits and _, each name once, none of "
                    f"{', '.join(_RESERVED_NAMES)}",
                    self._key_of_name(name),
                )
        return self

    def _key_of_name(self, name: str) -> str:
        """Returns the key that declares the name of a dense number, a shared table or a field."""
        if name in self.dense:
            return "dense"
        return "shared_tables" if name in self.shared_tables else "fields"
