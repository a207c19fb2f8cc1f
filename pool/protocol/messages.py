"""Every message there is, by link.

Rules. Orders and reports carry the sender's whole state as far as the addressee needs it, not a change to it. So the
next one makes up for a lost one, and a repeated one changes nothing (I5). Of one incarnation of a sender, a message
with a higher sequence number replaces earlier ones. Numbers of each member (network that is trained) are tuples.
Messages hold no bulk data, only which process owns which piece of shared memory (I4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from loader.stream.interface import Cursor
from loader.stream.left_out import LeftOut as LeftOutKind
from pool.metrics.feature_uses import UntrainedShare
from pool.metrics.medians import median_of
from pool.protocol.identity import Peer

Purpose = Literal["train", "validate"]
Saves = Literal["", "snapshot", "checkpoint"]


# --- any child -> supervisor, any child -> coordinator ---


@dataclass(frozen=True)
class Hello:
    """The sender is up and connected."""

    pid: int


@dataclass(frozen=True)
class Heartbeat:
    """The sender is alive; its loop has not moved for `still` seconds (0 while it waits for something to do)."""

    still: float


# --- numbers of validations, and of nets ---


@dataclass(frozen=True)
class MetricValue:
    """A number of a validation or of a step that the task has, or of a net that the user's command has."""

    name: str
    values: tuple[float, ...]  # one a member

    @property
    def value(self) -> float:
        """The median over members."""
        return median_of(self.values)


# --- supervisor -> every child ---


@dataclass(frozen=True)
class NetNumbers:
    """The numbers that the user's command prints for the nets of a step (`train.on_export`)."""

    step: int
    numbers: tuple[MetricValue, ...]


@dataclass(frozen=True)
class NetNews:
    """News of numbered nets, for the coordinator."""

    numbers: tuple[NetNumbers, ...] = ()  # that it has not said it has (`RunReport.noted`)
    settled: int = 0  # of nets of steps up to this, nothing is left to do


@dataclass(frozen=True)
class RosterEntry:
    role: str
    index: int
    incarnation: int
    pid: int  # messages of any other process are not taken for its own


@dataclass(frozen=True)
class MachineAddress:
    """A machine's coordinator of the same generation."""

    machine: int
    address: str  # where it is reached
    finished: bool = False  # nothing is left to do there: it has ended


@dataclass(frozen=True)
class Roster:
    """The processes that are alive. A missing one is dead, not merely silent: its memory may be given away (I4)."""

    alive: tuple[RosterEntry, ...]
    drain: bool  # finish the step, write a checkpoint, end
    nets: NetNews = NetNews()
    machines: tuple[MachineAddress, ...] = ()

    def pids(self) -> dict[Peer, int]:
        """Returns the pids of all that are alive."""
        return {Peer(entry.role, entry.index, entry.incarnation): entry.pid for entry in self.alive}


# --- coordinator -> supervisor ---


@dataclass(frozen=True)
class Shares:
    """The shares of the workers' time, as fractions of it; all 0 as long as nothing is known."""

    compute: float = 0.0  # forward and backward
    loader: float = 0.0  # waiting for batches
    reduce: float = 0.0  # waiting for weights while the coordinator adds gradients up
    optimizer: float = 0.0  # waiting for weights while it steps the optimizer
    machines: float = 0.0  # waiting for weights while all that is missing are other machines' shares of the step
    weights: float = 0.0  # waiting for weights for any other reason: other batches of the step, messages


@dataclass(frozen=True)
class RunReport:
    """The state of a run that its user sees."""

    step: int
    steps: int
    epoch: int
    samples_per_step: int
    samples: int  # trained on since this process of the run began
    seconds: float  # since the first step of this process
    losses: tuple[float, ...]  # of the newest step, one a member, NaN if it is frozen; empty before the first
    validation_losses: tuple[float, ...]  # empty before the first validation
    validation_step: int  # whose weights that is of
    learning_rate: float  # the median over members
    shares: Shares
    computed: float  # seconds that workers have spent on batches they have finished, validation's too
    checkpoint: int  # step of the newest checkpoint, -1: none
    finished: bool
    best_step: int = -1  # of the checkpoint that validated best, -1: none
    best_value: float = math.nan  # its number by which it is the best
    best_metric: str = "loss"  # the name of that number
    validation_metrics: tuple[MetricValue, ...] = ()  # the task's own, of the newest validation
    noted: int = -1  # the newest step whose nets' numbers are in the metrics
    waits_for_nets: bool = False  # nothing is left to do but to note them
    waits_for_disk: bool = False  # nothing is left to do but to write the last checkpoint, or metrics: there is no room
    unwritten: int = 0  # lines of the metrics that are not in their file
    address: str = ""  # where coordinators of other machines reach it
    stopped_elsewhere: bool = False  # the run ends with its newest step because another machine was told to stop

    @property
    def loss(self) -> float:
        """The median over members; NaN: none yet."""
        return median_of(self.losses)

    @property
    def validation_loss(self) -> float:
        """The median over members; NaN: none yet."""
        return median_of(self.validation_losses)


