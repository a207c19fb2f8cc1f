"""The coordinator's end of an exchange in host memory: views of all gradient slots and of both versions of the
weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from torch import Tensor

from pool import _native
from pool.exchange.groups import Contribution
from pool.exchange.host.other_sums import OtherSums
from pool.exchange.host_memory import HostMemory, untouched
from pool.exchange.interface import TouchedRows
from pool.exchange.layout import Part
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import rows_of, views
from pool.exchange.touched_rows import compact_rows
from pool.kernels.fold import Addend, Fold, Touched, fold, union, within
from pool.kernels.threads import SCATTERED, worthwhile


class HostCoordinator:
    """Implements `CoordinatorExchange` in shared memory of the host, for one member (one network of an ensemble)."""

    def __init__(
        self,
        part: Part,
        memory: HostMemory,
        *,
        compact: Collection[int] = (),
        touched_rows: TouchedRows,
        publish: Callable[[int], None],
        member: int = 0,
        others: OtherSums | None = None,
    ) -> None:
        """Makes views of the shared memory of one member.

        `part`, `memory`: those of the member; `compact`: the workers that write only the touched rows of a table, one
        after the other; `touched_rows`: returns the rows that a contribution touches; `publish`: announces a complete
        version to workers; `others`: sums from other machines, None if there are none.
        """
        self._plan = plan = part.plan
        self._halves = memory.halves
        self._weights = [views(half, plan.parameters) for half in memory.halves]
        self._buffers = [views(half, plan.buffers) for half in memory.halves]
        self._average = [] if memory.average is None else views(memory.average, (*plan.parameters, *plan.buffers))
        self._gradients = {place: views(slot, part.slot_plan.parameters) for place, slot in memory.slots.items()}
        self._slot_buffers = {place: views(slot, part.slot_plan.buffers) for place, slot in memory.slots.items()}
        self._sums: list[list[Tensor]] = []
        self.compact = frozenset(compact)
        self.first_parameter = part.first_parameter
        self.touched_rows = touched_rows
        self.publish = publish
        self.others = others
        self._member = member
        self.read_nbytes = 0

    def piece(self, bucket: Bucket, parameter: int) -> HostPiece:
        return HostPiece(self, self._plan, bucket, parameter, self._gradients)

    def weights(self, version: int) -> Sequence[Tensor]:
        return self._weights[version % 2]

    def buffers(self, version: int) -> Sequence[Tensor]:
        return self._buffers[version % 2]

    def average(self) -> Sequence[Tensor]:
        return self._average

    def buffers_of(self, contribution: Contribution) -> Sequence[Tensor]:
        if contribution.machine is not None:
            assert self.others is not None
            return self.others.buffers(contribution, self._member)
        return self._slot_buffers[contribution.worker, contribution.slot]

    def gather(self) -> None:
        """Does nothing, since every part of a version is written where `weights` returns it."""

    def settle(self) -> None:
        """Does nothing, since the CPU has read all that it has reduced."""

    def give_out(self, version: int) -> None:
        """Does nothing, since a version is written where workers read it."""

    def give_out_average(self) -> None:
        """Does nothing, since workers read the average where it is written."""

    def newest(self, version: int) -> bytes:
        return self._halves[version % 2].tobytes()

    def sums(self, number: int) -> Sequence[Tensor]:
        """Returns memory for one partial sum of all parameters' gradients, shaped as the parameters."""
        while len(self._sums) <= number:
            self._sums.append(views(untouched(self._plan.nbytes), self._plan.parameters))
        return self._sums[number]


class HostPiece:
    """Implements `PieceMemory` in host memory."""

    def __init__(
        self,
        exchange: HostCoordinator,
        plan: Plan,
        bucket: Bucket,
        parameter: int,
        gradients: Mapping[tuple[int, int], Sequence[Tensor]],
    ) -> None:
        self._exchange = exchange
        self._bucket = bucket
        self._parameter = parameter
        self._number = exchange.first_parameter + parameter
        self._field = plan.parameters[parameter].sparse_field
        self._weights = [rows_of(exchange.weights(version)[parameter], bucket) for version in (0, 1)]
        self._compact = exchange.compact if self._field is not None else frozenset[int]()
        self._gradients = {  # a compact table is kept whole: where the part's rows lie in it depends on the batch
            place: slot[parameter] if place[0] in self._compact else rows_of(slot[parameter], bucket)
            for place, slot in gradients.items()
        }
        self._sums: list[Tensor] = []
        self.first_row = 0 if bucket.rows is None else bucket.rows[0]

    @property
    def is_table(self) -> bool:
        return self._field is not None

    def weights(self, version: int) -> Tensor:
        return self._weights[version % 2]

    def take(self, contributions: Sequence[Contribution]) -> list[Addend]:
        present = [each for each in contributions if self._number not in each.absent and each.machine is None]
        taken = [self._addend(each) for each in present]
        for each in contributions:
            if each.machine is not None:
                assert self._exchange.others is not None
                taken += self._exchange.others.take(each, self._number, self.first_row)
        self._exchange.read_nbytes += sum(map(self._nbytes, taken))
        return taken

    def sum(self, number: int) -> Tensor:
        while len(self._sums) <= number:
            self._sums.append(rows_of(self._exchange.sums(len(self._sums))[self._parameter], self._bucket))
        return self._sums[number]

    def fold(self, out: Tensor, addends: Sequence[Addend], *, scale: float, touched_only: bool) -> None:
        fold(out, Fold(addends, scale, self.first_row, touched_only))

    def node(self, number: int, addends: Sequence[Addend]) -> Addend:
        out = self.sum(number)
        self.fold(out, addends, scale=1.0, touched_only=True)
        return self.addend(addends[0].leaf, out, union(addends, self.first_row, len(out)) if self.is_table else None)

    def addend(self, place: int, total: Tensor, touched: Touched | None) -> Addend:
        return Addend(place, total, touched)

    def copy_over(
        self, version: int, rows: Touched | None = None, *, but_not: Touched | None = None, share: int = 1
    ) -> None:
        old, new = self.weights(version), self.weights(version + 1)
        if rows is None:
            new.copy_(old)
            return
        threads = max(1, worthwhile(len(rows) * old[0].numel(), SCATTERED) // share)
        _native.copy_rows(new, old, rows, but_not=but_not, first_row=self.first_row, threads=threads)

    def give_out(self, version: int, rows: Touched | None) -> None:
        """Does nothing, since a version of the weights lies in only one place."""

    def overwritten(self) -> None:
        """Does nothing, since workers see new weights at once."""

    def _addend(self, contribution: Contribution) -> Addend:
        gradient, touched = self._gradients[contribution.worker, contribution.slot], self._touched(contribution)
        if touched is not None and contribution.worker in self._compact:
            gradient = gradient[compact_rows(touched, self._bucket, len(gradient))]
        return Addend(contribution.group_index, gradient, touched)

    def _touched(self, contribution: Contribution) -> Touched | None:
        return None if self._field is None else self._exchange.touched_rows(contribution, self._field)

    def _nbytes(self, addend: Addend) -> int:
        """Returns how many bytes of an addend are read."""
        if addend.touched is None:
            return addend.gradient.nbytes
        weights = self._weights[0]
        begin, end = within(addend.touched, self.first_row, self.first_row + len(weights))
        return (end - begin) * weights[0].numel() * addend.gradient.element_size()
