"""The coordinator's end of an exchange in host memory: views of all gradient slots and of both versions of the
weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from torch import Tensor

from pool import _native
from pool.exchange.groups import Contribution
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.host_memory import HostMemory, lazy_zeros
from pool.exchange.interface import TouchedRows
from pool.exchange.layout import MemberLayout
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import bucket_rows, view_array_as_tensors
from pool.exchange.touched_rows import compact_rows
from pool.kernels.reduction import Addend, Reduction, Touched, find_rows, reduce, union_rows
from pool.kernels.threads import SCATTERED, choose_num_threads


class HostCoordinator:
    """Implements `CoordinatorExchange` in shared memory of the host, for one member (one network of an ensemble)."""

    def __init__(
        self,
        layout: MemberLayout,
        memory: HostMemory,
        *,
        compact: Collection[int] = (),
        touched_rows: TouchedRows,
        publish: Callable[[int], None],
        member: int = 0,
        other_sums: OtherSums | None = None,
    ) -> None:
        """Makes views of the shared memory of one member.

        `layout`, `memory`: those of the member; `compact`: the workers that write only the touched rows of a table, one
        after the other; `touched_rows`: returns the rows that a contribution touches; `publish`: announces a complete
        version to workers; `other_sums`: sums from other machines, None if there are none.
        """
        self._plan = plan = layout.plan
        slot_plan = layout.slot_plan
        self._halves = memory.halves
        self._weights = [view_array_as_tensors(half, plan.parameters) for half in memory.halves]
        self._buffers = [view_array_as_tensors(half, plan.buffers) for half in memory.halves]
        self._average = (
            [] if memory.average is None else view_array_as_tensors(memory.average, (*plan.parameters, *plan.buffers))
        )
        self._gradients = {key: view_array_as_tensors(slot, slot_plan.parameters) for key, slot in memory.slots.items()}
        self._slot_buffers = {key: view_array_as_tensors(slot, slot_plan.buffers) for key, slot in memory.slots.items()}
        self._partial_sums: list[list[Tensor]] = []
        self.compact = frozenset(compact)
        self.first_parameter = layout.first_parameter
        self.touched_rows = touched_rows
        self.publish = publish
        self.other_sums = other_sums
        self._member = member
        self.read_nbytes = 0

    def shard(self, bucket: Bucket, parameter: int) -> HostShard:
        return HostShard(self, self._plan, bucket, parameter, self._gradients)

    def weights(self, version: int) -> Sequence[Tensor]:
        return self._weights[version % 2]

    def buffers(self, version: int) -> Sequence[Tensor]:
        return self._buffers[version % 2]

    def average(self) -> Sequence[Tensor]:
        return self._average

    def contribution_buffers(self, contribution: Contribution) -> Sequence[Tensor]:
        if contribution.machine is None:
            return self._slot_buffers[contribution.worker, contribution.slot]
        assert self.other_sums is not None
        return self.other_sums.buffers(contribution, self._member)

    def gather_version(self) -> None:
        """Does nothing, since every shard of a version is written where `weights` returns it."""

    def wait_until_read(self) -> None:
        """Does nothing, since the CPU has read all that it has reduced."""

    def send_version(self, version: int) -> None:
        """Does nothing, since a version is written where workers read it."""

    def send_average(self) -> None:
        """Does nothing, since workers read the average where it is written."""

    def version_bytes(self, version: int) -> bytes:
        return self._halves[version % 2].tobytes()

    def partial_sum(self, number: int) -> Sequence[Tensor]:
        """Returns memory for one partial sum of all parameters' gradients, shaped as the parameters."""
        while len(self._partial_sums) <= number:
            self._partial_sums.append(view_array_as_tensors(lazy_zeros(self._plan.nbytes), self._plan.parameters))
        return self._partial_sums[number]


