"""The plain part of a checkpoint, state.json. Free of torch: the supervisor reads where a run goes on.

The first line holds the format and the SHA-256 of all lines after it, so that no flipped bit goes unnoticed.
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
AVERAGE = "average.safetensors"  # the averaged weights, if the run has them by then
CHUNK_SUMS = "chunk-sums.safetensors"  # a word a chunk of each stream, if the source compares its chunks
STATE = "state.json"
LARGEST = (1 << 63) - 1  # of a count
LONGEST_STATE = 1 << 26  # bytes of state.json; 70 of them are a checksum of a MiB of tensors
_FIRST_LINE = re.compile(rb'\{"format": (\d{1,9}), "sha256": "([0-9a-f]{64})",')


def _complete(cursor: object) -> object:
    """A file that says nothing of one of the numbers does not mean 0."""
    missing = {field.name for field in fields(Cursor)} - set(cursor) if isinstance(cursor, dict) else set[str]()
    if missing:
        raise ValueError(f"it has no {min(missing)}")
    return cursor


def _in_range(cursor: Cursor) -> Cursor:
    if not all(0 <= number <= LARGEST for number in astuple(cursor)):
        raise ValueError(f"numbers of 0 to {LARGEST} are expected")
    return cursor


def _all_files(sums: Mapping[str, FileSums]) -> Mapping[str, FileSums]:
    if sums.keys() - {CHUNK_SUMS, AVERAGE} != {WEIGHTS, OPTIMIZER}:
        raise ValueError(f"{WEIGHTS} and {OPTIMIZER} are expected")
    return sums


Count = Annotated[int, Field(ge=0, le=LARGEST)]


@dataclass(frozen=True)
class OptimizerNumbers:
    """The part of optimizer and schedule that is no tensor."""

    numbers: Mapping[str, Mapping[str, Any]]  # of each parameter that has been stepped, by name
    groups: Sequence[Sequence[Mapping[str, Any]]] | None  # of each bucket's optimizer; None: as the settings say
    schedulers: Sequence[Mapping[str, Any]]  # of each bucket, if there is a schedule; with groups alone
    overrides: Sequence[Override] = ()  # what was changed by hand, in the order of the steps
    plateaus: tuple[Plateau, ...] = ()  # of each member
    entries: Sequence[Mapping[str, Any]] = field(
        default_factory=list
    )  # of each bucket, beside torch's in its state_dict; empty: none

    @classmethod
    def of(cls, plain: Mapping[str, Any], plateaus: tuple[Plateau, ...] = ()) -> OptimizerNumbers:
        """`plain`: as `BucketOptimizers.state` has it."""
        overrides = tuple(Override(**entry) for entry in plain["overrides"])
        return cls(plain["numbers"], plain["groups"], plain["schedulers"], overrides, plateaus, plain["entries"])

    def plain(self) -> dict[str, Any]:
        """The inverse of `of`. Nothing is copied."""
        overrides = [asdict(override) for override in self.overrides]
        return {**vars(self), "overrides": overrides, "plateaus": [asdict(plateau) for plateau in self.plateaus]}


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Facts of a run that stay as they are from step to step, and must fit when it goes on."""

    config: Mapping[str, Any]  # of the run, resolved
    fingerprint: Mapping[str, str]  # of what the run's bits depend on
    data: Sequence[tuple[str, Count]]  # name and bytes of each training file, in order
    mixture: Sequence[tuple[Count, float]] = ()  # files and share of each entry of data.train, if they have shares
    scales: Sequence[tuple[Count, float]] = ()  # number of training files and their score_scale, if any has one
    validation: Sequence[tuple[str, Count]] = ()  # as `data`, of the validation files
    validation_digests: Sequence[str] = ()  # of the content of each; empty in older checkpoints
    goal: Goal = LOWEST_LOSS  # which number of a validation the run goes by
    # further names of tensors, each with the one that the run knows it by; files have it under all of them
    tied: Mapping[str, str] = field(default_factory=dict)
    transient: Sequence[str] = ()  # buffers that the model's own state_dict leaves out (persistent=False)


@dataclass(frozen=True)
class MemberState:
    """The state that steers a member's training, beside its optimizer and validations."""

    frozen_at: Count | None = None  # the step since which it is trained no further
    unused: Count = 0  # batches of its last steps, where it has lost all of them


