"""Defines every message that the processes of a run send one another, grouped by sender and receiver.

Rules. Orders and reports carry the sender's whole state as far as the receiver needs it, not a change to that state. So
the next message makes up for a lost one, and a repeated message changes nothing (I5). Messages of one incarnation (one
process from its start to its end) have rising sequence numbers, and a later message replaces earlier ones. Numbers of
each member (one of the networks that are trained together) are tuples. Messages hold no bulk data, only which process
owns which part of shared memory (I4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from loader.stream.interface import Cursor
from loader.stream.skipped_data import SkippedData
from pool.metrics.feature_uses import UntrainedShare
from pool.metrics.medians import median_of
from pool.protocol.identity import Peer

Purpose = Literal["train", "validate"]
Saves = Literal["", "snapshot", "checkpoint"]


# --- any child -> supervisor, any child -> coordinator ---


@dataclass(frozen=True)
class Hello:
    """Tells that the sender has started and is connected."""

    pid: int


@dataclass(frozen=True)
class Heartbeat:
    """Tells that the sender is alive and for how long its loop has not advanced: `still` seconds, 0 while it is
    idle."""

    still: float


# --- numbers of validations, and of nets ---


@dataclass(frozen=True)
class MetricValue:
    """Holds a named number: a task's own metric of a validation or of a step, or a result of the user's command for a
    net."""

    name: str
    values: tuple[float, ...]  # one a member

    @property
    def value(self) -> float:
        """Returns the median over members."""
        return median_of(self.values)


# --- supervisor -> every child ---


@dataclass(frozen=True)
class NetNumbers:
    """Carries the numbers that the user's command printed for the nets exported at a step (`train.on_export`)."""

    step: int
    numbers: tuple[MetricValue, ...]


@dataclass(frozen=True)
class NetsStatus:
    """Tells the coordinator which exported nets are finished, and their numbers."""

    numbers: tuple[NetNumbers, ...] = ()  # of nets that the coordinator has not confirmed (`RunReport.noted`)
    settled: int = 0  # up to this step all nets are finished


@dataclass(frozen=True)
class RosterEntry:
    """Describes one living process in a roster."""

    role: str
    index: int
    incarnation: int
    pid: int  # messages of any other pid under this name are dropped


@dataclass(frozen=True)
class MachineAddress:
    """Gives the address of another machine's coordinator, of the generation (shared life of all coordinators) of the
    receiver."""

    machine: int
    address: str  # of the coordinator
    finished: bool = False  # the coordinator has done all steps and ended


@dataclass(frozen=True)
class Roster:
    """Lists the processes that are alive. A process that is missing is dead, not merely silent, so its memory may be
    reused (I4)."""

    alive: tuple[RosterEntry, ...]
    drain: bool  # the receiver has to finish the step, write a checkpoint and end
    nets: NetsStatus = NetsStatus()
    machines: tuple[MachineAddress, ...] = ()

    def pids(self) -> dict[Peer, int]:
        """Returns the process id of every living process."""
        return {Peer(entry.role, entry.index, entry.incarnation): entry.pid for entry in self.alive}


# --- coordinator -> supervisor ---


@dataclass(frozen=True)
class Shares:
    """Splits the workers' time by activity, as fractions of the whole. All fractions are 0 until some time was
    measured."""

    compute: float = 0.0  # forward and backward
    loader: float = 0.0  # waiting for batches
    reduce: float = 0.0  # waiting for weights while the coordinator adds gradients up
    optimizer: float = 0.0  # waiting for weights while it steps the optimizer
    machines: float = 0.0  # waiting for weights while all that is missing are other machines' shares of the step
    weights: float = 0.0  # waiting for weights for any other reason, such as other batches of the step


