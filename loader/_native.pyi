"""Native part of loader."""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

# --- binpack files (bind/binpack.cpp) ---

class Damage:
    """Where data stops being usable, and why."""

    @property
    def offset(self) -> int:
        """bytes from the start of the file: of a chunk header or a stem"""
    @property
    def entry_in_chain(self) -> int:
        """first entry not delivered; the stem is 0"""
    @property
    def reason(self) -> str: ...

class BinpackFile:
    """The chunks of a binpack file; usable by any number of threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: tuple[int, int, int, int] | None = None,
        may_grow: bool = False,
    ) -> None:
        """Raises DataError if the file can't be read at all. `identity`: (size, device, inode, modified) of
        loader.files; another file is a DataChangedError, here and when a chunk is read."""
    @property
    def size(self) -> int:
        """bytes"""
    @property
    def num_chunks(self) -> int: ...
    @property
    def header_damage(self) -> Damage | None:
        """the header at which the list of chunks ends early"""
    @property
    def ends_in_a_chunk(self) -> bool:
        """that damage is only that the file ends too early"""
    def chunk(self, chunk: int) -> tuple[int, int]:
        """Offset of the header and bytes of the payload."""
    def decode(self, chunk: int) -> tuple[npt.NDArray[np.uint8], Damage | None]:
        """All entries as records (record.h), uint8 [entries, 32], up to damage."""
    def count(self, chunk: int) -> tuple[int, int, Damage | None]:
        """Entries, chains, damage; every entry is decoded."""

class ChunkPrinter:
    """The entries of one chunk as lines of text."""

    def __init__(self, file: BinpackFile, chunk: int) -> None: ...
    def lines(self, limit: int) -> bytes:
        """Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage."""
    @property
    def damage(self) -> Damage | None: ...

class Census:
    """Counts over entries. Not for two threads at once."""

    def __init__(self) -> None: ...
    def add_chunk(self, file: BinpackFile, chunk: int) -> Damage | None:
        """Counts a chunk's entries, up to damage."""
    @property
    def entries(self) -> int: ...
    @property
    def chains(self) -> int: ...
    @property
    def white_to_move(self) -> int: ...
    @property
    def in_check(self) -> int: ...
    @property
    def captures(self) -> int: ...
    @property
    def results(self) -> npt.NDArray[np.uint64]:
        """loss, draw, win"""
    @property
    def move_types(self) -> npt.NDArray[np.uint64]:
        """normal, promotion, castling, en passant"""
    @property
    def piece_counts(self) -> npt.NDArray[np.uint64]:
        """by number of pieces, 0 to 32"""
    @property
    def scores(self) -> npt.NDArray[np.uint64]:
        """by score + 32768"""
    @property
    def plies(self) -> npt.NDArray[np.uint64]:
        """by ply"""

class BinpackWriter:
    """Turns entries into the bytes of a binpack file."""

    def __init__(self) -> None: ...
    def add(self, fen: str, move: str, score: int, ply: int, result: int) -> None:
        """Adds an entry. Raises ValueError if it can't be stored; then nothing has changed."""
    def copy_chunk(self, file: BinpackFile, chunk: int, first_chain: int = 0) -> Damage | None:
        """Adds a chunk's entries, chain `first_chain` first and those before it last."""
    def finish(self) -> None:
        """Closes the last chunk."""
    def take(self) -> bytes:
        """The bytes of all chunks closed since the last call."""
    @property
    def entries(self) -> int: ...
    @property
    def chains(self) -> int: ...
    @property
    def chunks(self) -> int: ...

def file_change(path: str | os.PathLike[str], identity: tuple[int, int, int, int], may_grow: bool) -> str:
    """What tells the file of this name from the one of that identity, in words; empty if nothing does."""

def play(fen: str, move: str) -> str:
    """The FEN after a move (move number 1), as the format plays it."""

# --- instruction sets (bind/simd.cpp) ---

def simd_level() -> str:
    """The build of the hot code that runs."""

def simd_levels() -> list[str]:
    """Those that this CPU can run, narrowest first."""

def set_simd_level(name: str) -> None:
    """For the whole process. Raises ValueError for another name."""

# --- feature sets (bind/features.cpp) ---

def feature_sets() -> list[str]:
    """The names of all feature sets."""

def describe_feature_set(name: str) -> tuple[int, int]:
    """(number of inputs, most that are active in one perspective). Raises ValueError for an unknown name."""

def extract_fen(fen: str, name: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], int, bool]:
    """Active features of a position: (own: uint32 [n], opponent: uint32 [n], number of pieces, whether
    black is to move); own is the side to move's perspective. Raises ValueError for a malformed FEN."""

# --- the stream (bind/stream.cpp) ---

class FilterSettings:
    """Which entries are left out; see loader.config.FilterConfig."""

    def __init__(self) -> None: ...
    skip_no_score: bool
    skip_in_check: bool
    skip_captures: bool
    skip_promotions: bool
    skip_ply_up_to: int
    random_skip: float
    win_draw_loss: bool
    piece_count: bool

class PipelineSettings:
    """How the stream is ordered and made."""

    def __init__(self) -> None: ...
    seed: int
    window_chunks: int
    threads: int
    shuffle: bool
    drop_tail: bool
    skip_damaged: bool

class BinpackPipeline:
    """Binpack files to batches in slots, on threads of its own."""

    def __init__(
        self,
        files: Sequence[BinpackFile],
        features: str,
        batch_size: int,
        slot_bytes: int,
        regions: Mapping[str, tuple[int, int, int]],
        filters: FilterSettings,
        settings: PipelineSettings,
    ) -> None:
        """regions: name -> (offset, count, item size), of loader.schema."""
    @property
    def num_chunks(self) -> int: ...
    def compare_with(self, words: npt.NDArray[np.uint64]) -> None:
        """Before `attach`; see loader.stream.Compared. Raises ValueError for another number of words."""
    def attach(self, slots: Sequence[npt.NDArray[np.uint8]]) -> None: ...
    def seek(self, cursor: tuple[int, int, int, int]) -> None:
        """cursor: (batch, epoch, window, entry)"""
    def give(self, slot: int) -> None: ...
    def take(self) -> tuple[int, tuple[int, int, int, int], tuple[int, int, int, int]] | None:
        """(slot, cursor, next cursor), or None. Raises DataError."""
    def take_skipped(self) -> list[tuple[str, str, int | None]]:
        """(file, reason, offset) of each damaged chunk left out, each once; see loader.stream.Stream.skipped."""
    def fileno(self) -> int: ...
    def progress(self) -> tuple[int, int, int]:
        """Entries read, entries kept, batches built; all since the start."""
    def processor_time(self) -> tuple[float, float, float]:
        """Seconds of all threads for decoding and filters, shuffling, building batches; since the start."""
    def close(self) -> None: ...

def win_draw_loss_probability(ply: int, score: int, result: int) -> float:
    """Probability of the game's result, given score and ply: what the win_draw_loss filter keeps with."""

# --- the order of the stream (bind/order.cpp) ---

def chunks_of_window(
    num_chunks: int, window_chunks: int, shuffle: bool, seed: int, epoch: int, window: int
) -> list[int]:
    """Numbers of the chunks that make a window, in the order of the permuted epoch; none behind the last window."""

# --- places where a test may have the process die (loader/native/testing) ---

def arm_crash_point(name: str, at: int, how: str) -> None:
    """The `at`-th time (from 1): kill, segv, stop or exit; note: every time, a line on stderr. Raises ValueError."""

def crash_point(name: str) -> None:
    """Does what is armed for this place; nothing, if nothing is."""
