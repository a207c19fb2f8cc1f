"""Settings of the stream: what is read and how it is cut into batches; what one source alone knows is its own section.

The stream is a function of the files, the seed and the keys whose effect is FIXED (I1).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from loader.cores import decoding_threads
from loader.section import Effect, Section


class DataConfig(Section):
    """The stream of batches. `loader.stream.sources.source_config_class` adds the source's section."""

    section: ClassVar[str | None] = None  # name of the source's own section

    source: Annotated[
        str,
        Field(description="what the samples are: chess, rows, synthetic (for tests), or module:factory"),
        Effect.FIXED,
    ] = "chess"
    format: Annotated[
        str | None,
        Field(
            min_length=1,
            description="file format: binpack, bulletformat, viriformat, marlinformat, packedsfen, text, pgn, plain, "
            "montyvalue, fen_csv or lichess_evals for chess, svmlight, csv, npz or parquet for rows, or the "
            "name of a module; not set: each file's content, or else the ending of its name, says which",
        ),
        Effect.FIXED,
    ] = None
    batch_size: Annotated[int, Field(gt=0, le=1 << 20, description="samples of a batch"), Effect.FIXED] = 16384
    threads: Annotated[
        int,
        Field(
            ge=0,
            le=256,
            description="decoding threads; does not change the stream; 0: half of the allowed cores, at least 2, at "
            "most 2 + 2 x accelerators",
        ),
        Effect.NONE,
    ] = 0
    shuffle: Annotated[
        bool, Field(description="permute chunks per epoch and entries within a window"), Effect.FIXED
    ] = True
    window_chunks: Annotated[
        int,
        Field(
            gt=0,
            le=1 << 20,
            description="chunks (about 1 MiB of file, 28 MiB of memory each) whose entries are shuffled together",
        ),
        Effect.FIXED,
    ] = 16
    tail: Annotated[
        Literal["flow", "drop"],
        Field(description="entries left at the end of an epoch flow into the next one, or are dropped"),
        Effect.FIXED,
    ] = "flow"
    validation_share: Annotated[
        float,
        Field(
            ge=0,
            le=0.5,
            description="share of the training files that validations have instead of data.validation: chunks, or "
            "blocks of rows, drawn by run.seed; training leaves them out",
        ),
        Effect.FIXED,
    ] = 0.0
    on_bad_data: Annotated[
        Literal["stop", "skip"],
        Field(
            description="what can't be read, or is a position or move that no game can have, ends the run; or the "
            "game, line or record is left out, and the run's end says how many were. Where nothing says where the next "
            "one begins (binpack, damaged compression) it is the chunk, behind a damaged chunk header the rest of the "
            "file"
        ),
        Effect.RESULT,
    ] = "stop"
    growing: Annotated[
        Literal["stop", "ignore_new"],
        Field(
            description="a file that has grown since the run began ends the run, or is read up to the size that it had "
            "then, to the end of its last whole chunk; any other change of a file ends the run"
        ),
        Effect.NONE,
    ] = "stop"

    @property
    def num_threads(self) -> int:
        """Returns the number of decoding threads of a stream: `threads`, or a default for this machine's cores. The
        pool, which knows its accelerators, sets `threads` by them."""
        return self.threads or decoding_threads()

    @property
    def settings(self) -> Any:
        """Returns the section of the source's own settings, an object of its class `settings`; None if the source has
        none."""
        return None if self.section is None else getattr(self, self.section)

    @property
    def may_grow(self) -> bool:
        """Returns whether bytes that are appended to a file after the run's start are ignored, instead of ending the
        run."""
        return self.growing == "ignore_new"
