"""Reads and writes state.json, the part of a checkpoint that is no tensor.

The first line holds the format's number and the SHA-256 of all lines after it, so that every flipped bit is noticed.
Free of torch, because the supervisor reads at which step a run resumes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from loader.files.identity import DataFile
from loader.stream.interface import Cursor
from pool.checkpoint import tensor_file
from pool.checkpoint.migrations import with_new_names
from pool.checkpoint.overrides import Override
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.tensor_file import FileSums, Header
from pool.checkpoint.validations import LOWEST_LOSS, NONE, Goal, Validations
from pool.errors import CheckpointError, DamagedCheckpointError
from pool.run_folder import files, strict_json

T = TypeVar("T")

FORMAT = 4
_READ = (3, FORMAT)  # 3 has no validation files, no validations, and no sums of chunks
FOLDER = "checkpoints"
LAST = "last"
BEST = "best"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
AVERAGE = "average.safetensors"  # the averaged weights, if the run has any yet
CHUNK_SUMS = "chunk-sums.safetensors"  # a uint64 for each chunk of each stream, if the source compares its chunks
STATE = "state.json"
LARGEST = (1 << 63) - 1  # largest count in a state
LONGEST_STATE = 1 << 26  # bytes of state.json, of which each MiB of tensors takes 70 for a checksum
_FIRST_LINE = re.compile(rb'\{"format": (\d{1,9}), "sha256": "([0-9a-f]{64})",')


def _complete(cursor: object) -> object:
    """Raises ValueError if a number of the cursor is missing in a file: missing does not mean 0."""
    missing = {field.name for field in fields(Cursor)} - set(cursor) if isinstance(cursor, dict) else set[str]()
    if missing:
        raise ValueError(f"it has no {min(missing)}")
    return cursor


def _in_range(cursor: Cursor) -> Cursor:
    """Raises ValueError if a number of the cursor is negative or too large."""
    if not all(0 <= number <= LARGEST for number in astuple(cursor)):
        raise ValueError(f"numbers of 0 to {LARGEST} are expected")
    return cursor


def _all_files(sums: Mapping[str, FileSums]) -> Mapping[str, FileSums]:
    """Raises ValueError if the files of a checkpoint are not those that a run writes."""
    if sums.keys() - {CHUNK_SUMS, AVERAGE} != {WEIGHTS, OPTIMIZER}:
        raise ValueError(f"{WEIGHTS} and {OPTIMIZER} are expected")
    return sums


Count = Annotated[int, Field(ge=0, le=LARGEST)]


@dataclass(frozen=True)
class OptimizerNumbers:
    """The state of optimizers and schedules that is not in tensors. A bucket is a set of parameters stepped
    together."""

    numbers: Mapping[str, Mapping[str, Any]]  # of each parameter that has been stepped, by name
    groups: Sequence[Sequence[Mapping[str, Any]]] | None  # of each bucket's optimizer; None: as in the settings
    schedulers: Sequence[Mapping[str, Any]]  # of each bucket, if there is a schedule and `groups`
    overrides: Sequence[Override] = ()  # values changed by `--override`, in the order of their steps
    plateaus: tuple[Plateau, ...] = ()  # of each member
    entries: Sequence[Mapping[str, Any]] = field(
        default_factory=list
    )  # further entries of each bucket optimizer's state_dict; empty: none has any

    @classmethod
    def of(cls, plain: Mapping[str, Any], plateaus: tuple[Plateau, ...] = ()) -> OptimizerNumbers:
        """Makes the numbers from a plain dictionary as `BucketOptimizers.state` returns it."""
        overrides = tuple(Override(**entry) for entry in plain["overrides"])
        return cls(plain["numbers"], plain["groups"], plain["schedulers"], overrides, plateaus, plain["entries"])

    def plain(self) -> dict[str, Any]:
        """Returns the numbers as a plain dictionary, from which `of` makes them again. Nested values are not copied."""
        overrides = [asdict(override) for override in self.overrides]
        return {**vars(self), "overrides": overrides, "plateaus": [asdict(plateau) for plateau in self.plateaus]}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Properties of a run that do not change from step to step, and that a resume compares with its own."""

    config: Mapping[str, Any]  # of the run, resolved
    fingerprint: Mapping[str, str]  # everything that the run's bits depend on, by name
    data: Sequence[tuple[str, Count]]  # name and bytes of each training file, in order
    mixture: Sequence[tuple[Count, float]] = ()  # files and share of each entry of data.train, if they have shares
    scales: Sequence[tuple[Count, float]] = ()  # number of training files and their score_scale, if any has one
    validation: Sequence[tuple[str, Count]] = ()  # as `data`, of the validation files
    validation_digests: Sequence[str] = ()  # digest of the content of each validation file; empty in older checkpoints
    goal: Goal = LOWEST_LOSS  # the validation metric that chooses the best checkpoint
    # tied weights: further name of a tensor -> its name in the run; files have the tensor under all its names
    tied: Mapping[str, str] = field(default_factory=dict)
    transient: Sequence[str] = ()  # buffers with persistent=False, which the model's state_dict omits


