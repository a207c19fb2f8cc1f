"""The keys of a recipe beside those of a config: `[stages]` and `[[stage]]`. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Effect, Section
from pool.config.sections import CommaList


class EndConfig(Section):
    """Keys for what follows the training of each stage of a recipe; a stage may have the same keys of its own."""

    export: Annotated[
        bool,
        Field(description="write its network into its folder, named nn- and 12 digits of its SHA-256"),
        Effect.NONE,
    ] = False
    permute: Annotated[
        CommaList,
        Field(description="files of data to order the exported network's units by, as pool export --permute"),
        Effect.NONE,
    ] = ()
    weights: Annotated[
        Literal["averaged", "newest"] | None,
        Field(description="which weights that network has; not set: averaged if there are any"),
        Effect.NONE,
    ] = None
    test: Annotated[
        CommaList,
        Field(description="program and arguments, run with the exported network; {net} is its file"),
        Effect.NONE,
    ] = ()


class StageConfig(EndConfig):
    """A stage of a recipe, `[[stage]]`: these keys, and any other section, laid over the rest of the file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="its name"), Effect.NONE]
    start_from: Annotated[
        str | None,
        Field(
            description="an earlier stage, or the folder of a run or checkpoint, or a file that the task reads, that "
            'it begins with; "": with what model.start_from says, or new weights; not set: the stage before'
        ),
        Effect.FIXED,
    ] = None
    start_with: Annotated[
        Literal["weights", "checkpoint"],
        Field(
            description="weights: optimizer, schedule and steps begin anew; checkpoint: they go on, and only the "
            "stream of data begins anew"
        ),
        Effect.FIXED,
    ] = "weights"
