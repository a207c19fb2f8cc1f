"""SparseLinear as a layer: gradients, the sink of the pool, other dtypes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from pool.nn.batch import SparseInput
from pool.nn.sparse_linear import SparseLinear
from tests.pool.kernels import reference
from tests.pool.kernels.sparse_inputs import input_of, random_input


class Slot:
    """A gradient slot that remembers what happened to it."""

    def __init__(self, borders: Sequence[int] = ()) -> None:
        self.memory: Tensor | None = None
        self.events: list[str] = []
        self.written_rows: dict[int, Tensor] = {}  # copies of the rows below a border, as they were then
        self._borders = borders

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        self.events.append("begin")
        self.memory = torch.full_like(weight, torch.nan, requires_grad=False)
        return self.memory, [*self._borders, len(weight)]

    def report_written(self, weight: Tensor, rows: int) -> None:
        assert self.memory is not None
        assert rows <= len(weight)
        self.events.append(f"{rows} rows")
        self.written_rows[rows] = self.memory[:rows].clone()

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:
        self.finite = bool(finite)
        assert self.memory is not None
        assert self.memory.shape == weight.shape
        self.events.append("done")


def loss_of(out: Tensor) -> Tensor:
    return (out * out.detach().cos()).sum()


def backward(*losses: Tensor) -> None:
    torch.autograd.backward(losses, [torch.ones_like(loss) for loss in losses])


def embedding_bag_gradients(layer: SparseLinear, sparse: SparseInput) -> tuple[Tensor, Tensor, Tensor]:
    """Output and gradients of torch's own layer in double precision."""
    weight = layer.weight.detach().double().requires_grad_()
    bias = torch.zeros(layer.out_features, dtype=torch.float64) if layer.bias is None else layer.bias.detach().double()
    bias.requires_grad_()
    out = bias + torch.nn.functional.embedding_bag(
        sparse.features.long(), weight, sparse.offsets.long(), mode="sum", include_last_offset=True
    )
    backward(loss_of(out))
    assert weight.grad is not None
    assert bias.grad is not None
    return out.detach(), weight.grad, bias.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 8, 33, 64])