@dataclass(frozen=True)
class RunReport:
    """Reports the state of the run that the supervisor shows to the user."""

    step: int
    steps: int
    epoch: int
    samples_per_step: int
    samples: int  # trained on since this coordinator started
    seconds: float  # since the first step of this coordinator
    losses: tuple[float, ...]  # of the newest step, one a member, NaN for a frozen one; empty before the first step
    validation_losses: tuple[float, ...]  # empty before the first validation
    validation_step: int  # step whose weights were validated
    learning_rate: float  # the median over members
    shares: Shares
    compute_seconds: float  # that workers have spent on batches they have finished, validation's too
    checkpoint: int  # step of the newest checkpoint, -1: none
    finished: bool
    best_step: int = -1  # step of the checkpoint that validated best, -1: none
    best_value: float = math.nan  # the validation result that makes this checkpoint the best
    best_metric: str = "loss"  # the name of `best_value`
    validation_metrics: tuple[MetricValue, ...] = ()  # the task's own, of the newest validation
    noted: int = -1  # the newest step whose nets' numbers are in the metrics
    waits_for_nets: bool = False  # all steps are done, and numbers of exported nets are still awaited
    waits_for_disk: bool = False  # all steps are done, but the disk has no room for the last checkpoint or metrics
    unwritten: int = 0  # lines of metrics that could not be written to the file yet
    address: str = ""  # at which coordinators of other machines reach this coordinator
    stopped_elsewhere: bool = False  # the run ends because another machine was told to stop

    @property
    def loss(self) -> float:
        """Returns the loss of the newest step, the median over members. NaN before the first step."""
        return median_of(self.losses)

    @property
    def validation_loss(self) -> float:
        """Returns the loss of the newest validation, the median over members. NaN before the first validation."""
        return median_of(self.validation_losses)


# --- coordinator or worker -> supervisor ---


@dataclass(frozen=True)
class Notice:
    """Carries one line of text that the user has to know, though the run goes on."""

    text: str


# --- coordinator -> feeder ---


@dataclass(frozen=True)
class StreamOrders:
    """Tells the feeder from where to fill one stream and which slots (places of a batch in the ring) are free.

    Batch k lies in slot k modulo the number of slots. Batches below `freed` are no longer needed, so the feeder may
    overwrite their slots.
    """

    generation: int  # a higher number tells the feeder to begin anew at `start` and to forget filled batches
    start: Cursor
    freed: int


@dataclass(frozen=True)
class FeederOrders:
    """Carries the orders for the feeder's two streams: training, and validation if the run has one."""

    train: StreamOrders
    validation: StreamOrders | None


# --- feeder -> coordinator ---


@dataclass(frozen=True)
class StreamReport:
    """Tells which batches of a stream are in their slots, and where in the data they begin.

    Batches first to first + len(cursors) - 2 are in their slots. Batch first + i begins at cursors[i], so the last
    cursor belongs to the next batch.
    """

    generation: int
    first: int
    cursors: tuple[Cursor, ...]


@dataclass(frozen=True)
class FeederReport:
    """Carries the state of the feeder's two streams. None stands for a stream without orders."""

    train: StreamReport | None
    validation: StreamReport | None


# --- feeder -> supervisor ---


@dataclass(frozen=True)
class SkippedDataReport:
    """Counts by kind the data that `data.on_bad_data = "skip"` has left out of one chunk.

    The feeder sends this message when it has first read the chunk. Receiving the message again changes nothing.
    """

    purpose: Purpose
    chunk: int  # index among the chunks of all files of the stream
    kinds: tuple[SkippedData, ...]


@dataclass(frozen=True)
class UntrainedFeatures:
    """Reports the share of a field's validation features that occur in no batch of a whole pass over the training data.

    The feeder sends this message once it knows the share. A restarted feeder sends it after a whole pass of its own.
    Receiving the message again changes nothing.
    """

    share: UntrainedShare


# --- coordinator -> worker ---


@dataclass(frozen=True, order=True)
class ExcludedBatch:
    """Excludes a batch from the step of one member."""

    batch: int
    member: int


