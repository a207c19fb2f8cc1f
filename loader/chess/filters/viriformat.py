"""viriformat's filter under its own names, the keys of [data.chess.filters.viriformat] or of a TOML file of its
`Filter`.

Facts: viriformat 3, src/dataformat.rs. Each key is one rule. The order of the rules does not matter, because random
rules draw independently of the fixed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from loader.files.text import parse_toml
from loader.files.user_file import read_user_file
from loader.section import Effect, Section, WrongKeyError, as_tuple, describe_first_problem

NO_LIMIT = 2**32 - 1
PIECE_COUNTS = 33
_MOST_MATERIAL = 30 * 9
_Limit = Annotated[int, Field(ge=0, le=NO_LIMIT)]
_Coefficient = Annotated[float, Field(ge=-1e9, le=1e9)]
_Cubic = Annotated[tuple[_Coefficient, _Coefficient, _Coefficient, _Coefficient], BeforeValidator(as_tuple)]
_Chance = Annotated[float, Field(ge=0, le=1)]

# Values of keys that a file's `Filter` does not set, as viriformat has them.
DEFAULTS: Mapping[str, Any] = {"min_ply": 16, "min_pieces": 4, "max_eval": 31339} | dict.fromkeys(
    ("filter_tactical", "filter_check"), True
)


class ViriformatRules(Section):
    """viriformat's rules, under its names; every one is off unless it is set. `viriformat = "FILE"` in
    [data.chess.filters] names a TOML file of viriformat's Filter instead, with viriformat's defaults."""

    min_ply: Annotated[_Limit, Field(description="leave out if ply < this"), Effect.FIXED] = 0
    min_pieces: Annotated[_Limit, Field(description="leave out with fewer pieces, kings included"), Effect.FIXED] = 0
    max_eval: Annotated[_Limit, Field(description="leave out if |score| >= this"), Effect.FIXED] = NO_LIMIT
    filter_tactical: Annotated[
        bool, Field(description="leave out if the move takes, takes en passant, or promotes"), Effect.FIXED
    ] = False
    filter_check: Annotated[bool, Field(description="leave out if the side to move is in check"), Effect.FIXED] = False
    filter_castling: Annotated[bool, Field(description="leave out if the move castles"), Effect.FIXED] = False
    max_eval_incorrectness: Annotated[
        _Limit,
        Field(description="leave out drawn positions with |score| > this, and others if the winner's score < -this"),
        Effect.FIXED,
    ] = NO_LIMIT
    random_fen_skipping: Annotated[bool, Field(description="leave out at random"), Effect.FIXED] = False
    random_fen_skip_probability: Annotated[_Chance, Field(description="with this chance"), Effect.FIXED] = 0.0
    wdl_filtered: Annotated[
        bool, Field(description="keep with the chance that the model below gives the result"), Effect.FIXED
    ] = False
    wdl_model_params_a: Annotated[
        _Cubic, Field(description="centre of the model's curve: polynomial in material / mom_target"), Effect.FIXED
    ] = (6.87155862, -39.65226391, 90.68460352, 170.66996364)
    wdl_model_params_b: Annotated[_Cubic, Field(description="its width, in the same way"), Effect.FIXED] = (
        -7.1989071,
        56.13947185,
        -139.91091183,
        182.81007427,
    )
    material_min: Annotated[_Limit, Field(description="less material (1, 3, 3, 5, 9) counts as this"), Effect.FIXED] = (
        17
    )
    material_max: Annotated[_Limit, Field(description="more material counts as this"), Effect.FIXED] = 78
    mom_target: Annotated[int, Field(gt=0, le=NO_LIMIT, description="the model's unit of material"), Effect.FIXED] = 58
    wdl_heuristic_scale: Annotated[float, Field(gt=0, le=1e9, description="factor of the width"), Effect.FIXED] = 1.5
    material_count_filtered: Annotated[bool, Field(description="leave out by number of pieces"), Effect.FIXED] = False
    material_count_probabilities: Annotated[
        tuple[_Chance, ...],
        BeforeValidator(as_tuple),
        Field(description="chance to be left out with 0, 1, ... 32 pieces; not given: 0"),
        Effect.FIXED,
    ] = ()

    @field_validator("material_count_probabilities")
    @classmethod
    def _check_counts(cls, chances: tuple[float, ...]) -> tuple[float, ...]:
        if chances and len(chances) != PIECE_COUNTS:
            raise ValueError(f"{len(chances)} numbers; needed are {PIECE_COUNTS}, for 0 to 32 pieces")
        return chances

    @model_validator(mode="after")
    def _check_model(self) -> ViriformatRules:
        """Checks that the win-rate model has a positive width for every amount of material. Raises WrongKeyError."""
        least, most = self.material_min, self.material_max
        if least > most:
            if self.given("material_min", "material_max") == "material_min":
                raise WrongKeyError(f"{least} is above material_max = {most}", "material_min")
            raise WrongKeyError(f"{most} is below material_min = {least}", "material_max")
        for material in range(_MOST_MATERIAL + 1) if self.wdl_filtered else ():
            material = min(max(material, least), most)
            if _cubic(self.wdl_model_params_b, material / self.mom_target) * self.wdl_heuristic_scale <= 0:
                key = self.given("wdl_model_params_b", "mom_target", "material_min", "material_max")
                raise WrongKeyError(f"the model's width is not above 0 with material {material}", key)
        return self

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Yields key and expression of each rule that is set and does not draw at random. Positions for which the
        expression does not hold are left out."""
        if self.min_ply:
            yield "min_ply", f"ply >= {self.min_ply}"
        if self.min_pieces:
            yield "min_pieces", f"piece_count >= {self.min_pieces}"
        if self.max_eval <= 1 << 15:
            yield "max_eval", f"abs(score) < {self.max_eval}"
        if self.filter_tactical:
            yield "filter_tactical", "not is_capture and not is_promotion"
        if self.filter_check:
            yield "filter_check", "not in_check"
        if self.filter_castling:
            yield "filter_castling", "not is_castling"
        if self.max_eval_incorrectness < 1 << 15:
            yield "max_eval_incorrectness", agrees_with_result(self.max_eval_incorrectness)


