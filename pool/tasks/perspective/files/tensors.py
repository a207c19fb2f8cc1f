"""How one tensor of an exported file is stored: a table of `model.export`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Section

Kind = Literal["i8", "i16", "i32", "f32"]


class ExportTensor(Section):
    """One tensor of an exported file."""

    weight: Annotated[
        str, Field(pattern="^l[0-9]+[bfw]$", description="l0w and l0b (first layer), l0f (its factoriser), l1w, ...")
    ]
    merge: Annotated[Literal["l0f"] | None, Field(description="added to l0w, under every king bucket")] = None
    type: Annotated[Kind, Field(description="of the numbers in the file")] = "f32"
    scale: Annotated[float, Field(gt=0, le=1e9, description="numbers of the file are the weights times this")] = 1.0
    round: Annotated[
        bool, Field(description="integers are rounded, halves away from zero; if false, cut off towards zero")
    ] = True
    transpose: Annotated[
        bool, Field(description="output by output; if false, input by input: all outputs of the first, ...")
    ] = False
