"""Settings of files with columns: keys of [data.rows.columns]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loader.section import Effect, Section, WrongKeyError

Column = str | int  # a name, or a number from 0 on


@dataclass(frozen=True)
class Layout:
    """A well-known kind of text file without a header."""

    delimiter: str
    quote: str
    names: tuple[str, ...]
    features: tuple[str, ...]  # default columns of the field `features`


_CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
LAYOUTS: Mapping[str, Layout] = {
    # The display advertising challenge of 2014 and the terabyte logs: label, 13 integers, 26 categories.
    "criteo": Layout("\t", "", ("label", *(f"I{number}" for number in range(1, 14)), *_CATEGORIES), _CATEGORIES),
}


def _as_columns(value: Any) -> Any:
    """Converts a column, or a list of columns from a TOML file, to a tuple. Returns anything else as it is."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str | int):
        return (value,)
    return value


_Name = Annotated[str, Field(min_length=1)]
_Number = Annotated[int, Field(ge=0, lt=1 << 20)]
_Column = _Name | _Number
_Columns = Annotated[tuple[_Column, ...], Field(min_length=1), BeforeValidator(_as_columns)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_columns)]


class ColumnsConfig(Section):
    """The columns of a file that make a row: by name, or by number from 0 on. For csv and parquet."""

    layout: Annotated[
        Literal["", "criteo"],
        Field(description="a text file as it is known, without a header: criteo has label, I1 to I13, C1 to C26"),
        Effect.FIXED,
    ] = ""
    delimiter: Annotated[
        str,
        Field(max_length=1, description="between columns of text; empty: the layout's, a tab in .tsv files, a comma"),
        Effect.FIXED,
    ] = ""
    quote: Annotated[
        str, Field(max_length=1, description="around text that has delimiters; empty: none"), Effect.FIXED
    ] = '"'  # fmt: skip
    header: Annotated[
        bool, Field(description="the first line of text has the names; without a layout only"), Effect.FIXED
    ] = True  # fmt: skip
    label: Annotated[_Column, Field(description="the label's column"), Effect.FIXED] = "label"
    weight: Annotated[_Column, Field(description="that of the weights, for data.rows.weight"), Effect.FIXED] = "weight"
    qid: Annotated[_Column, Field(description="that of the query numbers, for data.rows.qid"), Effect.FIXED] = "qid"
    dense: Annotated[
        dict[str, _Column],
        Field(description="columns of the numbers of data.rows.dense; one that is not here has the number's name"),
        Effect.FIXED,
    ] = {}  # noqa: RUF012 (frozen)
    sparse: Annotated[
        dict[str, _Columns],
        Field(
            description="columns of the fields of data.rows.fields, one or a list; a field that is not here has the "
            "column of its name"
        ),
        Effect.FIXED,
    ] = {}  # noqa: RUF012 (frozen)
    missing: Annotated[_Texts, Field(description="texts that stand for no value"), Effect.FIXED] = ("",)
    missing_number: Annotated[
        float, Field(ge=-1e30, le=1e30, description="a number of data.rows.dense that is missing"), Effect.FIXED
    ] = 0.0  # fmt: skip
    missing_category: Annotated[
        Literal["none", "feature"],
        Field(description="a category that is missing gives no feature, or one that stands for missing"),
        Effect.FIXED,
    ] = "none"
    float_ids: Annotated[
        Literal["refuse", "integer", "text"],
        Field(
            description="what a category like 17.0 is: integer reads it as 17, text as it stands; refuse ends the run "
            "if all of a column look so, since 17 and 17.0 are two categories"
        ),
        Effect.FIXED,
    ] = "refuse"
    seed: Annotated[
        int, Field(ge=0, le=1 << 62, description="of the hashes that turn text into features"), Effect.FIXED
    ] = 0  # fmt: skip

    def column_of_number(self, name: str) -> tuple[str, Column]:
        """Returns the key that sets the column of a dense number (`label`, `weight`, `qid` or of data.rows.dense), and
        that column."""
        if name in ("label", "weight", "qid"):
            return name, getattr(self, name)
        return f"dense.{name}", self.dense.get(name, name)

    def columns_of_field(self, field: str) -> tuple[Column, ...]:
        """Returns the columns whose texts become the features of a field."""
        if field not in self.sparse and self.layout and field == "features":
            return LAYOUTS[self.layout].features
        return self.sparse.get(field, (field,))

    @model_validator(mode="after")
    def _check_text_format(self) -> Self:
        """Raises WrongKeyError if delimiter or quote can't separate columns, or contradicts the layout."""
        for key, char in (("delimiter", self.delimiter), ("quote", self.quote)):
            if char and (not char.isascii() or char.isalnum() or char in "\r\n\0+-."):
                raise WrongKeyError(f"{char!r}: expected one ASCII character that ends no line and no number has", key)
        if self.delimiter and self.delimiter == self.quote:
            if "quote" in self.model_fields_set:
                raise WrongKeyError(f"{self.quote!r}: the delimiter is the same", "quote")
            raise WrongKeyError(f"{self.quote!r}: the quote is the same", "delimiter")
        if self.layout:
            self._refuse_text_format_beside_layout()
        return self

    def _refuse_text_format_beside_layout(self) -> None:
        for key in ("delimiter", "quote", "header"):
            value = getattr(self, key)
            if value != type(self).model_fields[key].default:
                raise WrongKeyError(f"{value!r}: layout = {self.layout!r} says it already; set one", key)
