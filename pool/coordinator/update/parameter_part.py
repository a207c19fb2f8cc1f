"""The part of one parameter that lies in one bucket, as the coordinator adds up its gradients and steps it. A bucket is
parameters that are stepped together; a large table is cut into parts that lie in several."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence

from torch import Tensor, nn

from pool.coordinator.update.unchanged_rows import UnchangedRows
from pool.exchange.groups import Contribution
from pool.exchange.interface import ShardMemory
from pool.kernels.reduction import Addend, Touched
from pool.kernels.tree import join_into_nodes


class ParameterPart:
    """Keeps the step's sum of gradients of one part, as far as it was added up early, and its memory for weights.

    Gradients are added up along a fixed tree over the groups of batches (`pool.kernels.tree`). Sums that are kept are
    always full nodes of that tree.
    """

    def __init__(self, index: int, parameter: nn.Parameter, memory: ShardMemory, unchanged_rows: UnchangedRows) -> None:
        """Creates a part with an empty sum. `index`: of the parameter in the plan. `parameter`: the tensor that the
        optimizer steps. `unchanged_rows`: copies weights that a step leaves unchanged."""
        self.index = index
        self.parameter = parameter
        self.memory = memory
        self._unchanged_rows = unchanged_rows
        self._nodes: dict[int, Addend] = {}  # sums, by number of the memory that each lies in, ascending by leaf
        self.total: Tensor | None = None  # after `reduce_all`: the step's gradient, None if there is none
        self._touched: Touched | None = None  # the table rows that `total` defines; None: all

    def reset_sum(self) -> None:
        """Empties the sum of the part's gradients, for a new step or to add them up again."""
        self._nodes = {}
        self.total = None

    def collect_addends(self, contributions: Sequence[Contribution]) -> list[Addend]:
        """Returns all addends of the step's sum, ascending by their leaf in the tree: the partial sums, and the
        gradients of groups of batches in `contributions`."""
        gradients = self.memory.read_gradients(contributions)
        return sorted([*self._nodes.values(), *gradients], key=lambda addend: addend.leaf)

    @property
    def partial_sums(self) -> list[Addend]:
        """The sums of gradients that were added up early, ascending by their leaf in the tree."""
        return list(self._nodes.values())

    def reduce(self, contributions: Sequence[Contribution], covered: range) -> None:
        """Adds gradients to the partial sums, as far as that completes nodes of the tree. `covered`: the indices of
        groups of batches, all of which are added by now or left out of the step."""
        memory_of = {id(node): number for number, node in self._nodes.items()}
        used = set(self._nodes)
        nodes: dict[int, Addend] = {}
        for addends in join_into_nodes(self.collect_addends(contributions), covered):
            reused = [memory_of[id(addend)] for addend in addends if id(addend) in memory_of]
            if reused and len(addends) == 1:  # a node that stays as it is
                nodes[reused[0]] = addends[0]
                continue
            number = reused[0] if reused else _first_free(used)
            nodes[number] = self.memory.reduce_node(number, addends)
            used.difference_update(reused)
            used.add(number)
        self._nodes = nodes

    def reduce_all(self, contributions: Sequence[Contribution], scale: float) -> None:
        """Adds up the gradients of the step, with these last contributions, and multiplies by `scale`. `total` is then
        the sum; it stays None if there is no gradient. Table rows that no batch has touched become zeros."""
        addends = self.collect_addends(contributions)
        self.reset_sum()
        if addends:
            self.total = self.memory.sum_memory(0)
            self._touched = self._unchanged_rows.rows_to_write(addends)
            self.memory.reduce(self.total, addends, scale=scale, touched_only=False)

    @property
    def total_addends(self) -> list[Addend]:
        """The part's gradient `total` as it is now, as a list with one addend; an empty list if there is none."""
        return [] if self.total is None else [self.memory.make_addend(0, self.total, self._touched)]

    def copy_early(self, version: int) -> None:
        """Copies weights to the next version, while the workers compute with `version`, so that `prepare_step` takes
        less time."""
        self._unchanged_rows.copy_early(version)

    def prepare_step(self, step: int, gradients: Sequence[Addend]) -> None:
        """Lets the parameter use the memory of version step + 1, and copies the numbers to it from version `step` that
        the optimizer will not write. To be called before the optimizer steps with these gradients."""
        old, new = self.memory.weights(step), self.memory.weights(step + 1)
        assert old.data_ptr() != new.data_ptr(), "I3"
        self._unchanged_rows.copy_before_step(step, gradients)
        self.parameter.data = new

    def send_weights(self, step: int) -> None:
        """Copies the part's new weights to the other memory that holds the part, if there is any. To be called when the
        optimizer has written version step + 1 of them."""
        self.memory.send(step + 1, self._unchanged_rows.written_rows)

    def mark_overwritten(self) -> None:
        """Records that the part's weights were written by something else than the optimizer, so that the two versions
        may differ in any row."""
        self._unchanged_rows.mark_all_changed()
        self.memory.mark_overwritten()


def _first_free(used: Container[int]) -> int:
    """Returns the lowest number of a memory for partial sums that is not in use."""
    return next(number for number in itertools.count() if number not in used)