@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state that each step changes, but for the tensors: on disk (`SavedState`), in memory (`snapshot.Snapshot`),
    and with tensors (`store.Checkpoint`)."""

    step: Count  # steps done; version of the weights
    cursor: Annotated[Cursor, BeforeValidator(_complete), AfterValidator(_in_range)]  # of the next step's first batch
    optimizer: OptimizerNumbers
    validations: Validations = NONE
    members: tuple[MemberState, ...] = ()  # empty in checkpoints from before there were any: one, as it begins
    averaged: Count = 0  # versions of the weights that are in their average


@dataclass(frozen=True, kw_only=True)
class SavedState(RunState, RunFacts):
    """The content of state.json. A file is read by this schema: other types, names or ranges are refused."""

    files: Annotated[Mapping[str, FileSums], AfterValidator(_all_files)]
    # Text that files of this network carry if it was read from one, its bytes as Latin-1: it need not be UTF-8.
    description: Annotated[str, Field(pattern=r"^[\x00-\xff]*$")] = ""


_SCHEMA = TypeAdapter(SavedState)


def fields_of(kind: type[RunState | RunFacts], state: RunState | RunFacts) -> dict[str, Any]:
    """Returns those fields of a state that are of this kind, to make a state of another class of them."""
    return {field.name: getattr(state, field.name) for field in fields(kind)}


def describe_data(
    train: Sequence[DataFile], validation: Sequence[DataFile], validation_digests: Sequence[str]
) -> dict[str, Any]:
    """Returns the fields of RunFacts that describe a run's data."""
    return {
        "data": describe_files(train),
        "mixture": describe_mixture(train),
        "scales": describe_scales(train),
        "validation": describe_files(validation),
        "validation_digests": validation_digests,
    }


def same_validation(saved: RunFacts, files: Sequence[DataFile], digests: Sequence[str]) -> bool:
    """Tells whether a run's validation files have the content of those before, wherever they lie and whatever they are
    called; of a checkpoint that has no digests, whether they have the same names and sizes."""
    if saved.validation_digests and digests:
        return list(saved.validation_digests) == list(digests)
    return [(str(name), int(size)) for name, size in saved.validation] == describe_files(files)


def describe_files(files: Sequence[DataFile]) -> list[tuple[str, int]]:
    """Describes files for RunFacts.data: other names or sizes are other data."""
    return [(file.path.name, file.size) for file in files]


def describe_mixture(files: Sequence[DataFile]) -> list[tuple[int, float]]:
    """Describes the shares of files for RunFacts.mixture: other shares make other batches."""
    groups = groupby(file.component for file in files if file.component is not None)
    return [(len(list(group)), component.share) for component, group in groups]


def describe_scales(files: Sequence[DataFile]) -> list[tuple[int, float]]:
    """Returns what RunFacts.scales says of them: other scores make other batches."""
    scales = [(len(list(group)), scale) for scale, group in groupby(file.score_scale for file in files)]
    return [] if all(scale == 1.0 for _, scale in scales) else scales


def encode_state(state: SavedState) -> bytes:
    """Raises ValueError or TypeError if something in it is not plain data."""
    rest = json.dumps(asdict(state), indent=1)[2:].encode() + b"\n"  # without the brace and line end it begins with
    first = f'{{"format": {FORMAT}, "sha256": "{hashlib.sha256(rest).hexdigest()}",\n'
    return first.encode() + rest


def read_state(checkpoint: Path) -> SavedState:
    """Raises CheckpointError that names file and field, DamagedCheckpointError if the bytes are not those that were
    written; OSError if nothing can be said about it."""
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
        raise strict_json.not_ours(path, strict_json.explained(error)) from None
    known = state.validations
    for name, validation in (("newest", known.newest), ("best", known.best), ("record", known.record)):
        if validation is not None and validation.step > state.step:
            raise strict_json.not_ours(path, f"validations.{name}.step: {validation.step} is after step {state.step}")
    for number, member in enumerate(state.members):
        if member.frozen_at is not None and member.frozen_at > state.step:
            raise strict_json.not_ours(
                path, f"members.{number}.frozen_at: {member.frozen_at} is after step {state.step}"
            )
    if state.members and all(member.frozen_at is not None for member in state.members):
        raise strict_json.not_ours(path, "members: none is trained any more; a run ends before that")
    return replace(state, config=with_new_names(state.config))


def verify(checkpoint: Path) -> SavedState:
    """Reads every byte. Raises as `read_state`, for a tensor with its name and byte range."""
    state = read_state(checkpoint)
    for name in state.files:
        verify_tensors(checkpoint, state, name)
    return state


def verify_tensors(checkpoint: Path, state: SavedState, name: str) -> Header:
    """Reads every byte of one of the files, and says what its header says, of further names nothing. Raises as
    `verify`."""
    with _damage(checkpoint / name):
        return known_once(tensor_file.verify(checkpoint / name, state.files[name]), state)


def read_header(checkpoint: Path, state: SavedState, name: str) -> Header:
    """Names, dtypes and shapes of the tensors in one of the files, which is not read further. Raises as `verify`."""
    with _damage(checkpoint / name):
        return known_once(tensor_file.read_header(checkpoint / name, state.files[name]), state)


def known_once(named: Mapping[str, T], facts: RunFacts) -> dict[str, T]:
    """Leaves out what has the further names of a tensor."""
    return {name: value for name, value in named.items() if name not in facts.tied}


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """A file that is missing or that the disk can't give is damage. Other errors (no permission, no memory, no
    descriptor) say nothing about the file: no reason to go back to an older checkpoint."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO):
            raise DamagedCheckpointError(f"{path}: {error.strerror}") from None
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EFBIG):
            what = error.strerror if error.errno == errno.EFBIG else "is not a regular file"
            raise CheckpointError(f"{path}: {what}; no run of sparsepool has written it like this") from None
        raise