def test_layer_agrees_with_embedding_bag(dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(width)
    sparse = random_input(60, 100)
    layer = SparseLinear(100, width, dtype=dtype)
    out = layer(sparse)
    backward(loss_of(out))
    wanted_out, wanted_weight, wanted_bias = embedding_bag_gradients(layer, sparse)
    assert layer.weight.grad is not None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    torch.testing.assert_close(out.double(), wanted_out, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layer.weight.grad.double(), wanted_weight, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layer.bias.grad.double(), wanted_bias, rtol=1e-5, atol=1e-5)


def test_gradcheck_in_double_precision() -> None:
    sparse = input_of([[0, 2], [], [1, 2, 4], [4]], 6)
    layer = SparseLinear(6, 3, dtype=torch.float64)

    def run(weight: Tensor, bias: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (sparse,))
        return out

    assert layer.bias is not None
    assert torch.autograd.gradcheck(run, (layer.weight, layer.bias))


@pytest.mark.parametrize("bias", [False, True])
def test_vmap_over_tables_computes_each_by_itself(bias: bool) -> None:
    sparse = random_input(60, 100)
    layers = [SparseLinear(100, 16, bias=bias) for _ in range(3)]
    names = [name for name, _ in layers[0].named_parameters()]
    stacked = {name: torch.stack([layer.get_parameter(name).detach() for layer in layers], 1) for name in names}
    for tensor in stacked.values():
        tensor.requires_grad_()

    def run(tensors: dict[str, Tensor]) -> Tensor:
        out: Tensor = torch.func.functional_call(layers[0], tensors, (sparse,))
        return out

    found = torch.func.vmap(run, in_dims=1)(stacked)
    backward(loss_of(found))
    wanted = torch.stack([layer(sparse) for layer in layers])
    backward(loss_of(wanted))
    assert torch.equal(found, wanted)
    for name in names:
        gradient = stacked[name].grad
        assert gradient is not None
        assert torch.equal(gradient, torch.stack([_gradient(layer, name) for layer in layers], 1))


def _gradient(layer: SparseLinear, name: str) -> Tensor:
    gradient = layer.get_parameter(name).grad
    assert gradient is not None
    return gradient


def test_without_bias_an_empty_bag_is_zeros() -> None:
    layer = SparseLinear(5, 16, bias=False)
    assert layer.bias is None
    out = layer(input_of([[], [1]], 5))
    assert (out[0] == 0).all()
    assert torch.equal(out[1], layer.weight[1])


@pytest.mark.parametrize("bags", [[], [[], []]])
def test_a_batch_without_features_gives_zero_gradients(bags: list[list[int]]) -> None:
    for dtype in (torch.float32, torch.float64):
        layer = SparseLinear(5, 16, dtype=dtype)
        out = layer(input_of(bags, 5))
        assert out.shape == (len(bags), 16)
        backward(out.sum())
        assert layer.weight.grad is not None
        assert (layer.weight.grad == 0).all()


def test_use_twice_adds_gradients() -> None:
    layer = SparseLinear(30, 16)
    first, second = random_input(10, 30, seed=1), random_input(12, 30, seed=2)
    backward(loss_of(layer(first)), loss_of(layer(second)))
    both = layer.weight.grad
    total = torch.zeros_like(layer.weight)
    for sparse in (first, second):
        layer.zero_grad()
        backward(loss_of(layer(sparse)))
        assert layer.weight.grad is not None
        total += layer.weight.grad
    torch.testing.assert_close(both, total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_a_sink_touched_rows_go_there_and_no_gradient_is_made(dtype: torch.dtype) -> None:
    sparse = random_input(40, 200)
    layer = SparseLinear(200, 16, dtype=dtype)
    backward(loss_of(layer(sparse)))
    wanted = layer.weight.grad
    assert wanted is not None
    layer.zero_grad()
    slot = Slot()
    layer.gradient_sink = slot
    backward(loss_of(layer(sparse)))
    assert layer.weight.grad is None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert slot.events == ["begin", "200 rows", "done"]
    assert slot.memory is not None
    touched = sparse.touched.long()
    assert torch.equal(slot.memory[touched], wanted[touched])
    assert slot.memory.isnan().all(dim=1).sum() == 200 - len(touched)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bags", [40, 6000], ids=["not planned", "planned"])
def test_rows_below_a_border_are_final_when_it_is_told(bags: int, dtype: torch.dtype) -> None:
    sparse = random_input(bags, 500, most=20)
    layer = SparseLinear(500, 48, dtype=dtype)
    whole = Slot()
    layer.gradient_sink = whole
    backward(loss_of(layer(sparse)))
    total = layer.bias.grad if layer.bias is not None else None
    assert total is not None
    layer.zero_grad()
    layer.gradient_sink = slot = Slot((16, 160, 176, 496))
    backward(loss_of(layer(sparse)))
    assert whole.memory is not None
    for rows, then in slot.written_rows.items():
        assert torch.equal(then.nan_to_num(-1), whole.memory[:rows].nan_to_num(-1))
    assert slot.events == ["begin", *(f"{rows} rows" for rows in (16, 160, 176, 496, 500)), "done"]
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert torch.equal(layer.bias.grad, total)


def test_with_a_sink_a_second_use_in_one_backward_is_refused() -> None:
    sparse = random_input(40, 200)
    layer = SparseLinear(200, 16, field="words")
    layer.gradient_sink = Slot()
    with pytest.raises(RuntimeError, match=r"field 'words'.* more than once in one backward"):
        backward(loss_of(layer(sparse) * layer(sparse)))
    backward(loss_of(layer(sparse)))  # and the next backward is not held against it
    backward(loss_of(layer(sparse)))


def test_frozen_parameters_get_no_gradient() -> None:
    layer = SparseLinear(20, 16)
    layer.gradient_sink = slot = Slot()
    layer.weight.requires_grad_(False)
    backward(loss_of(layer(random_input(10, 20))))
    assert slot.events == []
    assert layer.bias is not None
    assert layer.bias.grad is not None


def test_gradient_bits_do_not_depend_on_torch_threads() -> None:
    sparse = random_input(6000, 500, most=20)
    torch.manual_seed(0)
    layer = SparseLinear(500, 256)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            layer.zero_grad()
            out = layer(sparse)
            backward(out / 3)
            assert layer.bias is not None
            results.append((out.detach(), layer.weight.grad, layer.bias.grad))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for tensor, first in zip(result, results[0], strict=True):
            assert tensor is not None
            assert first is not None
            assert torch.equal(tensor, first)


def test_a_gradient_with_odd_strides_is_understood() -> None:
    sparse = random_input(10, 20)
    layer = SparseLinear(20, 16)
    backward(layer(sparse).sum())  # autograd hands in one number expanded to the whole shape
    assert layer.weight.grad is not None
    counts = torch.bincount(sparse.features.long(), minlength=20).float()
    assert torch.equal(layer.weight.grad, counts[:, None].expand(20, 16))


def test_a_feature_beyond_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="features holds 9, but there are 5 rows in weight"):
        SparseLinear(5, 16)(input_of([[9]], 10))


def test_initial_weights_are_uniform_within_the_bound_of_fan_in() -> None:
    torch.manual_seed(0)
    layer = SparseLinear(400, 64)
    assert layer.weight.abs().max() <= 0.050001
    assert layer.weight.abs().mean().item() == pytest.approx(0.025, rel=0.05)


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive, not 0, 16"):
        SparseLinear(0, 16)


def test_reference_backward_leaves_other_rows_alone() -> None:
    sparse = input_of([[1], [3, 1]], 5)
    grad = torch.full((5, 2), torch.nan, dtype=torch.float64)
    reference.backward_rows(sparse, torch.ones(2, 2, dtype=torch.float64), grad)
    assert grad[[1, 3]].tolist() == [[2, 2], [1, 1]]
    assert grad[[0, 2, 4]].isnan().all()
