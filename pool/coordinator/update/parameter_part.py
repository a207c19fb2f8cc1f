"""The part of one parameter that lies in one bucket, as the coordinator adds up its gradients and steps it. A bucket is
parameters that are stepped together; a large table is cut into parts that lie in several."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from pool.coordinator.update.unchanged_rows import UnchangedRows
from pool.exchange.groups import Contribution
from pool.exchange.interface import ShardMemory
from pool.kernels.reduction import Addend, Touched
from pool.kernels.tree import join_into_nodes


class ParameterPart:
    """Keeps the step's sum of gradients of one part, as far as it was added up early, and its memory for weights.

    Gradients are added up along a fixed tree over the groups of batches (`pool.kernels.tree`). Sums that are kept are
    always whole nodes of that tree.
    """

    def __init__(self, index: int, parameter: nn.Parameter, memory: ShardMemory, carry: UnchangedRows) -> None:
        """Makes a part with an empty sum. `index`: of the parameter in the plan. `parameter`: the tensor that the
        optimizer steps. `carry`: copies unchanged weights."""
        self.index = index
        self.parameter = parameter
        self.memory = memory
        self._carry = carry
        self._nodes: dict[int, Addend] = {}  # sums, by number of the memory that each lies in, ascending by place
        self.total: Tensor | None = None  # after `reduce_all`: the step's gradient, None if there is none
        self._touched: Touched | None = None  # the table rows that `total` defines; None: all

    def begin(self) -> None:
        """Empties the sum of the part's gradients, for a new step or to add them up again."""
        self._nodes = {}
        self.total = None

    def gradients(self, contributions: Sequence[Contribution]) -> list[Addend]:
        """Returns all gradients that the step's sum is made of, ascending by their place in the tree: the sums that
        were kept, and `contributions`, the gradients of groups of batches."""
        taken = self.memory.read_gradients(contributions)
        return sorted([*self._nodes.values(), *taken], key=lambda addend: addend.leaf)

    @property
    def partial_sums(self) -> list[Addend]:
        """The sums of gradients that are kept, ascending by their place in the tree."""
        return list(self._nodes.values())

    def reduce(self, contributions: Sequence[Contribution], places: range) -> None:
        """Adds gradients to the sums that are kept, as far as that completes nodes of the tree. `places`: the indices
        of groups of batches, all of which are added by now or left out of the step."""
        lies_in = {id(node): number for number, node in self._nodes.items()}
        taken = set(self._nodes)
        nodes: dict[int, Addend] = {}
        for addends in join_into_nodes(self.gradients(contributions), places):
            own = [lies_in[id(addend)] for addend in addends if id(addend) in lies_in]
            number = own[0] if own else next(n for n in range(len(taken) + 1) if n not in taken)
            nodes[number] = addends[0] if own and len(addends) == 1 else self.memory.reduce_node(number, addends)
            taken = (taken - set(own)) | {number}
        self._nodes = nodes

    def reduce_all(self, contributions: Sequence[Contribution], scale: float) -> None:
        """Adds up the whole step, with these last contributions, and multiplies by `scale`. `total` is then the sum; it
        stays None if there is no gradient. Table rows that no batch has touched become zeros."""
        addends = self.gradients(contributions)
        self.begin()
        if addends:
            self.total, self._touched = self.memory.sum_memory(0), self._carry.rows_to_write(addends)
            self.memory.reduce(self.total, addends, scale=scale, touched_only=False)

    @property
    def sum(self) -> list[Addend]:
        """Returns the part's gradient `total` as it is now, in a list; an empty list if there is none."""
        return [] if self.total is None else [self.memory.make_addend(0, self.total, self._touched)]

    def ahead(self, version: int) -> None:
        """Copies weights to the next version early, while the workers compute with `version`, so that `next_version`
        takes less time."""
        self._carry.ahead(version)

    def next_version(self, step: int, gradients: Sequence[Addend]) -> None:
        """Lets the parameter use the memory of version step + 1, and copies the numbers to it from version `step` that
        the optimizer will not write. To be called before the optimizer steps with these gradients."""
        old, new = self.memory.weights(step), self.memory.weights(step + 1)
        assert old.data_ptr() != new.data_ptr(), "I3"
        self._carry.over(step, gradients)
        self.parameter.data = new

    def give_out(self, step: int) -> None:
        """Copies the part's new weights to the other memory that holds the part, if there is any. To be called when the
        optimizer has made version step + 1 of them."""
        self.memory.send(step + 1, self._carry.written)

    def forget(self) -> None:
        """Notes that the part's weights were written by something else than the optimizer, so that the two versions may
        differ in any row."""
        self._carry.forget()
        self.memory.mark_overwritten()
