"""Native part of loader."""

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

def simd_level() -> str:
    """The build of the hot code that runs: "baseline", "avx2" or "avx512"; at first the best that this CPU has."""

def simd_levels() -> list[str]:
    """The levels that this CPU can run, narrowest first."""

def set_simd_level(level: str) -> None:
    """Chooses for the whole process, for tests and benchmarks; not while hot code runs. Raises ValueError."""

def build_info() -> str:
    """Compiler and version of this build."""

def arm_crash_point(name: str, at: int, how: str) -> None:
    """The `at`-th time (from 1): kill, segv, stop or exit; note: every time, a line on stderr. Raises ValueError."""

def crash_point(name: str) -> None:
    """Does what is armed for this place; nothing, if nothing is."""

def file_change(
    path: str | os.PathLike[str], identity: tuple[int, int, int, tuple[int, int] | None], may_grow: bool
) -> str:
    """What tells the file of this name from the one of that identity, in words; empty if nothing does."""

class ZstdPacker:
    """Makes one zstd frame of bytes that come in parts."""

    def __init__(self, level: int = 3) -> None:
        """Raises UsageError where zstd is missing."""

    def pack(self, bytes: bytes, last: bool) -> bytes:
        """What is done of the frame after these bytes; with `last` its end."""

class Source:
    """A family's records: chunks of files on one side, batches on the other."""

    @property
    def num_chunks(self) -> int: ...
    @property
    def in_file_order(self) -> bool:
        """chunks are best read one after the other"""

    def count_kept(self, chunks: Sequence[int]) -> list[int]:
        """Of each of the chunks: samples that pass the filters when it is read first; 0 of a damaged one. Raises
        DataError for a file that can't be read.
        """

class Component:
    """Consecutive chunks of a source that have a rate of their own."""

    def __init__(self, num_chunks: int, rate: float) -> None: ...
    @property
    def num_chunks(self) -> int: ...
    @property
    def rate(self) -> float:
        """chunks of it, against those of the others"""

def reads_of_an_epoch(components: Sequence[Component]) -> list[int]:
    """How many chunks of each an epoch has: the one that lasts longest once, the others at their rates."""

class PipelineSettings:
    """How the stream is ordered and made."""

    def __init__(self) -> None: ...
    @property
    def seed(self) -> int: ...
    @seed.setter
    def seed(self, arg: int, /) -> None: ...
    @property
    def window_chunks(self) -> int: ...
    @window_chunks.setter
    def window_chunks(self, arg: int, /) -> None: ...
    @property
    def threads(self) -> int: ...
    @threads.setter
    def threads(self, arg: int, /) -> None: ...
    @property
    def shuffle(self) -> bool: ...
    @shuffle.setter
    def shuffle(self, arg: bool, /) -> None: ...
    @property
    def drop_tail(self) -> bool: ...
    @drop_tail.setter
    def drop_tail(self, arg: bool, /) -> None: ...
    @property
    def skip_damaged(self) -> bool: ...
    @skip_damaged.setter
    def skip_damaged(self, arg: bool, /) -> None: ...
    @property
    def validation_share(self) -> float: ...
    @validation_share.setter
    def validation_share(self, arg: float, /) -> None: ...
    @property
    def components(self) -> list[Component]:
        """of the source's chunks, in order; empty: one set"""

    @components.setter
    def components(self, arg: Sequence[Component], /) -> None: ...
    @property
    def validation(self) -> bool:
        """the stream has that share; else the rest"""

    @validation.setter
    def validation(self, arg: bool, /) -> None: ...