@dataclass(frozen=True)
class Assignment:
    """Orders a worker to compute batches with version `step` of the weights.

    The worker adds the gradients of the batches in one gradient slot, from left to right.
    """

    purpose: Purpose
    step: int
    batches: tuple[int, ...]  # of a group, ascending, without unusable ones; one batch when validating
    gradient_slot: int  # index among the receiver's slots; -1 when validating
    attempt: int  # number of the try, so that reports of earlier tries are told apart
    first: bool = False  # has the step's first batch: the worker also writes the model's buffers after that batch
    left_out: tuple[ExcludedBatch, ...] = ()  # batches of this assignment that some member does not use

    @property
    def batch(self) -> int:
        """Returns the first batch of the assignment, which is its only batch when validating."""
        return self.batches[0]


@dataclass(frozen=True)
class WorkerOrders:
    """Lists all assignments of the receiving worker. The worker may forget any other assignment that it holds."""

    version: int  # number of the newest complete version of the weights
    assignments: tuple[Assignment, ...]
    number: int = 0  # of these orders, from 1 on, rising
    needs_report: bool = False  # a batch was taken back: report once `WorkerReport.settled` is this number
    frozen: tuple[int, ...] = ()  # members that are not trained any more: their gradients and losses are not needed


# --- worker -> coordinator ---


@dataclass(frozen=True)
class Outcome:
    """Holds the result of computing one batch: losses, values that are not finite, metrics."""

    losses: tuple[float, ...]  # one a member: the mean over the batch's samples
    nonfinite: tuple[
        str, ...
    ] = ()  # one a member: the name of the value that is not finite, loss or gradient; "" if all are finite
    metrics: tuple[float, ...] = ()  # of a training batch that is measured: all metrics of each member in turn


@dataclass(frozen=True)
class AssignmentReport:
    """Reports the progress of one assignment. Each bucket (parameters that are exchanged together) in `buckets` lies
    complete in the gradient slot."""

    assignment: Assignment
    buckets: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()  # parameters that got no gradient from any batch, by index; known when finished
    outcomes: tuple[Outcome, ...] = ()  # one a batch, when it is finished

    @property
    def finished(self) -> bool:
        """Tells whether all batches of the assignment are computed."""
        return bool(self.outcomes)


@dataclass(frozen=True)
class Times:
    """Holds the seconds that a worker has spent since its start, by activity."""

    computing: float = 0.0
    waiting_for_batches: float = 0.0
    waiting_for_weights: float = 0.0


@dataclass(frozen=True)
class WorkerReport:
    """Reports all assignments that the worker has begun.

    Batches that are finished and have finite numbers were signalled through shared memory earlier (`pool.shm.signals`).
    """

    assignments: tuple[AssignmentReport, ...]
    times: Times
    settled: int = 0  # number of the newest orders none of whose revoked assignments is still in work


# --- coordinator -> coordinators of other machines ---


@dataclass(frozen=True)
class BatchLosses:
    """Holds the losses of one batch that another machine has computed."""

    batch: int
    losses: tuple[float, ...]  # one a member: the mean over the batch's samples; then its metrics, as in an Outcome


@dataclass(frozen=True)
class UnusableBatch:
    """Excludes a batch from the step of some members, with the reason."""

    batch: int
    members: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class StateSum:
    """Holds a checksum over weights, optimizer state and averages of a version. The checksum is the same on all
    machines."""

    step: int
    sum: int


@dataclass(frozen=True)
class ShareReport:
    """Tells that a machine has computed its share of a step (the groups of batches assigned to it), with the result of
    each batch.

    These results are final. The sums of gradients follow in `BucketSums` messages.
    """

    step: int
    losses: tuple[BatchLosses, ...]  # of the batches that at least one member's step uses
    unusable: tuple[UnusableBatch, ...] = ()  # in the order in which they were found
    saves: Saves = ""  # from the first machine: how the version that the step makes is saved
    state: StateSum | None = None  # checksum of the version with which the step begins, if that version was saved
    ends: bool = False  # the machine was told to stop, so the run ends with this step