def agrees_with_result(limit: int) -> str:
    """Returns an expression that holds if a score agrees with the result of its game: within the limit in a drawn game,
    and not below -limit for the winner in another game. It holds for an entry without score or result."""
    agrees = f"(result != 0 or abs(score) <= {limit}) and (result == 0 or score * result >= -{limit})"
    return f"not has_score or not has_result or {agrees}"


def rules_of_file(path: str) -> dict[str, Any]:
    """Reads the rules in a TOML file of viriformat's `Filter`. Returns all keys with viriformat's defaults for missing
    ones. Raises ValueError."""
    try:
        rules = parse_toml(read_user_file(Path(path)))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    unknown = sorted(set(rules) - set(ViriformatRules.model_fields))
    if unknown:
        raise ValueError(f"{path}: {unknown[0]}: unknown key; there are {', '.join(ViriformatRules.model_fields)}")
    try:
        ViriformatRules.model_validate({**DEFAULTS, **rules})
    except ValidationError as error:
        key, reason = describe_first_problem(error)
        raise ValueError(": ".join([path, *key, reason])) from None
    return {**DEFAULTS, **rules}


def table_or_file(value: Any) -> Any:
    """Reads the rules from a file if `value` is text, the file's path. Returns any other value unchanged. For a
    pydantic BeforeValidator."""
    return rules_of_file(value) if isinstance(value, str) else value


def _cubic(coefficients: tuple[float, ...], x: float) -> float:
    """Evaluates a cubic polynomial at x. The first coefficient is that of x^3."""
    value = 0.0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value