# --- coordinator or worker -> supervisor ---


@dataclass(frozen=True)
class Notice:
    """A text that the run's user has to know though the run goes on, in one line."""

    text: str


# --- coordinator -> feeder ---


@dataclass(frozen=True)
class StreamOrders:
    """Batch k lies in slot k mod slots. Batches below `freed` are done with: their slots are the feeder's."""

    generation: int  # a new one begins at `start`, forgetting all that was filled before
    start: Cursor
    freed: int


@dataclass(frozen=True)
class FeederOrders:
    train: StreamOrders
    validation: StreamOrders | None


# --- feeder -> coordinator ---


@dataclass(frozen=True)
class StreamReport:
    """Batches first .. first + len(cursors) - 2 are in their slots; batch first + i begins at cursors[i]."""

    generation: int
    first: int
    cursors: tuple[Cursor, ...]


@dataclass(frozen=True)
class FeederReport:
    train: StreamReport | None
    validation: StreamReport | None


# --- feeder -> supervisor ---


@dataclass(frozen=True)
class LeftOutData:
    """Counts by kind of what `data.on_bad_data = "skip"` has left out of a chunk. The feeder sends it when it has first
    read the chunk; receiving it again changes nothing."""

    purpose: Purpose
    chunk: int  # of all files of the stream
    kinds: tuple[LeftOutKind, ...]


@dataclass(frozen=True)
class UntrainedFeatures:
    """The share of a field's features in a validation that no batch of a whole pass over the training data has. The
    feeder sends it once it knows, its successor after a whole pass of its own; receiving it again changes nothing."""

    share: UntrainedShare


# --- coordinator -> worker ---


@dataclass(frozen=True, order=True)
class LeftOut:
    """The batch takes no part in this member's step."""

    batch: int
    member: int


@dataclass(frozen=True)
class Assignment:
    """Compute these batches with weights of version `step`, and add their gradients up in one slot, left to right."""

    purpose: Purpose
    step: int
    batches: tuple[int, ...]  # those of a group that count, ascending; when validating one
    gradient_slot: int  # of the addressee; -1 when validating
    attempt: int  # so that a report of an earlier one is never taken for this one's
    first: bool = False  # the first batch is its step's: the model's buffers after it go along with the gradients
    left_out: tuple[LeftOut, ...] = ()  # of these batches

    @property
    def batch(self) -> int:
        """The first, and when validating the only one."""
        return self.batches[0]


@dataclass(frozen=True)
class WorkerOrders:
    """All that is assigned to the addressee. What it holds beyond that it may forget."""

    version: int  # newest complete weights
    assignments: tuple[Assignment, ...]
    number: int = 0  # of these orders, from 1 on; later ones have higher numbers
    wants_answer: bool = False  # as soon as they are settled (`WorkerReport.settled`), for a batch was taken back
    frozen: tuple[int, ...] = ()  # members that are not trained any more: nothing of them is wanted


# --- worker -> coordinator ---


@dataclass(frozen=True)
class Outcome:
    """The outcome of one batch."""

    losses: tuple[float, ...]  # one a member: the mean over the batch's samples
    unsound: tuple[str, ...] = ()  # one a member: what is not finite, the loss or a parameter's gradient; "" if all is
    metrics: tuple[float, ...] = ()  # of a training batch that is measured: of each member all metrics


@dataclass(frozen=True)
class AssignmentReport:
    """How far an assignment is. A bucket that is listed lies complete in the gradient slot."""

    assignment: Assignment
    buckets: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()  # parameters that got no gradient from any batch, by index; known when finished
    outcomes: tuple[Outcome, ...] = ()  # one a batch, when it is finished

    @property
    def finished(self) -> bool:
        return bool(self.outcomes)


@dataclass(frozen=True)
class Times:
    """Seconds since the worker began, by what it did."""

    computing: float = 0.0
    waiting_for_batches: float = 0.0
    waiting_for_weights: float = 0.0


