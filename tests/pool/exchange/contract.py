"""The behaviour of every exchange, whatever memory it goes through: one table, which is run over each of them.

`test_contract` runs it over the exchange of a CPU in host memory, `tests/gpu/fake/alone/contract.py` over those of a
worker on a device. A new exchange is a new `Ends`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.stream.schema import BatchSchema, SparseField
from pool.exchange.groups import Contribution
from pool.exchange.host.coordinator import HostCoordinator
from pool.exchange.host.worker import HostWorker
from pool.exchange.host_memory import HostMemory
from pool.exchange.interface import CoordinatorExchange, GroupBatch, ShardMemory, WorkerExchange
from pool.exchange.layout import Layout
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.exchange.tensors import trained_parameters, untrained_tensors
from pool.kernels.reduction import Touched

ROWS, COLUMNS = 40, 5
TABLE, DENSE, SCALAR = 0, 1, 2
SCHEMA = BatchSchema(8, (SparseField("features", ROWS, max_active=4),), ())
SLOTS = 4

Array = npt.NDArray[np.float32]
Gradients = Mapping[int, Array]  # of a batch, by parameter; of the table its touched rows


class Module(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(ROWS, COLUMNS))
        self.dense = nn.Parameter(torch.empty(3))
        self.scalar = nn.Parameter(torch.empty(()))
        self.register_buffer("mean", torch.empty(7))


def make_plan_of_module() -> Plan:
    specs = [
        TensorSpec("table", (ROWS, COLUMNS), "float32", 4, "features"),
        TensorSpec("dense", (3,), "float32", 4),
        TensorSpec("scalar", (), "float32", 4),
    ]
    return build_plan(specs, [TensorSpec("mean", (7,), "float32", 4)], [1, 16 * COLUMNS * 4], split_tables=True)


class Ends:
    """Both ends of an exchange, in one process: of one worker, which begins in memory that is full of garbage."""

    device = "cpu"  # the worker's
    worker: WorkerExchange
    coordinator: CoordinatorExchange

    def __init__(self, *, batches_per_group: int = 1, gradient_dtype: str = "float32") -> None:
        self.layout = Layout(SCHEMA, (make_plan_of_module(),), gradient_dtype, batches_per_group)
        self.plan = self.layout.plan
        self.published: list[int] = []
        self.version = 0  # that the worker computes with
        self.touched: dict[int, Touched] = {}  # by batch: as a ring slot lists them
        self.lists = self.layout.touched_lists
        self.slot_nbytes = self.layout.slot_plan.nbytes
        self.halves = [np.zeros(self.plan.nbytes, np.uint8) for _ in range(2)]
        self.average = np.zeros(self.plan.nbytes, np.uint8)
        self.slots = [np.full(self.slot_nbytes + self.lists.nbytes, 0x7F, np.uint8) for _ in range(SLOTS)]
        with torch.device("meta"):
            self.model = Module()
        self.open()

    def open(self) -> None:
        """Makes the coordinator's end, then the worker's."""
        self.coordinator = self.host_coordinator(compact=self.layout.gradient_dtype != "float32")
        self.worker = HostWorker(self.model, self.layout, halves=self.halves, slots=self.slots, average=self.average)

    def close(self) -> None:
        """Gives back what others would find."""

    def host_coordinator(self, *, compact: bool) -> CoordinatorExchange:
        return HostCoordinator(
            self.layout.member_layouts[0],
            self.host_memory,
            compact=[0] if compact else [],
            touched_rows=self.touched_rows,
            publish=self.published.append,
        )

    @property
    def host_memory(self) -> HostMemory:
        return HostMemory(self.halves, {(0, number): slot for number, slot in enumerate(self.slots)}, self.average)

    def touched_rows(self, contribution: Contribution, field: str) -> Touched:
        if self.lists.nbytes:
            return self.lists.read(self.slots[contribution.slot][self.slot_nbytes :], 0, field)
        return self.touched[contribution.batches[0]]

    # --- what the roles do ---

    def write(self, version: int, tensors: Sequence[Array]) -> None:
        """The coordinator's: all of a version, parameters then buffers."""
        places = [*self.coordinator.weights(version), *self.coordinator.buffers(version)]
        for place, tensor in zip(places, tensors, strict=True):
            place.copy_(torch.from_numpy(tensor))
        self.coordinator.send_version(version)
        self.coordinator.publish(version)
        self.version = version

    def read_by_worker(self) -> list[Array]:
        """The model as the worker computes with it."""
        tensors = [
            *(each for _, each in trained_parameters(self.model)),
            *(each for _, each in untrained_tensors(self.model)),
        ]
        return [numbers(tensor) for tensor in tensors]

    def contribute(
        self, batches: Sequence[Gradients], touched: Sequence[Touched], *, place: int = 0, slot: int = 0
    ) -> Contribution:
        """The worker's: computes a group of batches."""
        first = len(self.touched)
        self.touched |= {first + i: rows for i, rows in enumerate(touched)}
        self.worker.start_contribution(slot, [GroupBatch({"features": rows}) for rows in touched])
        self.flags: list[Tensor | bool] = []
        self.handed_over: list[int] = []
        for i, (gradients, rows) in enumerate(zip(batches, touched, strict=True)):
            self.worker.load(self.version)
            self.worker.start_batch()
            if i == 0:
                self.model.mean.add_(1.0)  # forward changes buffers
                self.worker.put_buffers()
            for parameter, gradient in gradients.items():
                self._put(parameter, torch.from_numpy(gradient).to(self.device), rows)
        for b, bucket in enumerate(self.plan.buckets):
            self.flags += self.worker.hand_over(bucket, lambda b=b: self.handed_over.append(b)).values()  # type: ignore[misc]
        later = [flag for flag in self.flags if isinstance(flag, Tensor)]
        self.losses, arrived = self.worker.read_results(torch.arange(float(len(batches)), device=self.device), later)
        known = iter(arrived)
        self.finite = [next(known) if isinstance(flag, Tensor) else flag for flag in self.flags]
        absent = set(range(len(self.plan.parameters))) - {parameter for each in batches for parameter in each}
        return Contribution(tuple(range(first, first + len(batches))), place, 0, slot, tuple(sorted(absent)))

    def _put(self, parameter: int, gradient: Tensor, rows: Touched) -> None:
        if parameter != TABLE or self.worker.uses_compact_rows:
            self.flags.append(self.worker.put_gradient(parameter, gradient))
            return
        self.worker.gradient_memory(TABLE)[torch.from_numpy(rows.astype(np.int64))] = gradient
        for bucket in self.plan.buckets:
            if bucket.rows is not None:
                self.worker.mark_written(TABLE, bucket)

    def shards(self, parameter: int) -> list[ShardMemory]:
        """The coordinator's, of all buckets that hold some of the parameter."""
        buckets = (bucket for bucket in self.plan.buckets if parameter in bucket.parameters)
        return [self.coordinator.shard(bucket, parameter) for bucket in buckets]

    def sum_of(self, parameter: int, contributions: Sequence[Contribution], scale: float = 1.0) -> Array | None:
        """The coordinator's: the sum; rows that nobody touches are 0; None if there is no gradient."""
        parts = []
        for shard in self.shards(parameter):
            addends = shard.read_gradients(contributions)
            if not addends:
                return None
            shard.reduce(shard.sum_memory(0), addends, scale=scale, touched_only=False)
            parts.append(numbers(shard.sum_memory(0)))
        self.coordinator.wait_until_read()
        return np.concatenate(parts) if parameter == TABLE else parts[0]


