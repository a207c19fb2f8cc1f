"""The key `model.fake_quantization` of the tasks for chess. Free of torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loader.section import Effect


def _as_parts(value: Any) -> Any:
    """`rows,dense` on a command line, a list in a file."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(dict.fromkeys(value)) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


FakeQuantization = Annotated[
    tuple[Literal["rows", "dense", "activations"], ...],
    BeforeValidator(_as_parts),
    Field(
        description="what training computes as the exported integers do, with the gradients of the floats: rows and "
        "bias of the first layer (a factoriser added in), weights and biases of the layers behind it, activations"
    ),
    Effect.RESULT,
]
