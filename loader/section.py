"""The base class of groups of settings. Each key has its meaning, limits, and effect on a run's result."""

from __future__ import annotations

import reprlib
import types
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from loader.plugins.error_text import format_error_with_location


class Effect(Enum):
    """The effect of a key on the final weights of a run, which decides whether a resumed run may change it.

    A key declares it beside its field: `Annotated[int, Field(...), Effect.NONE]`. A key that declares nothing is taken
    for RESULT.
    """

    FIXED = "fixed"  # which batches train which model: a resumed run must have the same value
    SAME_FILES = "same files"  # names data: a resumed run must find the same content, at any path
    SAVED = "saved"  # read when a run begins; a resumed run goes on with what its checkpoint holds
    NUMERICS = "numerics"  # changes how numbers are rounded: part of the run's fingerprint (I2)
    RESULT = "result"  # changes the weights from the step on at which it is changed
    NONE = "none"  # speed, memory, output: never the weights

    @classmethod
    def of(cls, field: FieldInfo) -> Effect:
        """Returns the effect that the key's field declares, RESULT by default."""
        for annotation in field.metadata:
            if isinstance(annotation, cls):
                return annotation
        return cls.RESULT


class WrongKeyError(ValueError):
    """Raised by a section's own check for one of its keys."""

    def __init__(self, problem: str, *key: str) -> None:
        """Makes the error for the key `key`: its name in the section and, if it is a table, the names of the keys
        inside."""
        super().__init__(f"{'.'.join(key)}: {problem}")
        self.problem = problem
        self.key = key


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

    def given(self, *keys: str) -> str:
        """Returns the first of these keys that the user has set, or the first of all if none is. Names the key to blame
        when some keys do not fit together (`WrongKeyError`)."""
        return next((key for key in keys if key in self.model_fields_set), keys[0])


def find_section_problem(candidate: object) -> str:
    """Returns why `candidate` can't be the class of a section whose keys all have defaults; an empty text if it can.

    A key's default must be one that the section itself accepts, since every process reads it as JSON.
    """
    if not (isinstance(candidate, type) and issubclass(candidate, Section)):
        return f" must be a class made from loader.Section, not {reprlib.repr(candidate)}"
    try:
        candidate.model_validate_json(candidate().model_dump_json(warnings=False))
    except ValidationError as error:
        first = error.errors()[0]
        return f".{'.'.join(map(str, first['loc']))}: has no good default: {first['msg']}"
    except Exception as error:  # validators and default factories are the user's code
        return f": its defaults can't be made: {format_error_with_location(error)}"
    return ""


def describe_first_problem(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Returns the first problem of a pydantic error: the path of the key, and what is wrong with it."""
    problems = error.errors()
    for problem in problems:
        if problem["type"] == "value_error":
            # The garbage collector does not see into pydantic's errors: the traceback would keep all callers' frames.
            problem["ctx"]["error"].__traceback__ = None
    first = problems[0]
    reason = first["ctx"]["error"] if first["type"] == "value_error" else first["msg"]
    return tuple(map(str, first["loc"])), str(reason)


def union_types(annotation: Any) -> tuple[Any, ...]:
    """Returns the types of a union, or the type alone if it is no union, each without its annotations."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return tuple(get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds)


def as_tuple(value: Any) -> Any:
    """Turns a list from a TOML file into the tuple that a section has, for BeforeValidator. Numbers such as 1e6 in it
    become integers; anything but a list is returned as it is."""
    if not isinstance(value, list):
        return value
    return tuple(int(item) if isinstance(item, float) and item.is_integer() else item for item in value)


def _as_integer(annotation: Any, value: Any) -> Any:
    """Returns `value` with integral floats, such as 1e6, turned into integers where `annotation` allows no floats."""
    kinds = union_types(annotation)
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        return int(value)
    if isinstance(value, list):
        for kind in kinds:
            if get_origin(kind) in (tuple, list):
                return [_as_integer(get_args(kind)[0], item) for item in value]
    return value