def numbers(tensor: Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy().copy()
    return array


def normal(draw: random.Random, *shape: int) -> Array:
    return np.random.default_rng(draw.getrandbits(32)).standard_normal(shape).astype(np.float32)


def version_of(draw: random.Random) -> list[Array]:
    return [normal(draw, ROWS, COLUMNS), normal(draw, 3), normal(draw), normal(draw, 7)]


def drawn_rows(draw: random.Random, least: int = 0) -> Touched:
    return np.array(sorted(draw.sample(range(ROWS), draw.randint(least, 12))), np.uint16)


def whole(rows: Touched, gradient: Array) -> Array:
    """A table's gradient with the rows that are not touched."""
    table = np.zeros((ROWS, COLUMNS), np.float32)
    table[rows] = gradient
    return table


MakeEnds = Callable[..., Ends]


def a_worker_reads_the_version_that_was_published(make: MakeEnds) -> None:
    ends, draw = make(), random.Random(1)
    for version in range(4):
        tensors = version_of(draw)
        ends.write(version, tensors)
        assert ends.published[-1] == version
        for _ in range(2):
            ends.worker.load(version)
            assert all(map(np.array_equal, ends.read_by_worker(), tensors))
            ends.model.mean.add_(1.0)  # forward changes buffers: they are the worker's own until the next load
        newest = b"".join(numbers(each).tobytes() for each in ends.coordinator.weights(version))
        assert len(ends.coordinator.version_bytes(version)) == ends.plan.nbytes
        assert newest[:64] in ends.coordinator.version_bytes(version)


def a_version_is_loaded_anew_after_its_coordinator_has_died(make: MakeEnds) -> None:
    ends, draw = make(), random.Random(2)
    ends.write(0, version_of(draw))
    ends.worker.load(0)
    tensors = version_of(draw)
    ends.write(0, tensors)
    ends.worker.forget_version()
    ends.worker.load(0)
    assert all(map(np.array_equal, ends.read_by_worker(), tensors))


def a_worker_reads_the_average_then_the_weights_again(make: MakeEnds) -> None:
    ends, draw = make(), random.Random(3)
    tensors, average = version_of(draw), version_of(draw)
    ends.write(0, tensors)
    for place, tensor in zip(ends.coordinator.average(), average, strict=True):
        place.copy_(torch.from_numpy(tensor))
    ends.coordinator.send_average()
    ends.coordinator.publish(0)
    ends.worker.load(0)
    ends.worker.load_average(0)
    assert all(map(np.array_equal, ends.read_by_worker(), average))
    ends.worker.load(0)
    assert all(map(np.array_equal, ends.read_by_worker(), tensors))


def a_group_is_the_sum_from_left_to_right_over_the_rows_that_any_batch_touches(make: MakeEnds) -> None:
    """Bit for bit, whatever a batch touches or lacks, and whatever the slot held before."""
    ends = make(batches_per_group=4)
    for seed in range(30):
        draw = random.Random(seed)
        touched = [drawn_rows(draw) for _ in range(draw.randint(1, 4))]
        batches: list[dict[int, Array]] = []
        sums: dict[int, Array] = {}
        for rows in touched:
            gradients = {SCALAR: normal(draw)}
            if draw.random() < 0.7:
                gradients[TABLE] = normal(draw, len(rows), COLUMNS)
            if draw.random() < 0.7:
                gradients[DENSE] = normal(draw, 3)
            batches.append(gradients)
            for parameter, gradient in gradients.items():
                new = whole(rows, gradient) if parameter == TABLE else gradient
                sums[parameter] = sums[parameter] + new if parameter in sums else new
        contribution = ends.contribute(batches, touched, slot=seed % SLOTS)
        together = sorted(set(np.concatenate(touched).tolist()))
        assert ends.touched_rows(contribution, "features").tolist() == together
        for parameter in (TABLE, DENSE, SCALAR):
            total, wanted = ends.sum_of(parameter, [contribution]), sums.get(parameter)
            assert (total is None) == (wanted is None), f"seed {seed}: {parameter}"
            if total is not None:
                assert np.array_equal(total, wanted), f"seed {seed}: {parameter}"  # type: ignore[arg-type]


def contributions_are_added_up_along_the_tree(make: MakeEnds) -> None:
    """All at once, or by nodes that are folded early; times the scale."""
    for seed in range(6):
        ends, draw = make(), random.Random(seed)
        touched = [drawn_rows(draw, 1) for _ in range(SLOTS)]
        gradients = [
            {TABLE: 1e3 * normal(draw, len(rows), COLUMNS), DENSE: normal(draw, 3), SCALAR: normal(draw)}
            for rows in touched
        ]
        contributions = [ends.contribute([gradients[i]], [touched[i]], place=i, slot=i) for i in range(SLOTS)]
        for parameter in (TABLE, DENSE, SCALAR):
            one, two, three, four = [each[parameter] for each in gradients]
            if parameter == TABLE:
                one, two, three, four = map(whole, touched, (one, two, three, four))
            wanted = (one + two) + (three + four)
            total = ends.sum_of(parameter, contributions, scale=0.5)
            assert total is not None
            assert np.array_equal(total, wanted * np.float32(0.5)), parameter
            parts = []
            for shard in ends.shards(parameter):
                early = shard.reduce_node(1, shard.read_gradients(contributions[:2]))
                shard.reduce(
                    shard.sum_memory(0),
                    [early, *shard.read_gradients(contributions[2:])],
                    scale=1.0,
                    touched_only=False,
                )
                parts.append(numbers(shard.sum_memory(0)))
            ends.coordinator.wait_until_read()
            total = np.concatenate(parts) if parameter == TABLE else parts[0]
            assert np.array_equal(total, wanted), parameter


def rows_that_no_gradient_defines_are_left_alone_or_zero(make: MakeEnds) -> None:
    ends, draw = make(), random.Random(4)
    rows = drawn_rows(draw, 5)
    gradient = normal(draw, len(rows), COLUMNS)
    contribution = ends.contribute([{TABLE: gradient}], [rows])
    for touched_only in (True, False):
        parts = []
        for shard in ends.shards(TABLE):
            shard.sum_memory(0).fill_(7.0)
            shard.reduce(
                shard.sum_memory(0), shard.read_gradients([contribution]), scale=1.0, touched_only=touched_only
            )
            parts.append(numbers(shard.sum_memory(0)))
        wanted = np.full((ROWS, COLUMNS), 7.0 if touched_only else 0.0, np.float32)
        wanted[rows] = gradient
        assert np.array_equal(np.concatenate(parts), wanted)


def what_is_read_is_counted_by_its_rows(make: MakeEnds) -> None:
    ends, draw = make(), random.Random(5)
    rows = drawn_rows(draw, 5)
    contribution = ends.contribute([{TABLE: normal(draw, len(rows), COLUMNS), SCALAR: normal(draw)}], [rows])
    before = ends.coordinator.read_nbytes
    for parameter in (TABLE, DENSE, SCALAR):
        ends.sum_of(parameter, [contribution])
    assert ends.coordinator.read_nbytes - before == 4 * (len(rows) * COLUMNS + 1)


def gradients_are_rounded_once_when_they_are_handed_over(make: MakeEnds) -> None:
    for batches_per_group in (1, 3):
        draw = random.Random(6)
        ends = make(batches_per_group=batches_per_group, gradient_dtype="bfloat16")
        touched = [drawn_rows(draw, 1) for _ in range(batches_per_group)]
        batches = [{TABLE: normal(draw, len(rows), COLUMNS), DENSE: normal(draw, 3)} for rows in touched]
        contribution = ends.contribute(batches, touched)
        table = whole(touched[0], batches[0][TABLE])
        dense = batches[0][DENSE]
        for rows, gradients in zip(touched[1:], batches[1:], strict=True):
            table, dense = table + whole(rows, gradients[TABLE]), dense + gradients[DENSE]
        for parameter, wanted in ((TABLE, table), (DENSE, dense)):
            total = ends.sum_of(parameter, [contribution])
            assert total is not None
            assert np.array_equal(total, torch.from_numpy(wanted).to(torch.bfloat16).float().numpy())


def the_end_of_a_group_says_losses_and_what_is_not_finite(make: MakeEnds) -> None:
    """When it has been read, all buckets have been said to be there, in their order."""
    for gradient_dtype, large in (("float32", np.inf), ("bfloat16", 3.4e38)):
        ends, rows = make(batches_per_group=2, gradient_dtype=gradient_dtype), np.array([3, 8], np.uint16)
        sound = {SCALAR: np.array(1.0, np.float32), DENSE: np.ones(3, np.float32)}
        ends.contribute([sound, sound], [rows, rows])
        assert ends.losses == [0.0, 1.0]
        assert all(ends.finite)
        assert ends.handed_over == list(range(len(ends.plan.buckets)))
        ends.contribute([sound, {DENSE: np.array([1.0, large, 1.0], np.float32)}], [rows, rows], slot=1)
        assert not all(ends.finite)


def buffers_go_along_with_a_contribution(make: MakeEnds) -> None:
    """Those after its first batch, never rounded."""
    ends, draw = make(batches_per_group=2, gradient_dtype="bfloat16"), random.Random(7)
    tensors = version_of(draw)
    ends.write(0, tensors)
    contribution = ends.contribute([{}, {}], [drawn_rows(draw), drawn_rows(draw)])
    assert np.array_equal(numbers(ends.coordinator.contribution_buffers(contribution)[0]), tensors[3] + np.float32(1.0))


def what_is_copied_over_and_stepped_piece_by_piece_is_the_next_version(make: MakeEnds) -> None:
    """All of a shard, or of a table some rows, but not those that are stepped; then a task changes one of them."""
    for rows_alone in (False, True):
        ends, draw = make(), random.Random(8)
        old = version_of(draw)
        ends.write(1, version_of(draw))
        ends.write(2, old)
        wanted = [np.array(each) for each in old]
        for parameter in (TABLE, DENSE, SCALAR):
            for shard in ends.shards(parameter):
                _step(shard, parameter, wanted, rows_alone=rows_alone and parameter == TABLE)
        ends.coordinator.gather_version()
        for place, tensor in zip(ends.coordinator.buffers(3), ends.coordinator.buffers(2), strict=True):
            place.copy_(tensor)
        ends.coordinator.weights(3)[DENSE].fill_(9.0)
        wanted[DENSE][:] = 9.0
        for shard in ends.shards(DENSE):
            shard.mark_overwritten()
        ends.coordinator.send_version(3)
        ends.coordinator.publish(3)
        ends.worker.load(3)
        assert all(map(np.array_equal, ends.read_by_worker(), wanted))
        ends.worker.load(2)
        assert all(map(np.array_equal, ends.read_by_worker(), old)), "I3: workers may still read it"


def _step(shard: ShardMemory, parameter: int, wanted: list[Array], *, rows_alone: bool) -> None:
    """Makes version 3 of it: row 2 of each part of the table, and all else that is copied, times 2."""
    if not rows_alone:
        shard.copy_unchanged(2)
        shard.weights(3).mul_(2.0)
        shard.send(3, None)
        if parameter == TABLE:
            wanted[TABLE][shard.first_row :][: len(shard.weights(3))] *= 2.0
        else:
            wanted[parameter] *= 2.0
        return
    assert shard.is_table
    changed = np.arange(shard.first_row, shard.first_row + len(shard.weights(3)), dtype=np.uint16)
    shard.copy_unchanged(2, changed, but_not=changed[2:3])
    shard.weights(3)[2] = 2.0 * shard.weights(2)[2]
    shard.send(3, changed[2:3])
    wanted[TABLE][shard.first_row + 2] *= 2.0


BEHAVIOURS: Sequence[Callable[[MakeEnds], None]] = (
    a_worker_reads_the_version_that_was_published,
    a_version_is_loaded_anew_after_its_coordinator_has_died,
    a_worker_reads_the_average_then_the_weights_again,
    a_group_is_the_sum_from_left_to_right_over_the_rows_that_any_batch_touches,
    contributions_are_added_up_along_the_tree,
    rows_that_no_gradient_defines_are_left_alone_or_zero,
    what_is_read_is_counted_by_its_rows,
    gradients_are_rounded_once_when_they_are_handed_over,
    the_end_of_a_group_says_losses_and_what_is_not_finite,
    buffers_go_along_with_a_contribution,
    what_is_copied_over_and_stepped_piece_by_piece_is_the_next_version,
)