@dataclass(frozen=True)
class WorkerReport:
    """All that the worker has begun. What is finished and sound is signalled through shared memory before
    (`pool.shm.signals`)."""

    assignments: tuple[AssignmentReport, ...]
    times: Times
    settled: int = 0  # number of the newest orders with nothing in work that they no longer have


# --- coordinator -> coordinators of other machines ---


@dataclass(frozen=True)
class BatchLosses:
    batch: int
    losses: tuple[float, ...]  # one a member: the mean over the batch's samples; then its metrics, as in an Outcome


@dataclass(frozen=True)
class Unusable:
    """The batch takes no part in its step: that of these members."""

    batch: int
    members: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class StateSum:
    """A sum over weights, optimizer state and averages of a version: the same on all machines."""

    step: int
    sum: int


@dataclass(frozen=True)
class ShareReport:
    """A machine's share of a step is computed: what each of its batches has come to. Nothing of that changes any more;
    the sums of the buckets follow (`BucketSums`)."""

    step: int
    losses: tuple[BatchLosses, ...]  # of the batches that some member's step has
    unusable: tuple[Unusable, ...] = ()  # in the order in which they were found
    saves: Saves = ""  # of the first machine: what is saved of the version that the step makes
    state: StateSum | None = None  # of the version with which the step begins, if it was saved
    ends: bool = False  # the machine was told to stop: the run ends with this step


@dataclass(frozen=True)
class SumPlace:
    """A sum of gradients of a piece of a parameter: a whole node of the step's tree. Its numbers follow the message, of
    the parameter's type; before them the rows that it defines, as uint32, if it is a table's."""

    parameter: int  # by the number that it has among all
    first_row: int  # of the piece
    place: int
    rows: int  # of a table, that it defines; -1: it is no table's


@dataclass(frozen=True)
class BucketSums:
    """All that a machine's share adds to the gradient of a bucket."""

    step: int
    bucket: int
    sums: tuple[SumPlace, ...]


# --- supervisor -> that of the first machine ---


@dataclass(frozen=True)
class Fact:
    """Something that has to be the same on all machines."""

    name: str
    value: str


@dataclass(frozen=True)
class MachineReport:
    """The state of one machine."""

    life: str  # of the supervisor: its successor has another
    address: str  # where it is reached
    facts: tuple[Fact, ...]  # as far as they are known
    steps: tuple[int, ...] = ()  # with which a coordinator can begin there; none while one lives
    saved: tuple[int, ...] = ()  # of these, those with a checkpoint on the disk
    copies: bool = False  # it takes another machine's checkpoint if it lacks one
    generation: int = 0  # of the coordinator that lives there, 0: none
    lost: int = 0  # the newest generation whose coordinator is dead there, 0: none
    coordinator: str = ""  # where that is reached; empty: not known yet
    finished: bool = False  # nothing is left to do there
    ended: str = ""  # why the run is over there, and so everywhere; empty: it is not


# --- supervisor of the first machine -> all supervisors ---


@dataclass(frozen=True)
class CheckpointPlace:
    """Names a machine that has the checkpoint of a step."""

    step: int
    machine: int


@dataclass(frozen=True)
class MachineOrders:
    """The state of the run, as the first machine sees it."""

    life: str  # of the addressee
    generation: int = 0  # of coordinators, 0: none has begun
    step: int = 0  # that it begins with
    broken: str = ""  # why its coordinators are to be ended; empty: they are not
    coordinators: tuple[MachineAddress, ...] = ()  # of the generation, as far as they are known
    refused: str = ""  # why the addressee can't take part; empty: it can
    ended: str = ""  # why the run is over; empty: it is not
    finished: bool = False  # nothing is left to do on any machine
    missing: tuple[int, ...] = ()  # machines that the others wait for
    lacks: CheckpointPlace | None = None  # what the addressee has to copy, so that all can begin


# --- supervisor -> supervisor, of which one is that of the first machine ---


@dataclass(frozen=True)
class CheckpointRequest:
    """Asks for a file of a checkpoint, from an offset on."""

    step: int
    name: str
    offset: int  # bytes


@dataclass(frozen=True)
class CheckpointPiece:
    """Answers a request; the bytes are the frame behind it."""

    request: CheckpointRequest
    is_last: bool = False  # of the file
    refused: str = ""  # why there are none


Message = (
    Hello
    | Heartbeat
    | Roster
    | RunReport
    | Notice
    | FeederOrders
    | FeederReport
    | LeftOutData
    | UntrainedFeatures
    | WorkerOrders
    | WorkerReport
    | ShareReport
    | BucketSums
    | MachineReport
    | MachineOrders
    | CheckpointRequest
    | CheckpointPiece
)
