"""Kernels on CPU memory, no copies, the GIL released while they run; and what the tasks have.

Arrays are torch CPU tensors or numpy arrays (read-only ones too, where they are only read), contiguous, of
exactly the dtype named. What does not fit is a ValueError that names the argument and the numbers; it is
raised before anything is written. Every result has the same bits for any number of threads (1 to 1024) and
at every SIMD level.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing
import torch

def simd_level() -> str:
    """The build of the hot code that runs: "baseline", "avx2" or "avx512"; at first the best that this CPU has."""

def simd_levels() -> list[str]:
    """The levels that this CPU can run, narrowest first."""

def set_simd_level(level: str) -> None:
    """Chooses for the whole process, for tests and benchmarks; not while hot code runs. Raises ValueError."""

def build_info() -> str:
    """Compiler and version of this build."""

def sparse_forward(
    weight: torch.Tensor | numpy.typing.NDArray[Any],
    bias: torch.Tensor | numpy.typing.NDArray[Any] | None,
    offsets: torch.Tensor | numpy.typing.NDArray[Any],
    features: torch.Tensor | numpy.typing.NDArray[Any],
    out: torch.Tensor | numpy.typing.NDArray[Any],
    threads: int = 1,
    *,
    values: torch.Tensor | numpy.typing.NDArray[Any] | None = None,
) -> None:
    """out[i] = bias + weight[features[offsets[i]]] + ... + weight[features[offsets[i + 1] - 1]], left to right.

    weight float32 [F, O], bias float32 [O] or None (zeros), offsets uint32 [N + 1] from 0 to A,
    features uint16 or uint32 [A], out float32 [N, O]. With values, float32 [A], row number k of these is multiplied by
    values[k] before it is added.
    """

def sparse_backward_rows(
    touched: torch.Tensor | numpy.typing.NDArray[Any],
    touched_offsets: torch.Tensor | numpy.typing.NDArray[Any],
    bags: torch.Tensor | numpy.typing.NDArray[Any],
    grad_out: torch.Tensor | numpy.typing.NDArray[Any],
    grad_weight: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    values: torch.Tensor | numpy.typing.NDArray[Any] | None = None,
    first: int = 0,
    last: int | None = None,
    threads: int = 1,
) -> bool:
    """grad_weight[touched[j]] = grad_out[bags[touched_offsets[j]]] + ..., left to right, for first <= j < last.

    Rows of other features are neither read nor written. `last` None: all of them.
    touched uint16 or uint32 [M], strictly ascending, touched_offsets uint32 [M + 1], bags uint16 or uint32 [A],
    grad_out float32 [N, O], grad_weight float32 [F, O]. Only the lists of [first, last) are checked. With values,
    float32 [A], row number k of these is multiplied by values[k]; then the result says whether all that was written is
    finite. Without, it is True.
    """

def column_sum(
    matrix: torch.Tensor | numpy.typing.NDArray[Any], out: torch.Tensor | numpy.typing.NDArray[Any], threads: int = 1
) -> None:
    """out[c] = the sum of column c: sums of 256 rows each, added from the first. float32 [N, O] and [O]."""

class SparsePlan:
    """How the bags of one batch are summed with few reads; see pool/kernels/cpu/sparse/sparse_plan.h. Keeps no view of its input.

    Forward and backward compute what sparse_forward and sparse_backward_rows do, in another order of additions,
    which depends on the bags alone.
    """

    def __init__(
        self,
        offsets: torch.Tensor | numpy.typing.NDArray[Any],
        features: torch.Tensor | numpy.typing.NDArray[Any],
        num_features: int,
    ) -> None:
        """offsets uint32 [N + 1] from 0 to A, features uint16 or uint32 [A], each below num_features."""

    @property
    def worth(self) -> bool:
        """Whether bags share enough rows; if not, the plan is empty and must not be used (ValueError)."""

    @property
    def num_tiles(self) -> int:
        """Bags that share rows are summed tile by tile."""

    def tiles_until(self, row: int) -> int:
        """How many tiles have to be done in backward until no row below `row` changes any more."""

    def forward(
        self,
        weight: torch.Tensor | numpy.typing.NDArray[Any],
        bias: torch.Tensor | numpy.typing.NDArray[Any] | None,
        out: torch.Tensor | numpy.typing.NDArray[Any],
        threads: int = 1,
    ) -> None:
        """out [N, O]: bias [O] or None (zeros) plus the rows of weight [num_features, O]. All float32."""

    def backward(
        self,
        grad_out: torch.Tensor | numpy.typing.NDArray[Any],
        grad_weight: torch.Tensor | numpy.typing.NDArray[Any],
        column_sums: torch.Tensor | numpy.typing.NDArray[Any],
        first_tile: int = 0,
        last_tile: int | None = None,
        threads: int = 1,
    ) -> None:
        """Rows of grad_weight [num_features, O] of all features in bags: sums of rows of grad_out [N, O].

        column_sums [O]: sum of all rows of grad_out. Tiles may be done in several calls, in order, with the same bits.
        """

def copy_checked(
    out: torch.Tensor | numpy.typing.NDArray[Any], source: torch.Tensor | numpy.typing.NDArray[Any]
) -> bool:
    """Copies source to out, both float32 [n]; whether all of it is finite."""

def fold(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    places: Sequence[int] | None = None,
    scale: float = 1.0,
    threads: int = 1,
) -> None:
    """out = (sum of the sources) * scale, along the tree of pool/kernels/tree.py; all float32 [n], sources
    also bfloat16 [n], which is widened.

    `places`: of each source in the tree, ascending; None: 0, 1, 2 ... Of none the sum is zeros; of one it is the
    source, bit for bit. `out` may be one of the sources. A scale of 1.0 multiplies nothing.
    """

def fold_rows(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[tuple[torch.Tensor | numpy.typing.NDArray[Any], torch.Tensor | numpy.typing.NDArray[Any]]],
    *,
    places: Sequence[int] | None = None,
    scale: float = 1.0,
    first_row: int = 0,
    touched_only: bool = False,
    threads: int = 1,
) -> None:
    """The fold of tables of which a source defines only the rows it touched; its other rows are never read.

    out float32 [R, C]; sources: (gradient float32 or bfloat16 [R, C], touched uint16 or uint32 [m], strictly
    ascending). A gradient may be [n, C] instead: the n touched rows among these R, one after the other.
    Row r belongs to feature first_row + r; touched holds feature numbers, also beyond these rows. Rows touched by
    none become zeros, or with `touched_only` stay as they are. A sum of -0.0 becomes 0.0.
    """

def adam(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    mean: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
    step: float,
    scale: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of Adam whose gradient is the fold of the sources, in one pass; formula: pool/kernels/cpu/optim/optimizers.h.

    All float32 [n], sources also bfloat16. weights are written, old are those of the version before (or the same
    memory); mean and square, the moments, change in place. `step` counts from 1. The same bits as `fold` and then this
    with the sum alone.
    """