@dataclass(frozen=True)
class MemberState:
    """The state of an ensemble's member (one network) that controls its training, beside its optimizer and
    validations."""

    frozen_at: Count | None = None  # step after which the member is not trained any more
    unused: Count = 0  # batches in a row that it could not use; 0 after a good step


@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state that changes with each step, without the tensors.

    It is stored on disk (`SavedState`), in shared memory (`snapshot.Snapshot`) and together with tensors
    (`store.Checkpoint`).
    """

    step: Count  # steps done; version of the weights
    cursor: Annotated[Cursor, BeforeValidator(_complete), AfterValidator(_in_range)]  # where the next step begins
    optimizer: OptimizerNumbers
    validations: Validations = NONE
    members: tuple[MemberState, ...] = ()  # empty in old checkpoints: one member in its initial state
    averaged: Count = 0  # number of versions of the weights in their average


@dataclass(frozen=True, kw_only=True)
class SavedState(RunState, RunFacts):
    """The content of state.json. Reading it validates types, names and ranges by this schema."""

    files: Annotated[Mapping[str, FileSums], AfterValidator(_all_files)]
    # Text in the network file that the weights were read from, "" if there was none. It need not be UTF-8, so its bytes
    # are decoded as Latin-1.
    description: Annotated[str, Field(pattern=r"^[\x00-\xff]*$")] = ""


_SCHEMA = TypeAdapter(SavedState)


def fields_of(kind: type[RunState | RunFacts], state: RunState | RunFacts) -> dict[str, Any]:
    """Returns the fields of `state` that the class `kind` declares, as arguments for another class with these
    fields."""
    return {field.name: getattr(state, field.name) for field in fields(kind)}


def describe_data(
    train: Sequence[DataFile], validation: Sequence[DataFile], validation_digests: Sequence[str]
) -> dict[str, Any]:
    """Returns the fields of RunFacts that describe a run's training and validation files."""
    return {
        "data": describe_files(train),
        "mixture": describe_mixture(train),
        "scales": describe_scales(train),
        "validation": describe_files(validation),
        "validation_digests": validation_digests,
    }


def same_validation(saved: RunFacts, files: Sequence[DataFile], digests: Sequence[str]) -> bool:
    """Returns whether a run validates on the same data as the run of a saved checkpoint.

    Compared are the digests of the files' content, so that files may be moved or renamed. Older checkpoints have no
    digests, and names and sizes are compared.
    """
    if saved.validation_digests and digests:
        return list(saved.validation_digests) == list(digests)
    return [(str(name), int(size)) for name, size in saved.validation] == describe_files(files)


def describe_files(files: Sequence[DataFile]) -> list[tuple[str, int]]:
    """Returns name and bytes of each file, for RunFacts.data. Files that differ in these are other data."""
    return [(file.path.name, file.size) for file in files]


def describe_mixture(files: Sequence[DataFile]) -> list[tuple[int, float]]:
    """Returns number of files and share of each entry of data.train, for RunFacts.mixture.

    They are part of a run's facts because other shares make other batches.
    """
    groups = groupby(file.component for file in files if file.component is not None)
    return [(len(list(group)), component.share) for component, group in groups]


def describe_scales(files: Sequence[DataFile]) -> list[tuple[int, float]]:
    """Returns the score scales of training files, for RunFacts.scales: pairs of a number of consecutive files and a
    scale.

    Returns an empty list if all scales are 1. They are part of a run's facts because other scores make other
    batches.
    """
    scales = [(len(list(group)), scale) for scale, group in groupby(file.score_scale for file in files)]
    return [] if all(scale == 1.0 for _, scale in scales) else scales


