"""Settings of the stream: what is read, what is left out, how it is cut into batches.

Everything here but `threads` changes the stream, and the stream is a function of it (I1).
"""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class Section(BaseModel):
    """A group of keys: frozen; an unknown key is an error, and so is a number that is not finite.

    Tables without declared keys (`dict[str, Any]`) keep every value as it was written, infinities included. A number
    such as 1e6 is accepted for an integer. Give each numeric key both limits: `Field(ge=..., le=...)`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _integral_floats_are_integers(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name is not None
        return _as_integer(cls.model_fields[info.field_name].annotation, value)


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of any other type, that alone."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _as_integer(annotation: Any, value: Any) -> Any:
    """`value`, as an int if it is an integral float where `annotation` has no floats."""
    kinds = alternatives(annotation)
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        return int(value)
    if isinstance(value, list):
        for kind in kinds:
            if get_origin(kind) in (tuple, list):
                return [_as_integer(get_args(kind)[0], item) for item in value]
    return value


class FilterConfig(Section):
    """Entries left out of the stream. Every filter is off unless it is set."""

    skip_no_score: Annotated[bool, Field(description="skip entries whose score is the placeholder 32002")] = True
    skip_in_check: Annotated[bool, Field(description="skip positions whose side to move is in check")] = False
    skip_captures: Annotated[
        bool, Field(description="skip if an enemy piece stands on the move's destination (en passant does not count)")
    ] = False
    skip_promotions: Annotated[bool, Field(description="skip if the move played promotes")] = False
    skip_ply_up_to: Annotated[
        int, Field(ge=-1, le=65535, description="skip entries with ply <= this; -1 skips none, 0 skips start positions")
    ] = -1
    random_skip: Annotated[float, Field(ge=0, le=1e6, description="skip with probability r / (r + 1)")] = 0.0
    win_draw_loss: Annotated[
        bool,
        Field(
            description="keep with the probability that the engine's win-rate model gives the result, by score and ply"
        ),
    ] = False
    piece_count: Annotated[
        bool,
        Field(
            description="thin out common piece counts, chunk by chunk, towards shares of 2 - ((count - 16) / 16)^2; "
            "exactly if that leaves a tenth of each count, else as near as leaving a tenth allows"
        ),
    ] = False


class DataConfig(Section):
    """The stream of batches."""

    train: Annotated[tuple[str, ...], Field(description="training files, in order; * and ? match")] = ()
    validation: Annotated[tuple[str, ...], Field(description="validation files")] = ()
    source: Annotated[str, Field(description="kind of data: binpack, synthetic (for tests), or module:factory")] = (
        "binpack"
    )
    features: Annotated[str, Field(description="feature set, by name")] = "HalfKAv2_hm"
    batch_size: Annotated[int, Field(gt=0, le=1 << 20, description="samples of a batch")] = 16384
    threads: Annotated[int, Field(gt=0, le=256, description="decoding threads; does not change the stream")] = 2
    shuffle: Annotated[bool, Field(description="permute chunks per epoch and entries within a window")] = True
    window_chunks: Annotated[
        int,
        Field(
            gt=0,
            le=1 << 20,
            description="chunks (about 1 MiB of file, 28 MiB of memory each) whose entries are shuffled together",
        ),
    ] = 16
    tail: Annotated[
        Literal["flow", "drop"],
        Field(description="entries left at the end of an epoch flow into the next one, or are dropped"),
    ] = "flow"
    on_bad_data: Annotated[
        Literal["stop", "skip"],
        Field(
            description="a damaged chunk ends the run, or is left out whole and logged; behind a damaged chunk header, "
            "that is all the rest of its file"
        ),
    ] = "stop"
    growing: Annotated[
        Literal["stop", "ignore_new"],
        Field(
            description="a file that has grown since the run began ends the run, or is read up to the size that it had "
            "then, to the end of its last whole chunk; any other change of a file ends the run"
        ),
    ] = "stop"
    filters: FilterConfig = FilterConfig()

    @property
    def may_grow(self) -> bool:
        """Bytes behind those that were there when the run began are nobody's concern."""
        return self.growing == "ignore_new"