@dataclass(frozen=True)
class SumHeader:
    """Says which gradients a sum adds: a range of rows of a parameter, and a node of the reduction tree.

    The sum itself follows the message as a frame, in the parameter's type. For a table, a frame with the indices of the
    rows that have gradients comes before, as uint32.
    """

    parameter: int  # index among all parameters
    first_row: int  # of the range
    leaf: int  # of the reduction tree: any leaf that the node covers
    rows: int  # number of rows with gradients, for a table; -1 for any other parameter


@dataclass(frozen=True)
class BucketSums:
    """Lists all sums that a machine's share of a step adds to the gradient of one bucket."""

    step: int
    bucket: int
    sums: tuple[SumHeader, ...]


# --- supervisor -> that of the first machine ---


@dataclass(frozen=True)
class Fact:
    """Names a property that must have the same value on all machines, such as a setting or a version."""

    name: str
    value: str


@dataclass(frozen=True)
class MachineReport:
    """Reports the state of one machine to the first machine, from supervisor to supervisor."""

    life: str  # random id of the supervisor: a restarted supervisor has another
    address: str  # at which the supervisor is reached
    facts: tuple[Fact, ...]  # known so far
    steps: tuple[int, ...] = ()  # steps with which a coordinator can begin there; none while a coordinator lives there
    saved: tuple[int, ...] = ()  # the steps among these that have a checkpoint on the disk
    copies: bool = False  # the machine may copy another machine's checkpoint if it lacks one
    generation: int = 0  # of the coordinator that lives on the machine, 0: none
    lost: int = 0  # the newest generation whose coordinator on the machine is dead, 0: none
    coordinator: str = ""  # address of the coordinator; empty: not known yet
    finished: bool = False  # all steps are done on the machine
    ended: str = ""  # why the run is over on the machine, and so everywhere; empty: it goes on


# --- supervisor of the first machine -> all supervisors ---


@dataclass(frozen=True)
class CheckpointLocation:
    """Names a machine that has the checkpoint of a step."""

    step: int
    machine: int


@dataclass(frozen=True)
class MachineOrders:
    """Gives the state of the run as the first machine sees it, and what the receiving supervisor has to do."""

    life: str  # of the receiving supervisor
    generation: int = 0  # newest generation of coordinators, 0: none has begun
    step: int = 0  # step that the generation begins with
    broken: str = ""  # why the coordinators of this generation must end; empty: they may go on
    coordinators: tuple[MachineAddress, ...] = ()  # of the generation, known so far
    refused: str = ""  # why the receiver can't take part; empty: it can
    ended: str = ""  # why the run is over; empty: it goes on
    finished: bool = False  # all steps are done on all machines
    missing: tuple[int, ...] = ()  # silent machines, for which the other machines wait
    lacks: CheckpointLocation | None = None  # checkpoint that the receiver has to copy before all machines can begin


# --- supervisor -> supervisor, of which one is that of the first machine ---


@dataclass(frozen=True)
class CheckpointRequest:
    """Asks for the bytes of a file of a checkpoint, from an offset on."""

    step: int
    name: str
    offset: int  # in bytes, from the file's start


@dataclass(frozen=True)
class CheckpointShard:
    """Answers a `CheckpointRequest`. The bytes follow the message as one frame."""

    request: CheckpointRequest
    is_last: bool = False  # no more bytes of the file follow
    refused: str = ""  # why no bytes were sent


Message = (
    Hello
    | Heartbeat
    | Roster
    | RunReport
    | Notice
    | FeederOrders
    | FeederReport
    | SkippedDataReport
    | UntrainedFeatures
    | WorkerOrders
    | WorkerReport
    | ShareReport
    | BucketSums
    | MachineReport
    | MachineOrders
    | CheckpointRequest
    | CheckpointShard
)