def adam_rows(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    mean: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[tuple[torch.Tensor | numpy.typing.NDArray[Any], torch.Tensor | numpy.typing.NDArray[Any]]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
    step: float,
    scale: float = 1.0,
    first_row: int = 0,
    touched_only: bool = False,
    threads: int = 1,
) -> None:
    """The same for a table [R, C] whose sources are those of `fold_rows`.

    With `touched_only`, rows that no source touched keep their moments, and those of `weights` are not written.
    """

def clipped_adamw(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    mean: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    lowest: float,
    highest: float,
    scale: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of bullet's AdamW, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n]."""

def clipped_adamw_rows(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    mean: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[tuple[torch.Tensor | numpy.typing.NDArray[Any], torch.Tensor | numpy.typing.NDArray[Any]]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    lowest: float,
    highest: float,
    scale: float = 1.0,
    first_row: int = 0,
    touched_only: bool = False,
    threads: int = 1,
) -> None:
    """Of a table [R, C], as `adam_rows`."""

def adagrad(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    sum: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    epsilon: float,
    weight_decay: float,
    scale: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of Adagrad, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n]."""

def rowwise_adagrad(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    sum: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[tuple[torch.Tensor | numpy.typing.NDArray[Any], torch.Tensor | numpy.typing.NDArray[Any]]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    epsilon: float,
    weight_decay: float,
    scale: float = 1.0,
    first_row: int = 0,
    touched_only: bool = False,
    threads: int = 1,
) -> None:
    """Of a table [R, C], as `adam_rows`: sum, float32 [R, 1], gets the mean of each row's squares."""

def ftrl(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    linear: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta: float,
    l1: float,
    l2: float,
    scale: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of FTRL-proximal, as `adam`; formula: pool/kernels/cpu/optim/optimizers.h. All float32 [n]."""

def ftrl_rows(
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    old: torch.Tensor | numpy.typing.NDArray[Any],
    linear: torch.Tensor | numpy.typing.NDArray[Any],
    square: torch.Tensor | numpy.typing.NDArray[Any],
    sources: Sequence[tuple[torch.Tensor | numpy.typing.NDArray[Any], torch.Tensor | numpy.typing.NDArray[Any]]],
    *,
    places: Sequence[int] | None = None,
    learning_rate: float,
    beta: float,
    l1: float,
    l2: float,
    scale: float = 1.0,
    first_row: int = 0,
    touched_only: bool = False,
    threads: int = 1,
) -> None:
    """Of a table [R, C], as `adam_rows`."""

def add_to_average(
    average: torch.Tensor | numpy.typing.NDArray[Any],
    weights: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    rate: float,
    threads: int = 1,
) -> None:
    """average += rate * (weights - average), both float32 [n]."""

def round_numbers(
    out: torch.Tensor | numpy.typing.NDArray[Any], source: torch.Tensor | numpy.typing.NDArray[Any], *, threads: int = 1
) -> bool:
    """out bfloat16 [n] = source float32 [n], to nearest even; whether all of it is finite then.

    What lies beyond the largest bfloat16 becomes an infinity; a NaN stays a NaN.
    """

def round_rows(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    table: torch.Tensor | numpy.typing.NDArray[Any],
    rows: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    threads: int = 1,
) -> bool:
    """The same of some rows: out bfloat16 [n, C], table float32 [R, C], rows uint16 or uint32 [n], strictly
    ascending and below R. Row i of out is row rows[i] of the table.
    """

def union_rows(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    lists: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    *,
    first: int,
    last: int,
) -> int:
    """Writes to out, uint32 [n], what is in any of the lists and from `first` to below `last`, ascending.

    lists: uint16 or uint32 [m], strictly ascending; n is at least the sum of all m. Returns how many there are.
    """

def copy_rows(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    source: torch.Tensor | numpy.typing.NDArray[Any],
    rows: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    but_not: torch.Tensor | numpy.typing.NDArray[Any] | None = None,
    first_row: int = 0,
    threads: int = 1,
) -> None:
    """Copies rows of a table, float32 [R, C]: those of `rows` that are not in `but_not`.

    Both are uint16 or uint32 [m], strictly ascending, numbered so that the first row of the table is `first_row`.
    """

def mark_rows(
    words: torch.Tensor | numpy.typing.NDArray[Any],
    rows: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    first_row: int = 0,
) -> None:
    """Sets a bit for each of `rows` (as in `copy_rows`): bit r % 64 of words[r // 64], uint64 [R / 64]."""

def sum_of_lines(data: torch.Tensor | numpy.typing.NDArray[Any], *, first_line: int, threads: int = 1) -> int:
    """A sum of uint8 [n] by lines of 64 bytes, of which the first one has the number `first_line`.

    What it is and what it notices: pool/kernels/cpu/memory/lines.h. A last line that is not whole goes on with zeros.
    """

def copy_lines(
    out: torch.Tensor | numpy.typing.NDArray[Any],
    source: torch.Tensor | numpy.typing.NDArray[Any],
    *,
    first_line: int,
    changed: torch.Tensor | numpy.typing.NDArray[Any] | None = None,
    row_nbytes: int = 0,
    threads: int = 1,
) -> int:
    """Copies source, uint8 [n], to out, uint8 [n rounded up to lines], and returns its `sum_of_lines`.

    With `changed`, uint64 [rows / 64] as `mark_rows` sets it, only lines that hold a part of a marked row of `row_nbytes`
    bytes are copied, and by how much the sum changes (modulo 2^64) is returned.
    """

def keep_freed_memory() -> bool:
    """Tells malloc to keep large blocks when they are freed: no page faults for the next step's activations.

    For a process that allocates the same sizes step after step, before its first large tensor. The process
    keeps its high-water mark. The heap's first 1.9 GB come in huge pages, where the system allows them. False
    where the C library has no such setting.
    """

def return_free_memory() -> None:
    """Gives back what is free in the heap now, but for its end, although `keep_freed_memory` was called.

    For a process whose beginning took more than its steps do.
    """

def arm_crash_point(name: str, at: int, how: str) -> None:
    """The `at`-th time (from 1): kill, segv, stop or exit; note: every time, a line on stderr. Raises ValueError."""

def crash_point(name: str) -> None:
    """Does what is armed for this place; nothing, if nothing is."""

class StackForm:
    """What follows the first layer of a chess network, as data; see pool/tasks/chess/cpu/form.h."""

    def __init__(
        self,
        first: str,
        largest_sum: float,
        hidden: Sequence[tuple[int, int, str, float]],
        largest_input: float,
        all_activations: bool,
        skips: int,
    ) -> None:
        """first: "pairwise", "crelu" or "screlu". hidden: outputs, how many of them are active, "both", "crelu" or "screlu",
        and what squares are multiplied with where there are both; of each hidden layer.
        """

    def serves_first_layers(self, l1: int) -> bool:
        """Whether first_layers_forward computes this form behind a table of so many columns."""

    @property
    def memory_width(self) -> int:
        """Floats of a sample that forward leaves for backward."""

def stacks_forward(
    form: StackForm,
    accumulated: torch.Tensor | numpy.typing.NDArray[Any],
    parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    borders: Sequence[int],
    memory: torch.Tensor | numpy.typing.NDArray[Any],
    out: torch.Tensor | numpy.typing.NDArray[Any],
    threads: int = 1,
) -> None:
    """The layer stacks of a chess network, forward; the maths is in pool/tasks/chess/cpu/layer_stacks.h. All float32.

    accumulated [2 * B, L], own perspectives first. parameters: weight and bias of each hidden layer ([S, outputs, inputs],
    [S, outputs]) and of the last ([S, inputs], [S]). borders [S + 1]: samples of each stack, from 0 to B.
    Written: out [B]; for backward memory [B, form.memory_width].
    """

def stacks_backward(
    form: StackForm,
    accumulated: torch.Tensor | numpy.typing.NDArray[Any],
    parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    borders: Sequence[int],
    memory: torch.Tensor | numpy.typing.NDArray[Any],
    grad: torch.Tensor | numpy.typing.NDArray[Any],
    grad_parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    grad_accumulated: torch.Tensor | numpy.typing.NDArray[Any],
    threads: int = 1,
) -> None:
    """Backward of stacks_forward: `grad` [B] is that of its out, memory what it left.

    Written: grad_parameters and grad_accumulated, shaped like parameters and accumulated.
    """

def first_layers_forward(
    plan: SparsePlan,
    form: StackForm,
    table: torch.Tensor | numpy.typing.NDArray[Any],
    bias: torch.Tensor | numpy.typing.NDArray[Any],
    parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    borders: Sequence[int],
    activations: torch.Tensor | numpy.typing.NDArray[Any],
    memory: torch.Tensor | numpy.typing.NDArray[Any],
    out: torch.Tensor | numpy.typing.NDArray[Any],
    threads: int = 1,
) -> None:
    """stacks_forward of what plan.forward gives, in one pass along the plan: pool/tasks/chess/cpu/first_layers.h.

    table [num_features, L] and bias [L]: of the first layer; form.serves_first_layers(L) is True. Written too, for backward:
    activations [2 * B, L].
    """

def tails_backward(
    form: StackForm,
    l1: int,
    parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    borders: Sequence[int],
    memory: torch.Tensor | numpy.typing.NDArray[Any],
    grad: torch.Tensor | numpy.typing.NDArray[Any],
    grad_parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    grad_outputs: torch.Tensor | numpy.typing.NDArray[Any],
    threads: int = 1,
) -> None:
    """The first part of backward of first_layers_forward: `grad` [B] is that of its out, memory what it left.

    Written: grad_parameters, shaped like parameters, of which the first becomes zero; grad_outputs [B, outputs of the first
    hidden layer].
    """

def first_layers_backward(
    plan: SparsePlan,
    form: StackForm,
    parameters: Sequence[torch.Tensor | numpy.typing.NDArray[Any]],
    borders: Sequence[int],
    activations: torch.Tensor | numpy.typing.NDArray[Any],
    grad_outputs: torch.Tensor | numpy.typing.NDArray[Any],
    grad_table: torch.Tensor | numpy.typing.NDArray[Any],
    column_sums: torch.Tensor | numpy.typing.NDArray[Any],
    grad_weight: torch.Tensor | numpy.typing.NDArray[Any],
    first_tile: int = 0,
    last_tile: int | None = None,
    threads: int = 1,
) -> None:
    """The second part: grad_table and column_sums as SparsePlan.backward writes them, tile by tile.

    Added to: grad_weight, the first of tails_backward's grad_parameters.
    """