class HostShard:
    """Implements `ShardMemory` in host memory."""

    def __init__(
        self,
        exchange: HostCoordinator,
        plan: Plan,
        bucket: Bucket,
        parameter: int,
        gradients: Mapping[tuple[int, int], Sequence[Tensor]],
    ) -> None:
        """Makes views of one shard. `gradients`: those of all parameters in each gradient slot, by (worker, slot)."""
        self._exchange = exchange
        self._bucket = bucket
        self._parameter = parameter
        self._number = exchange.first_parameter + parameter  # through all members
        self._field = plan.parameters[parameter].sparse_field
        self._weights = [bucket_rows(exchange.weights(version)[parameter], bucket) for version in (0, 1)]
        self._compact = exchange.compact if self._field is not None else frozenset[int]()
        self._gradients: dict[tuple[int, int], Tensor] = {}
        for (worker, slot), tensors in gradients.items():
            gradient = tensors[parameter]
            # Of a compact table all is viewed, since it depends on the batch where the shard's rows lie.
            self._gradients[worker, slot] = gradient if worker in self._compact else bucket_rows(gradient, bucket)
        self._sums: list[Tensor] = []
        self.first_row = 0 if bucket.rows is None else bucket.rows[0]

    @property
    def is_table(self) -> bool:
        return self._field is not None

    def weights(self, version: int) -> Tensor:
        return self._weights[version % 2]

    def read_gradients(self, contributions: Sequence[Contribution]) -> list[Addend]:
        addends: list[Addend] = []
        for contribution in contributions:
            if contribution.machine is None and self._number not in contribution.absent:
                addends.append(self._read_gradient(contribution))
        for contribution in contributions:
            if contribution.machine is not None:
                assert self._exchange.other_sums is not None
                addends += self._exchange.other_sums.read(contribution, self._number, self.first_row)
        self._exchange.read_nbytes += sum(map(self._count_read_nbytes, addends))
        return addends

    def sum_memory(self, number: int) -> Tensor:
        while len(self._sums) <= number:
            partial_sum = self._exchange.partial_sum(len(self._sums))
            self._sums.append(bucket_rows(partial_sum[self._parameter], self._bucket))
        return self._sums[number]

    def reduce(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        reduce(out, Reduction(addends, scale, self.first_row, touched_only))

    def reduce_node(self, number: int, addends: Sequence[Addend]) -> Addend:
        out = self.sum_memory(number)
        self.reduce(out, addends, scale=1.0, touched_only=True)
        touched = union_rows(addends, self.first_row, len(out)) if self.is_table else None
        return self.make_addend(addends[0].leaf, out, touched)

    def make_addend(self, leaf: int, total: Tensor, touched: Touched | None) -> Addend:
        return Addend(leaf, total, touched)

    def copy_unchanged(
        self, version: int, rows: Touched | None = None, *, but_not: Touched | None = None, share: int = 1
    ) -> None:
        old, new = self.weights(version), self.weights(version + 1)
        if rows is None:
            new.copy_(old)
            return
        threads = max(1, choose_num_threads(len(rows) * old[0].numel(), SCATTERED) // share)
        _native.copy_rows(new, old, rows, but_not=but_not, first_row=self.first_row, threads=threads)

    def send(self, version: int, rows: Touched | None) -> None:
        """Does nothing, since a version of the weights lies in only one place."""

    def mark_overwritten(self) -> None:
        """Does nothing, since workers see new weights at once."""

    def _read_gradient(self, contribution: Contribution) -> Addend:
        """Returns the shard's gradient in a contribution's slot as an addend."""
        gradient = self._gradients[contribution.worker, contribution.slot]
        if self._field is None:
            return Addend(contribution.group_index, gradient, None)
        touched = self._exchange.touched_rows(contribution, self._field)
        if contribution.worker in self._compact:
            gradient = gradient[compact_rows(touched, self._bucket, len(gradient))]
        return Addend(contribution.group_index, gradient, touched)

    def _count_read_nbytes(self, addend: Addend) -> int:
        """Returns how many bytes of an addend are read."""
        if addend.touched is None:
            return addend.gradient.nbytes
        weights = self._weights[0]
        begin, end = find_rows(addend.touched, self.first_row, self.first_row + len(weights))
        return (end - begin) * weights[0].numel() * addend.gradient.element_size()