class Pipeline:
    """A source's batches in slots, made by threads of its own."""

    def __init__(self, source: Source, settings: PipelineSettings) -> None: ...
    @property
    def num_chunks(self) -> int: ...
    def compare_with(self, words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C")]) -> None:
        """Before `attach`; see loader.stream.interface.Compared. Raises ValueError for another number of words."""

    def attach(self, slots: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C")]]) -> None: ...
    def seek(self, cursor: tuple[int, int, int, int]) -> None:
        """cursor: (batch, epoch, window, entry)"""

    def give(self, slot: int) -> None: ...
    def take(self) -> tuple[int, tuple[int, int, int, int], tuple[int, int, int, int]] | None:
        """(slot, cursor, next cursor), or None. Raises DataError."""

    def take_skipped(self) -> list[tuple[str, str, int | None]]:
        """(file, reason, offset) of each damaged chunk left out, each once; see loader.stream.interface.Stream.skipped."""

    def fileno(self) -> int: ...
    def progress(self) -> tuple[int, int, int]:
        """Entries read, entries kept, batches built; all since the start."""

    def processor_time(self) -> tuple[float, float, float]:
        """Seconds of all threads for decoding and filters, shuffling, building batches; since the start."""

    def close(self) -> None: ...

def chunks_of_window(
    num_chunks: int, settings: PipelineSettings, in_order: bool, apart: bool, epoch: int, window: int
) -> list[int]:
    """Numbers of the chunks that make a window, in the order of the permuted epoch; none behind the last window.
    `in_order`, `apart`: the source's in_file_order and records_are_apart.
    """

class PositionReader:
    """Files of one format, in chunks of positions."""

    @property
    def num_chunks(self) -> int: ...
    @property
    def in_file_order(self) -> bool:
        """chunks are best read one after the other"""

    @property
    def name(self) -> str:
        """of the files, for messages"""

class ScaledReader(PositionReader):
    """Another reader's files, scores multiplied."""

    def __init__(self, reader: PositionReader, scale: float) -> None: ...

def scaled_score(score: int, scale: float) -> int:
    """Rounded to nearest even, at most 32000 in size; 32002, no score, stays what it is."""

class Where:
    """A condition of entries; loader/chess/filters/where.py makes it of a text."""

    def __init__(self, postfix: Sequence[float | str]) -> None:
        """Numbers, names of where_names, and operations behind their operands. Raises ValueError."""

    @property
    def names(self) -> list[str]:
        """what it speaks of"""

    def holds(
        self, records: Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C", device="cpu", writable=False)]
    ) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C")]:
        """Of records [entries, 32]: 1 or 0 for each, uint8."""

def where_names() -> list[tuple[str, bool, str, str]]:
    """What a condition may speak of: name, whether it is a condition, the part of an entry that it needs or
    an empty text, meaning.
    """

class MaterialModel:
    """How probable results are, by score and material."""

    def __init__(self) -> None: ...
    @property
    def centre(self) -> list[float]: ...
    @centre.setter
    def centre(self, arg: Sequence[float], /) -> None: ...
    @property
    def width(self) -> list[float]: ...
    @width.setter
    def width(self, arg: Sequence[float], /) -> None: ...
    @property
    def least_material(self) -> int: ...
    @least_material.setter
    def least_material(self, arg: int, /) -> None: ...
    @property
    def most_material(self) -> int: ...
    @most_material.setter
    def most_material(self, arg: int, /) -> None: ...
    @property
    def unit(self) -> int: ...
    @unit.setter
    def unit(self, arg: int, /) -> None: ...
    @property
    def scale(self) -> float: ...
    @scale.setter
    def scale(self, arg: float, /) -> None: ...
    def probability(self, material: int, score: int, result: int) -> float:
        """Of the result, given the score; both as the same side sees them."""

class FilterSettings:
    """Which entries are left out; see loader.chess.filters."""

    def __init__(self) -> None: ...
    @property
    def skip_no_score(self) -> bool: ...
    @skip_no_score.setter
    def skip_no_score(self, arg: bool, /) -> None: ...
    @property
    def skip_in_check(self) -> bool: ...
    @skip_in_check.setter
    def skip_in_check(self, arg: bool, /) -> None: ...
    @property
    def skip_captures(self) -> bool: ...
    @skip_captures.setter
    def skip_captures(self, arg: bool, /) -> None: ...
    @property
    def skip_promotions(self) -> bool: ...
    @skip_promotions.setter
    def skip_promotions(self, arg: bool, /) -> None: ...
    @property
    def skip_ply_up_to(self) -> int: ...
    @skip_ply_up_to.setter
    def skip_ply_up_to(self, arg: int, /) -> None: ...
    @property
    def random_skip(self) -> float: ...
    @random_skip.setter
    def random_skip(self, arg: float, /) -> None: ...
    @property
    def win_draw_loss(self) -> bool: ...
    @win_draw_loss.setter
    def win_draw_loss(self, arg: bool, /) -> None: ...
    @property
    def piece_count(self) -> bool: ...
    @piece_count.setter
    def piece_count(self, arg: bool, /) -> None: ...
    @property
    def piece_count_wanted(self) -> list[float]: ...
    @piece_count_wanted.setter
    def piece_count_wanted(self, arg: Sequence[float], /) -> None: ...
    @property
    def where(self) -> list[Where]: ...
    @where.setter
    def where(self, arg: Sequence[Where], /) -> None: ...
    @property
    def chance_of_all(self) -> float: ...
    @chance_of_all.setter
    def chance_of_all(self, arg: float, /) -> None: ...
    @property
    def chance_by_ply(self) -> list[float]: ...
    @chance_by_ply.setter
    def chance_by_ply(self, arg: Sequence[float], /) -> None: ...
    @property
    def chance_by_piece_count(self) -> list[float]: ...
    @chance_by_piece_count.setter
    def chance_by_piece_count(self, arg: Sequence[float], /) -> None: ...
    @property
    def chance_by_result(self) -> MaterialModel | None: ...
    @chance_by_result.setter
    def chance_by_result(self, arg: MaterialModel, /) -> None: ...

class Filter:
    """Leaves entries out. Usable by any number of threads."""

    def __init__(self, settings: FilterSettings, seed: int) -> None: ...
    def choose(
        self,
        records: Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C", device="cpu", writable=False)],
        chunk: int,
        epoch: int = 0,
    ) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C")]:
        """Of all records of a chunk [entries, 32]: 1 for those that are kept, else 0; uint8."""

def win_draw_loss_probability(ply: int, score: int, result: int) -> float:
    """Probability of the game's result, given score and ply: what the win_draw_loss filter keeps with."""

class PositionSource(Source):
    """Positions of any formats, filtered."""

    def __init__(
        self,
        readers: Sequence[PositionReader],
        features: str,
        king_buckets: Sequence[int],
        output_buckets: Sequence[int],
        batch_size: int,
        slot_bytes: int,
        regions: Mapping[str, tuple[int, int, int]],
        filters: FilterSettings,
        seed: int,
    ) -> None:
        """output_buckets: of each number of pieces, 0 to 32. regions: name -> (offset, count, item size), of
        loader.stream.schema.
        """

def feature_sets() -> list[str]:
    """The names of all feature sets."""

def describe_feature_set(name: str, king_buckets: Sequence[int] = []) -> tuple[int, int]:
    """(number of inputs, most that are active in one perspective). king_buckets: of the own king's squares,
    64 or, with mirroring, 32; for sets that have none of their own. Raises ValueError.
    """

def virtual_features(
    name: str, king_buckets: Sequence[int] = []
) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C")]:
    """Of each input of a set that is not factorised: the input of `name`^ that is the same without king
    bucket, 2^32 - 1 if there is none. uint32 [inputs]. Raises ValueError.
    """

def extract_fen(
    fen: str, name: str, king_buckets: Sequence[int] = []
) -> tuple[
    Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C")],
    Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C")],
    int,
    bool,
]:
    """Active features of a position: (own: uint32 [n], opponent: uint32 [n], number of pieces, whether
    black is to move); own is the side to move's perspective. Raises ValueError for a malformed FEN.
    """

def pack_records(
    entries: Sequence[tuple[str, str, int, int | None, int]], legal: bool = False
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
    """Entries (FEN, move, score, ply, result) as records (chess/native/record.h), uint8 [entries, 32].
    Raises ValueError for what is no entry; with `legal` also for a position that no game can have.
    """

def play(fen: str, move: str) -> str:
    """The FEN after a move (move number 1), as training data plays it. Raises ValueError."""

class EntryWriter:
    """Turns entries into the bytes of a file of one format."""

    def add(self, fen: str, move: str, score: int, ply: int | None, result: int) -> None:
        """Adds an entry; ply None: not known. Raises ValueError if it can't be stored; then nothing has changed."""

    def finish(self) -> None:
        """Ends what is begun: a game, a chunk."""

    def take(self) -> bytes:
        """The bytes that are done since the last call."""

    @property
    def entries(self) -> int: ...
    @property
    def changes(self) -> list[tuple[str, int]]:
        """what was written otherwise than the entries have it, in words, and of how many of them"""

class RescoringWriter(EntryWriter):
    """Hands entries on to another writer, with scores of a list's."""

    def __init__(
        self,
        writer: EntryWriter,
        scores: Annotated[NDArray[numpy.int16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """scores: int16, of the side to move; one for each entry that is added."""

    @property
    def used(self) -> int:
        """scores handed on"""

class ChosenWriter(EntryWriter):
    """Hands entries on to a writer by their numbers."""

    def __init__(
        self,
        writer: EntryWriter,
        chosen: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """Entry i if chosen[i] is not 0; uint8."""

class Codec:
    """A format of positions, both ways."""

    def make_writer(self) -> EntryWriter: ...
    def begins_a_file(self, head: bytes) -> bool:
        """Whether these bytes, which may end anywhere, begin a file of the format."""

    def first_piece(self, bytes: bytes, begin: int, last: bool) -> int:
        """Bytes of the chunk that these begin with, cut as a file's are, or more than are there; 0 if it takes more to know. last: none follow."""

    @property
    def enough(self) -> int:
        """bytes by which that is known of most chunks"""

    @property
    def has_games(self) -> bool: ...
    @property
    def keeps_games(self) -> bool:
        """a unit is what is left of a game, not a single position"""

    @property
    def unit(self) -> str:
        """record, line, game or chain"""

class EntryFile:
    """The chunks of a file of positions; usable by any number of threads."""

    @property
    def size(self) -> int:
        """bytes"""

    @property
    def change(self) -> str:
        """what is different now from the file that was opened; empty: nothing"""

    @property
    def num_chunks(self) -> int: ...
    @property
    def is_packed(self) -> bool:
        """compressed: decoded in the order of the file"""

    @property
    def useless(self) -> object:
        """a fault, as ChunkWalk has it, if there is nothing good before it; which is known without reading on"""

    @property
    def whole_size(self) -> int:
        """bytes up to the end of the last whole record, line or game"""

    @property
    def borders(self) -> list[int] | None:
        """of a plain file of games: where chunks begin, and where the last one ends"""

    def offset(self, chunk: int) -> int:
        """Bytes of the file before the chunk, about."""

def open_entries(
    codec: Codec,
    path: str | os.PathLike[str],
    identity: tuple[int, int, int, tuple[int, int] | None] | None = None,
    may_grow: bool = False,
    needs_ply: bool = False,
    borders: Sequence[int] | None = None,
    on_illegal: str | None = None,
    every: bool = False,
) -> EntryFile:
    """A file of positions. Raises DataError if it can't be read at all. `identity`: (size, device, inode, modified)
    of loader.files.identity; another file is a DataError, here and when a chunk is read.
    needs_ply: an entry whose ply is unknown is damage. borders: as EntryFile.borders gave them.
    on_illegal: None keeps positions that no game can have, "stop" takes them for damage, "skip" leaves them
    out. With `every` each position is judged, else of a game the first.
    """

def hold_entries(
    codec: Codec,
    name: str | os.PathLike[str],
    bytes: bytes,
    begin: int,
    first_unit: int,
    needs_ply: bool = False,
    on_illegal: str | None = None,
    every: bool = False,
) -> EntryFile:
    """A piece of what comes out of a pipe, as a file of one chunk; begin, first_unit: bytes and records, lines or games before it."""

def count_units(codec: Codec, bytes: bytes) -> int:
    """Records, lines or games of a piece."""

class ChunkWalk:
    """The entries of a chunk. Not for two threads at once."""

    def __init__(self, file: EntryFile, chunk: int) -> None: ...
    def lines(self, limit: int) -> bytes:
        """Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage."""

    def records(self, limit: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
        """Up to `limit` more entries as records (record.h), uint8 [entries, 32]."""

    def count(self) -> int:
        """How many more there are, up to damage."""

    def rewind(self) -> None:
        """Begins again, without reading the file."""

    def copy_to(self, writer: EntryWriter) -> object:
        """Adds all more entries to the writer. The fault, if any, or None."""

    @property
    def illegal(self) -> list[tuple[str, int, int | None, str]]:
        """left out so far: (what, how many, offset of the first, its place in words)"""

    @property
    def units(self) -> int:
        """records, lines or games begun"""

    @property
    def fault(self) -> object:
        """behind what was read: (file, reason, offset or None, "damaged", "changed" or "unreadable")"""

def decode_units(
    codec: Codec, bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
    """The entries of whole records or lines as records (record.h), uint8 [entries, 32], up to damage."""

class FileReader(PositionReader):
    """Files of one format for the stream."""

    def __init__(self, files: Sequence[EntryFile]) -> None: ...

class TableWriter(EntryWriter):
    """Keeps entries as rows of a table."""

    def __init__(self, keeps_records: bool = False) -> None: ...
    def take_rows(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 80), order="C")]:
        """Those since the last call (chess/native/table/table.h), uint8 [entries, 80]."""

    def take_records(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
        """With keeps_records: the same as records (record.h), uint8 [entries, 32]."""

def add_rows(
    writer: EntryWriter,
    rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, 80), order="C", device="cpu", writable=False)],
) -> object:
    """Adds rows [rows, 80] to a writer. None; or the number of the first that is no entry or that its format can't hold, and why: those before it have been added."""

class Census(EntryWriter):
    """Counts entries. Not for two threads at once."""

    def __init__(self, keeps_records: bool = False, most_keys: int = 65536) -> None:
        """most_keys: different positions that are held to estimate how many there are."""

    def take_records(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
        """With keeps_records: those added before the last `finish` (record.h), uint8 [entries, 32]."""

    def add_census(self, other: Census) -> None:
        """What the other one has counted."""

    @property
    def white_to_move(self) -> int: ...
    @property
    def in_check(self) -> int: ...
    @property
    def captures(self) -> int:
        """moves onto an enemy piece: not en passant"""

    @property
    def no_move(self) -> int: ...
    @property
    def move_types(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """normal, promotion, castling, en passant"""

    @property
    def piece_counts(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by number of pieces, 0 to 32"""

    @property
    def phases(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by phase, 0 to 24"""

    @property
    def materials(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by material of both sides"""

    @property
    def own_kings(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by square, as the side to move sees the board"""

    @property
    def opponent_kings(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by square, in the same view"""

    @property
    def scores(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order="C", writable=False)]:
        """[3, 65536]: lost, drawn, won by the side to move; by score + 32768"""

    @property
    def plies(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """by ply"""

    @property
    def score_plies(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order="C", writable=False)]:
        """[160, 31]: by score in steps of 25 from -2000 on, by ply in steps of 8"""

    @property
    def lengths(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)]:
        """games and chains by their entries; 65535: that and more"""

    @property
    def one_in(self) -> int:
        """of so many different positions one is in the sample"""

    @property
    def sampled(self) -> int:
        """entries in the sample"""

    @property
    def different(self) -> int:
        """different positions in the sample"""

def read_units(file: EntryFile, chunk: int) -> object:
    """The records, lines or games of a chunk, each decoded once: bytes, ends, entries, fault."""

def cut_units(
    codec: Codec, bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
) -> object:
    """Those of a whole file that a writer has written."""

def first_entries(
    codec: Codec,
    bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    begins: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, 32), order="C")]:
    """The first entry of each unit as a record (record.h), uint8 [units, 32]; zeros for a game without moves."""

def gather_units(
    bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    begins: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ends: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> object:
    """Units `order`, one behind the other, uint8."""

def units_into_buckets(
    blocks: Sequence[
        tuple[
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
            Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
            Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
            Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        ]
    ],
    shift: int,
) -> object:
    """Blocks of (bytes, ends, entries, draws) as drawn units in 256 buckets, by the bits of the draws from
    `shift` on: bytes, and where each bucket begins, uint64 [257]. A drawn unit has a header of 16 bytes.
    """

def drawn_into_buckets(
    drawn: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)], shift: int
) -> object:
    """The same of drawn units one behind the other."""

def places_by_draw(
    drawn: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> object:
    """Where each drawn unit begins, by ascending draws, equal ones in the order of the input."""

def drawn_units_at(
    drawn: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    places: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> object:
    """The units at these places, in that order: bytes, ends, entries, None."""

class KeyWriter(EntryWriter):
    """Takes the keys of entries' positions."""

    def __init__(self) -> None: ...
    def take_keys(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, 4), order="C")]:
        """Those since the last call, uint64 [entries, 4]: the same if and only if the positions are, but for the
        last word's bits from 24 on, which are 0 and free.
        """

def hash_keys(
    keys: Annotated[NDArray[numpy.uint64], dict(shape=(None, 4), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C")]:
    """Of each, uint64; free bits do not count."""

def first_of_keys(
    keys: Annotated[NDArray[numpy.uint64], dict(shape=(None, 4), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C")]:
    """1 for each that none before is the same as, else 0; uint8. Fewer than 2^32."""

class PythonReader(PositionReader):
    """A reader written in Python."""

    def __init__(self, reader: object) -> None:
        """`reader`: num_chunks, name, read(chunk) -> (uint8 [entries, 32], fault or None), of which a fault is
        (file, reason, offset or None, "damaged", "changed" or "unreadable"). It must not raise.
        """

class LabelKind(enum.Enum):
    """Which labels rows have; see loader.rows.settings."""

    REAL = 0

    BINARY = 1

    CLASS = 2

    NONE = 3

class RowField:
    """Features begin .. end - 1 of all, with a table of their own."""

    def __init__(self, name: str, begin: int, end: int, values: bool, max_active: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def values(self) -> bool: ...
    @property
    def max_active(self) -> int: ...

class RowShape:
    """What a row has; see loader.rows.fields."""

    def __init__(self) -> None: ...
    @property
    def label(self) -> LabelKind: ...
    @label.setter
    def label(self, arg: LabelKind, /) -> None: ...
    @property
    def num_classes(self) -> int: ...
    @num_classes.setter
    def num_classes(self, arg: int, /) -> None: ...
    @property
    def dense(self) -> list[str]:
        """names of the float32 numbers; the label first, then the weight if any"""

    @dense.setter
    def dense(self, arg: Sequence[str], /) -> None: ...
    @property
    def weight(self) -> bool: ...
    @weight.setter
    def weight(self, arg: bool, /) -> None: ...
    @property
    def qid(self) -> bool: ...
    @qid.setter
    def qid(self, arg: bool, /) -> None: ...
    @property
    def fields(self) -> list[RowField]:
        """in the order of their numbers"""

    @fields.setter
    def fields(self, arg: Sequence[RowField], /) -> None: ...
    @property
    def order(self) -> list[int]:
        """place in `fields` of each field of the schema"""

    @order.setter
    def order(self, arg: Sequence[int], /) -> None: ...
    @property
    def first_number(self) -> int: ...
    @first_number.setter
    def first_number(self, arg: int, /) -> None: ...

class RowReader:
    """Files of one format, in chunks of rows."""

    @property
    def num_chunks(self) -> int: ...
    @property
    def name(self) -> str:
        """of the files, for messages"""

    @property
    def in_file_order(self) -> bool:
        """its chunks are not permuted"""

class RowSource(Source):
    """Rows of any formats."""

    def __init__(
        self,
        readers: Sequence[RowReader],
        shape: RowShape,
        batch_size: int,
        slot_bytes: int,
        regions: Mapping[str, tuple[int, int, int]],
    ) -> None:
        """regions: name -> (offset, count, item size), of loader.schema."""

def read_rows(
    reader: RowReader, chunk: int, shape: RowShape
) -> tuple[
    list[Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")]],
    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C")] | None,
    list[
        tuple[
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C")],
            Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")] | None,
        ]
    ],
    tuple[str, str, int | None, str] | None,
]:
    """A chunk's rows up to any fault: dense numbers, qid or None, (offsets, features, values or None) of each
    field, and (file, reason, offset or None, "damaged", "changed" or "unreadable") or None.
    """

def count_rows(reader: RowReader, chunk: int, shape: RowShape) -> int:
    """Rows of a chunk, up to any fault."""

def xxh64(text: bytes, seed: int) -> int:
    """XXH64 of the bytes."""

class LineFile:
    """The pieces of a file of lines, compressed or not."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: tuple[int, int, int, tuple[int, int] | None] | None = None,
        may_grow: bool = False,
    ) -> None:
        """Raises DataError if the file can't be read at all. `identity`: as for open_entries."""

    @property
    def size(self) -> int:
        """bytes"""

    @property
    def num_chunks(self) -> int: ...
    @property
    def is_packed(self) -> bool:
        """compressed: decoded in the order of the file"""

    @property
    def whole_size(self) -> int:
        """bytes up to the end of the last whole line"""

    def offset(self, chunk: int) -> int:
        """Bytes of the file before the chunk, about."""

    def text(self, chunk: int) -> bytes:
        """Whole lines; those before a fault."""

    def first_line(self) -> bytes:
        """Without its line feed. Raises DataError."""

class PythonRowReader(RowReader):
    """A reader written in Python."""

    def __init__(self, reader: object) -> None:
        """`reader`: num_chunks, name, read(chunk) -> (blocks, fault or None, file, place). A block: (rows, float32 arrays of
        the dense numbers, int64 array of qids or None, (int64 offsets, int64 features, float32 values or None)
        of each field). A fault: (file, reason, offset or None, "damaged", "changed" or "unreadable"). It
        must not raise.
        """

def binpack() -> Codec:
    """The format of this name, both ways."""

class BinpackWriter(EntryWriter):
    """What the codec's make_writer gives."""

    @property
    def chains(self) -> int: ...
    @property
    def chunks(self) -> int: ...

def bulletformat() -> Codec:
    """The format of this name, both ways."""

def marlinformat() -> Codec:
    """The format of this name, both ways."""

def montyvalue() -> Codec:
    """The format of this name, both ways."""

def packedsfen() -> Codec:
    """The format of this name, both ways."""

def text() -> Codec:
    """The format of this name, both ways."""

def viriformat() -> Codec:
    """The format of this name, both ways."""

class CsvCut:
    """How lines are cut into columns."""

    def __init__(self, delimiter: str, quote: str, header: bool) -> None:
        """quote: empty for none"""

    def split(self, line: bytes) -> list[bytes]:
        """The texts of a line, without its line feed. Raises ValueError: which byte."""

class CsvColumns:
    """Which columns of a file are what; see loader.rows.formats.csv.table."""

    def __init__(self, cut: CsvCut) -> None: ...
    @property
    def cut(self) -> CsvCut: ...
    @property
    def width(self) -> int: ...
    @width.setter
    def width(self, arg: int, /) -> None: ...
    @property
    def dense(self) -> list[int]:
        """in the order of the shape"""

    @dense.setter
    def dense(self, arg: Sequence[int], /) -> None: ...
    @property
    def qid(self) -> int | None: ...
    @qid.setter
    def qid(self, arg: int | None, /) -> None: ...
    @property
    def fields(self) -> list[list[int]]:
        """of each field of the shape"""

    @fields.setter
    def fields(self, arg: Sequence[Sequence[int]], /) -> None: ...
    @property
    def seed(self) -> int: ...
    @seed.setter
    def seed(self, arg: int, /) -> None: ...
    @property
    def missing(self) -> list[str]: ...
    @missing.setter
    def missing(self, arg: Sequence[str], /) -> None: ...
    @property
    def missing_number(self) -> float: ...
    @missing_number.setter
    def missing_number(self, arg: float, /) -> None: ...
    @property
    def missing_is_feature(self) -> bool: ...
    @missing_is_feature.setter
    def missing_is_feature(self, arg: bool, /) -> None: ...

class CsvReader(RowReader):
    """Text files with columns, for the stream."""

    def __init__(self, files: Sequence[LineFile], columns: Sequence[CsvColumns], shape: RowShape) -> None:
        """`columns`: of each file; `shape`: of the rows that will be read."""

class SvmlightReader(RowReader):
    """Svmlight files for the stream."""

    def __init__(self, files: Sequence[LineFile]) -> None: ...
