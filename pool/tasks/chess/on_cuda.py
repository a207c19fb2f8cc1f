"""What follows the first layer by kernels for CUDA devices: the form that native code has, in theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from torch import Tensor

from pool.tasks.chess.cuda import layer_stacks, stack_form
from pool.tasks.chess.cuda.stack_form import Kind, StackForm
from pool.tasks.chess.cuda.weights_in_effect import WAYS, InEffect
from pool.tasks.chess.fused import Form
from pool.tasks.chess.quantization import Rounding


def serves(form: Form, x: Tensor, buckets: int) -> bool:
    """Whether `outputs` takes this form, and stacks for so many buckets, behind x."""
    return _form(form).serves and buckets <= layer_stacks.MOST_BUCKETS and layer_stacks.serves(x)


def outputs(
    form: Form,
    x: Tensor,
    extra: Tensor | None,
    borders: Sequence[int],
    parameters: Sequence[Tensor],
    shared: tuple[Tensor, Tensor] | None = None,
    rules: Iterable[Rounding | None] = (),
    factor: float = 1.0,
) -> Tensor:
    """[samples]: what the stacks make of `x` [samples, inputs], the first layer's activations, plus `extra` [samples].

    parameters: weight and bias of each layer, [buckets, outputs, inputs] and [buckets, outputs]; to the first ones
    `shared` is added, each is rounded by its rule, if there are any, and the first weight is multiplied by `factor`."""
    changes = InEffect(factor, tuple(map(_rule, rules)))
    return layer_stacks.layer_stacks(_form(form), x, extra, borders, parameters, shared, changes)


def _rule(rule: Rounding | None) -> tuple[float, int]:
    return (1.0, 0) if rule is None else (rule.scale, WAYS.index(rule.way))


@lru_cache(maxsize=64)
def _form(form: Form) -> StackForm:
    hidden = (
        stack_form.Hidden(
            each.outputs,
            each.outputs if each.active is None else each.active,
            Kind[each.activation.upper()],
            each.square,
        )
        for each in form.hidden
    )
    return StackForm(tuple(hidden), form.largest_input, form.all_activations, form.skips)
