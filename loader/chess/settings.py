"""Settings of the source "chess": keys of [data.chess]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from loader.chess.filters import FilterConfig
from loader.section import Effect, Section


class ChessConfig(Section):
    """How positions become samples, and which are left out."""

    features: Annotated[str, Field(description="feature set, by name"), Effect.FIXED] = "HalfKAv2_hm"
    filters: FilterConfig = FilterConfig()
