"""Types of the native part: kernels on CPU memory, no copies, the GIL released while they run.

Arrays are torch CPU tensors or numpy arrays (read-only ones too, where they are only read), contiguous, of
exactly the dtype named here. What does not fit is a ValueError that names the argument and the numbers; it is
raised before anything is written. Every result has the same bits for any number of threads (1 to 1024) and at
every SIMD level.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from torch import Tensor

_Array = Tensor | npt.NDArray[Any]

def simd_level() -> str:
    """The level whose kernels run: "baseline", "avx2" or "avx512"; at first the best that this CPU has."""

def simd_levels() -> list[str]:
    """The levels that this CPU can run, narrowest first."""

def set_simd_level(level: str) -> None:
    """Chooses the kernels of the whole process, for tests and benchmarks; not while any of them runs."""

def build_info() -> str:
    """Compiler and version of this build."""

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

def sparse_forward(
    weight: _Array, bias: _Array | None, offsets: _Array, features: _Array, out: _Array, threads: int = 1
) -> None:
    """out[i] = bias + weight[features[offsets[i]]] + ... + weight[features[offsets[i + 1] - 1]], left to right.

    weight float32 [F, O], bias float32 [O] or None (zeros), offsets uint32 [N + 1] from 0 to A,
    features uint16 or uint32 [A], out float32 [N, O].
    """

def sparse_backward_rows(
    touched: _Array,
    touched_offsets: _Array,
    bags: _Array,
    grad_out: _Array,
    grad_weight: _Array,
    *,
    first: int = 0,
    last: int | None = None,
    threads: int = 1,
) -> None:
    """grad_weight[touched[j]] = grad_out[bags[touched_offsets[j]]] + ..., left to right, for first <= j < last.

    Rows of other features are neither read nor written. `last` None: all of them.
    touched uint16 or uint32 [M], strictly ascending, touched_offsets uint32 [M + 1], bags uint16 or uint32 [A],
    grad_out float32 [N, O], grad_weight float32 [F, O]. Only the lists of [first, last) are checked.
    """

def column_sum(matrix: _Array, out: _Array, threads: int = 1) -> None:
    """out[c] = the sum of column c: sums of 256 rows each, added from the first. float32 [N, O] and [O]."""

class SparsePlan:
    """How the bags of one batch are summed with few reads; see pool/native/sparse_plan.h. Keeps no view of its input.

    Forward and backward compute what sparse_forward and sparse_backward_rows do, in another order of additions,
    which depends on the bags alone.
    """

    def __init__(self, offsets: _Array, features: _Array, num_features: int) -> None:
        """offsets uint32 [N + 1] from 0 to A, features uint16 or uint32 [A], each below num_features."""

    @property
    def worth(self) -> bool:
        """Whether bags share enough rows; if not, the plan is empty and must not be used (ValueError)."""

    def forward(self, weight: _Array, bias: _Array | None, out: _Array, threads: int = 1) -> None:
        """out [N, O]: bias [O] or None (zeros) plus the rows of weight [num_features, O]. All float32."""

    @property
    def num_tiles(self) -> int:
        """Bags that share rows are summed tile by tile."""

    def tiles_until(self, row: int) -> int:
        """How many tiles have to be done in backward until no row below `row` changes any more."""

    def backward(
        self,
        grad_out: _Array,
        grad_weight: _Array,
        column_sums: _Array,
        first_tile: int = 0,
        last_tile: int | None = None,
        threads: int = 1,
    ) -> None:
        """Rows of grad_weight [num_features, O] of all features in bags: sums of rows of grad_out [N, O].

        column_sums [O]: sum of all rows of grad_out. Tiles may be done in several calls, in order, with the same bits.
        """

def stacks_forward(
    accumulated: _Array,
    parameters: Sequence[_Array],
    borders: Sequence[int],
    first: _Array,
    second: _Array,
    out: _Array,
    threads: int = 1,
) -> None:
    """The layer stacks of the nnue task, forward; the maths is in pool/native/layer_stacks.h. All float32.

    accumulated [2 * B, L], own perspectives first. parameters: weight and bias of fc_0 ([S, 16, L], [S, 16]), fc_1
    ([S, 32, 30], [S, 32]) and fc_2 ([S, 32], [S]). borders [S + 1]: samples of each stack, from 0 to B.
    Written: out [B]; for backward first [B, 16] and second [B, 32].
    """

def stacks_backward(
    accumulated: _Array,
    parameters: Sequence[_Array],
    borders: Sequence[int],
    first: _Array,
    second: _Array,
    grad: _Array,
    grad_parameters: Sequence[_Array],
    grad_accumulated: _Array,
    threads: int = 1,
) -> None:
    """Backward of stacks_forward: `grad` [B] is that of its out, first and second are what it left.

    Written: grad_parameters and grad_accumulated, shaped like parameters and accumulated.
    """

def copy_checked(out: _Array, source: _Array) -> bool:
    """Copies source to out, both float32 [n]; whether all of it is finite."""

def fold(
    out: _Array, sources: Sequence[_Array], *, accumulate: bool = False, scale: float = 1.0, threads: int = 1
) -> None:
    """out = ((out if accumulate) + sources[0] + sources[1] + ...) * scale, left to right; all float32 [n].

    Without `accumulate` the fold begins with sources[0] itself (zeros if there is none). A scale of 1.0
    multiplies nothing. Cutting the list over several calls that accumulate gives the same bits.
    """

def fold_rows(
    out: _Array,
    sources: Sequence[tuple[_Array, _Array]],
    *,
    accumulate: bool = False,
    scale: float = 1.0,
    first_row: int = 0,
    threads: int = 1,
) -> None:
    """The fold of tables of which a source defines only the rows it touched; its other rows are never read.

    out float32 [R, C]; sources: (gradient float32 [R, C], touched uint16 or uint32 [m], strictly ascending).
    Row r belongs to feature first_row + r; touched holds feature numbers, also beyond these rows. A row
    begins with 0.0 (or `out`): rows touched by none become zeros, or stay as they are (times scale).
    Cutting the list over several calls that accumulate gives the same bits.
    """

def adam(
    weights: _Array,
    old: _Array,
    mean: _Array,
    square: _Array,
    sources: Sequence[_Array],
    *,
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
    """A step of Adam whose gradient is the fold of the sources, in one pass; the formula is in pool/native/adam.h.

    All float32 [n]. weights are written, old are those of the version before (or the same memory); mean and square,
    the moments, change in place. `step` counts from 1. The same bits as `fold` and then this with the sum alone.
    """

def adam_rows(
    weights: _Array,
    old: _Array,
    mean: _Array,
    square: _Array,
    sources: Sequence[tuple[_Array, _Array]],
    *,
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

def crc32c(data: npt.NDArray[Any], before: int = 0) -> int:
    """CRC-32C (RFC 3720 B.4) of uint8 [n], going on from the sum of what came before it."""

# --- places where a test may have the process die (loader/native/testing) ---

def arm_crash_point(name: str, at: int, how: str) -> None:
    """The `at`-th time (from 1): kill, segv, stop or exit; note: every time, a line on stderr. Raises ValueError."""

def crash_point(name: str) -> None:
    """Does what is armed for this place; nothing, if nothing is."""