def encode_state(state: SavedState) -> bytes:
    """Returns the bytes of state.json. Raises ValueError or TypeError if the state contains what is not plain data."""
    rest = json.dumps(asdict(state), indent=1)[2:].encode() + b"\n"  # without the first brace and line end
    first = f'{{"format": {FORMAT}, "sha256": "{hashlib.sha256(rest).hexdigest()}",\n'
    return first.encode() + rest


def read_state(checkpoint: Path) -> SavedState:
    """Reads and validates the state.json of a checkpoint. Names of earlier versions are translated to today's.

    Raises DamagedCheckpointError if the bytes are not those that were written, or the file is missing. Raises
    CheckpointError, with file and field, if the content is invalid or of another format. Raises OSError if the file
    can't be opened for another reason, such as a permission.
    """
    path = checkpoint / STATE
    with _damage(path):
        content = files.read_all(path, LONGEST_STATE)
    first, _, rest = content.partition(b"\n")
    line = _FIRST_LINE.fullmatch(first)
    if line is None:
        raise DamagedCheckpointError(f"{path}: is damaged or no checkpoint: its first line is not that of a checkpoint")
    if int(line[1]) not in _READ:
        raise CheckpointError(f"{path}: format {int(line[1])}; this version reads {' and '.join(map(str, _READ))}")
    if hashlib.sha256(rest).hexdigest().encode() != line[2]:
        begin = len(first) + 1
        raise DamagedCheckpointError(
            f"{path}: is damaged: bytes {begin} to {begin + len(rest)} differ from what was written"
        )
    text = b"{" + rest
    strict_json.parse(text, path)
    try:
        state = _SCHEMA.validate_json(text, strict=True)
    except ValidationError as error:
        raise strict_json.foreign_content_error(path, strict_json.describe_validation_error(error)) from None
    known = state.validations
    for name, validation in (("newest", known.newest), ("best", known.best), ("record", known.record)):
        if validation is not None and validation.step > state.step:
            raise strict_json.foreign_content_error(
                path, f"validations.{name}.step: {validation.step} is after step {state.step}"
            )
    for number, member in enumerate(state.members):
        if member.frozen_at is not None and member.frozen_at > state.step:
            raise strict_json.foreign_content_error(
                path, f"members.{number}.frozen_at: {member.frozen_at} is after step {state.step}"
            )
    if state.members and all(member.frozen_at is not None for member in state.members):
        raise strict_json.foreign_content_error(path, "members: none is trained any more; a run ends before that")
    return replace(state, config=with_new_names(state.config))


def verify(checkpoint: Path) -> SavedState:
    """Reads all files of a checkpoint and compares them with their checksums. Returns the state.

    Raises as `read_state`, for a damaged tensor with its name and byte range.
    """
    state = read_state(checkpoint)
    for name in state.files:
        verify_tensors(checkpoint, state, name)
    return state


def verify_tensors(checkpoint: Path, state: SavedState, name: str) -> Header:
    """Reads one file of tensors and compares it with its checksums. Returns the file's header.

    A tensor with several names is in the header once, under its first name. Raises as `verify`.
    """
    with _damage(checkpoint / name):
        return without_tied_names(tensor_file.verify(checkpoint / name, state.files[name]), state)


def read_header(checkpoint: Path, state: SavedState, name: str) -> Header:
    """Returns names, dtypes and shapes of the tensors in one file, without reading the tensors. Raises as `verify`."""
    with _damage(checkpoint / name):
        return without_tied_names(tensor_file.read_header(checkpoint / name, state.files[name]), state)


def without_tied_names(named: Mapping[str, T], facts: RunFacts) -> dict[str, T]:
    """Returns `named` without the further names of tensors that have several (tied weights)."""
    return {name: value for name, value in named.items() if name not in facts.tied}


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Translates the operating system's errors at a file of a checkpoint.

    A missing file, or one that the disk can't read, becomes DamagedCheckpointError. What is no regular file, or too
    large, becomes CheckpointError. Other errors (no permission, memory or descriptor) stay OSError: they do not show
    that the file is bad, and are no reason to resume from an older checkpoint.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO):
            raise DamagedCheckpointError(f"{path}: {error.strerror}") from None
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EFBIG):
            what = error.strerror if error.errno == errno.EFBIG else "is not a regular file"
            raise CheckpointError(f"{path}: {what}; no run of sparsepool has written it like this") from None
        raise
