"""The sparse layer over features with values: against double precision, torch's own layer, itself without values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from tests.pool.kernels import reference
from tests.pool.kernels.sparse_inputs import input_of, random_input, random_values, with_values

WIDTHS = [1, 3, 8, 16, 31, 32, 33, 256, 272]


class Slot:
    """A gradient slot that is asked for in parts."""

    def __init__(self, borders: Sequence[int] = ()) -> None:
        self.finite: bool | None = None
        self._borders = borders

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        self.memory = torch.zeros_like(weight, requires_grad=False)
        return self.memory, [*self._borders, len(weight)]

    def report_written(self, weight: Tensor, rows: int) -> None:
        pass

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:  # noqa: ARG002
        self.finite = bool(finite)


def gradients(layer: SparseLinear, sparse: SparseInput, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Output, gradient of the table, gradient of the bias."""
    layer.zero_grad()
    out = layer(sparse)
    torch.autograd.backward([out], [grad_out])
    assert layer.weight.grad is not None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    return out.detach(), layer.weight.grad, layer.bias.grad


def in_double(layer: SparseLinear, sparse: SparseInput, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same by matrices: bags x features, holding the values."""
    assert sparse.values is not None
    matrix = torch.zeros(sparse.num_bags, layer.num_features, dtype=torch.float64)
    bag_of = torch.repeat_interleave(torch.arange(sparse.num_bags), sparse.offsets.long().diff())
    matrix.index_put_((bag_of, sparse.features.long()), sparse.values.double(), accumulate=True)
    assert layer.bias is not None
    out = layer.bias.detach().double() + matrix @ layer.weight.detach().double()
    return out, matrix.T @ grad_out.double(), grad_out.double().sum(0)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", WIDTHS)
def test_layer_agrees_with_double_precision(width: int) -> None:
    torch.manual_seed(width)
    sparse = random_values(random_input(90, 50, seed=width), seed=width)
    layer, grad_out = SparseLinear(50, width), torch.randn(90, width)
    for found, wanted in zip(gradients(layer, sparse, grad_out), in_double(layer, sparse, grad_out), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=5e-6)


@pytest.fixture(scope="module")
def scattered() -> SparseInput:
    """Bags of a table that no near cache holds."""
    return random_input(10_000, 300_000, most=6)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", [1, 8, 16, 32])
@pytest.mark.parametrize("valued", [False, True])
def test_short_rows_of_a_large_table(width: int, valued: bool, scattered: SparseInput) -> None:
    sparse = random_values(scattered) if valued else scattered
    weight, grad_out = torch.randn(300_000, width), torch.randn(10_000, width)
    out, grad = torch.empty(10_000, width), torch.full((300_000, width), 7.0)
    lists = sparse.touched, sparse.touched_offsets, sparse.bags
    _native.sparse_forward(weight, None, sparse.offsets, sparse.features, out, 2, values=sparse.values)
    _native.sparse_backward_rows(*lists, grad_out, grad, values=sparse.column_values, threads=2)
    wanted = torch.full_like(grad, 7.0)
    reference.backward_rows(sparse, grad_out, wanted)
    torch.testing.assert_close(out, reference.forward(weight, None, sparse), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 8, 31, 256])
def test_layer_agrees_with_embedding_bag(width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(width)
    sparse = random_values(random_input(60, 100))
    assert sparse.values is not None
    layer, bag = (
        SparseLinear(100, width, dtype=dtype),
        nn.EmbeddingBag(100, width, mode="sum", include_last_offset=True),
    )
    bag.weight = nn.Parameter(layer.weight.detach().clone())
    grad_out = torch.randn(60, width, dtype=dtype)
    out, grad, bias_grad = gradients(layer, sparse, grad_out)
    assert layer.bias is not None
    wanted = bag(sparse.features.long(), sparse.offsets.long(), sparse.values.to(dtype))
    torch.autograd.backward([wanted], [grad_out])
    torch.testing.assert_close(out, (wanted + layer.bias).detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, bag.weight.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(bias_grad, grad_out.sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", WIDTHS)
def test_outputs_are_those_of_scipy_to_the_bit(width: int) -> None:
    """Which multiplies, then adds, feature after feature. EmbeddingBag and torch's sparse products fuse the two."""
    torch.manual_seed(width)
    sparse = random_values(random_input(90, 50, seed=width), seed=width)
    assert sparse.values is not None
    arrays = (sparse.values.numpy(), sparse.features.numpy(), sparse.offsets.numpy())
    matrix = scipy.sparse.csr_matrix(arrays, shape=(90, 50))
    weight, out = torch.randn(50, width), torch.empty(90, width)
    _native.sparse_forward(weight, None, sparse.offsets, sparse.features, out, values=sparse.values)
    assert out.numpy().tobytes() == (matrix @ weight.numpy()).tobytes()


def test_gradcheck_in_double_precision() -> None:
    sparse = with_values(input_of([[0, 2], [], [1, 2, 4], [4]], 6), [0.5, -2, 0, 3, 0.25, 1])
    layer = SparseLinear(6, 3, dtype=torch.float64)

    def run(weight: Tensor, bias: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (sparse,))
        return out

    assert layer.bias is not None
    assert torch.autograd.gradcheck(run, (layer.weight, layer.bias))


VALUES = st.floats(-4, 4, width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-40])


@given(
    bags=st.lists(st.lists(st.tuples(st.integers(0, 19), VALUES), max_size=6), max_size=12),
    width=st.integers(1, 40),
)
def test_any_values_of_any_bags(bags: list[list[tuple[int, float]]], width: int) -> None:
    """Also of a feature that a bag has twice, which no writer lets through."""
    sparse = with_values(
        input_of([[feature for feature, _ in bag] for bag in bags], 20), [value for bag in bags for _, value in bag]
    )
    layer, grad_out = SparseLinear(20, width), torch.randn(len(bags), width)
    for found, wanted in zip(gradients(layer, sparse, grad_out), in_double(layer, sparse, grad_out), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("best_level")
@pytest.mark.parametrize("width", [1, 8, 16, 32, 33, 256])
def test_bits_do_not_depend_on_threads_or_level(width: int) -> None:
    sparse = random_values(random_input(500, 600, most=30))
    weight, bias, grad_out = torch.randn(600, width), torch.randn(width), torch.randn(500, width)
    results = []
    for level in _native.simd_levels():
        _native.set_simd_level(level)
        for threads in (1, 2, 3, 8):
            out, grad = torch.empty(500, width), torch.zeros(600, width)
            _native.sparse_forward(weight, bias, sparse.offsets, sparse.features, out, threads, values=sparse.values)
            lists = sparse.touched, sparse.touched_offsets, sparse.bags
            assert _native.sparse_backward_rows(*lists, grad_out, grad, values=sparse.column_values, threads=threads)
            results.append((out, grad))
    for out, grad in results[1:]:
        assert torch.equal(out, results[0][0])
        assert torch.equal(grad, results[0][1])


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("width", [1, 16, 33, 256])
def test_values_of_one_give_the_bits_of_none(width: int) -> None:
    plain = random_input(200, 300)
    ones = with_values(plain, [1.0] * plain.features.numel())
    layer, grad_out = SparseLinear(300, width), torch.randn(200, width)
    for found, wanted in zip(gradients(layer, ones, grad_out), gradients(layer, plain, grad_out), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.usefixtures("simd_level")
def test_a_product_is_rounded_before_it_is_added() -> None:
    """As multiply and add: an FMA would keep the last bits of the product."""
    value = 1 + 2**-12
    sparse = with_values(input_of([[0, 1]], 2), [1.0, value])
    for width in (1, 8, 16, 33, 272):
        weight = torch.tensor([[-1.0], [value]]).repeat(1, width)
        out = torch.empty(1, width)
        _native.sparse_forward(weight, None, sparse.offsets, sparse.features, out, values=sparse.values)
        assert set(out[0].tolist()) == {float(np.float32(value) * np.float32(value) - np.float32(1))}
        tiny = with_values(input_of([[0]], 2), [1e-40])  # a denormal, kept
        _native.sparse_forward(weight, None, tiny.offsets, tiny.features, out, values=tiny.values)
        assert set(out[0].tolist()) == {-float(np.float32(1e-40))}


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize(
    ("width", "dtype"), [(w, torch.float32) for w in (1, 8, 16, 31, 32, 272)] + [(3, torch.float64)]
)
@pytest.mark.parametrize(
    ("value", "gradient", "finite"),
    [
        (np.inf, 1.0, False),
        (-np.inf, 0.0, False),
        (np.nan, 0.0, False),
        (3e38, 3e38, None),  # the product overflows in float32; a table of another dtype may hold it
        (0.0, np.inf, False),
        (1e-45, -1e-45, True),
        (0.0, 3e38, True),
    ],
)
def test_what_is_not_finite_in_a_value_or_a_product_is_told(
    value: float, gradient: float, finite: bool | None, width: int, dtype: torch.dtype
) -> None:
    sparse = with_values(input_of([[0, 2], [1, 3], [3], [4]], 5), [1, 2, -1, value, 0.5, 3])
    layer = SparseLinear(5, width, dtype=dtype)
    for borders in ((), (2, 4)):
        layer.gradient_sink = slot = Slot(borders)
        grad_out = torch.ones(4, width, dtype=dtype)
        grad_out[1, width - 1] = gradient
        torch.autograd.backward([layer(sparse)], [grad_out])
        assert slot.finite == bool(slot.memory.isfinite().all())
        assert slot.finite == (finite if finite is not None else dtype == torch.float64)


def test_a_gradient_that_is_not_finite_is_told_though_no_feature_is_touched_by_it() -> None:
    layer = SparseLinear(5, 8)
    layer.gradient_sink = slot = Slot()
    grad_out = torch.ones(2, 8)
    grad_out[1] = torch.nan
    torch.autograd.backward([layer(with_values(input_of([[0], []], 5), [2.0]))], [grad_out])
    assert slot.finite is False


def test_bags_with_values_have_no_plan_and_short_rows_need_none() -> None:
    shared = input_of([[0, 1, 2]] * 50, 4)
    assert shared.plan(4) is not None
    assert random_values(shared).plan(4) is None
    layer, few = SparseLinear(4, 16), SparseLinear(4, 1)
    with_plan, without = input_of([[0, 1, 2]] * 50, 4), input_of([[0, 1, 2]] * 50, 4)
    layer.prepare(with_plan)
    few.prepare(without)
    assert with_plan._plans
    assert not without._plans


def test_values_travel_to_a_device() -> None:
    sparse = random_values(random_input(5, 10))
    moved = sparse.to(torch.device("cpu"))
    assert sparse.values is not None
    assert moved.values is not None
    assert torch.equal(moved.values, sparse.values)
    assert random_input(5, 10).to(torch.device("cpu")).values is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.ones(3), "values has 3 numbers, must have 4"),
        (torch.ones(4, dtype=torch.float64), "values must be float32"),
        (torch.ones(4, 1), "values has 2 dimensions, must have 1"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: Tensor, message: str) -> None:
    sparse = input_of([[0, 1], [1, 2]], 3)
    with pytest.raises(ValueError, match=message):
        _native.sparse_forward(
            torch.ones(3, 8), None, sparse.offsets, sparse.features, torch.zeros(2, 8), values=values
        )
    lists = sparse.touched, sparse.touched_offsets, sparse.bags
    with pytest.raises(ValueError, match=message):
        _native.sparse_backward_rows(*lists, torch.ones(2, 8), torch.zeros(3, 8), values=values)


class PlainModel(nn.Module):
    """What a user of torch alone would write."""

    def __init__(self, layer: SparseLinear, output: nn.Linear) -> None:
        super().__init__()
        assert layer.bias is not None
        self.table = nn.EmbeddingBag(
            layer.num_features, layer.out_features, mode="sum", include_last_offset=True, _weight=layer.weight.clone()
        )
        self.bias = nn.Parameter(layer.bias.detach().clone())
        self.output = output

    def forward(self, sparse: SparseInput) -> Tensor:
        hidden = self.table(sparse.features.long(), sparse.offsets.long(), sparse.values) + self.bias
        out: Tensor = self.output(hidden.relu()).squeeze(1)
        return out


def test_a_training_with_values_is_that_of_torch_alone() -> None:
    torch.manual_seed(3)
    layer, output = SparseLinear(1000, 16), nn.Linear(16, 1)
    ours = nn.Sequential(layer, nn.ReLU(), output, nn.Flatten(0))
    plain = PlainModel(layer, nn.Linear(16, 1))
    plain.output.load_state_dict(output.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (ours, plain)]
    config = data_config(source="synthetic", batch_size=64, synthetic={"values": True})
    losses: list[list[float]] = [[], []]
    with closing(open_stream(config, [], seed=1)) as stream:
        for batch in read_batches(stream, 40):
            tensors = TensorBatch.from_numpy(batch)
            for model, optimizer, kept in zip((ours, plain), optimizers, losses, strict=True):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(tensors.sparse["features"]), tensors.dense["target"])
                loss.backward()
                optimizer.step()
                kept.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]
    torch.testing.assert_close(layer.weight, plain.table.weight, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(layer.bias, plain.bias, rtol=1e-4, atol=1e-6)


# SHA-256 of the weights before fields could have values. Nothing here depends on the machine: the layer's own sums, and
# steps by powers of two.
RECORDED = {
    (1000, 8, 16): "192e12611e17814639a1cd38b7f475640e8b419764eb37ab301309d87d72ef62",
    (40, 8, 33): "89dcf5e3ecb05073a6cd078785d3934d4a4827e19a4d8af3064144d7ee5b821b",
    (100_000, 30, 8): "e2c81544644b355128e5d9c485cdf8a5a56e3c884ec6120489cf376e21193e9c",
    (1000, 8, 1): "060c81c13aa1f83a614eab0b79376432f3ddffaa45347bd18a73276883ba82d3",
}


@pytest.mark.parametrize(("num_features", "active", "width"), list(RECORDED))
def test_weights_of_a_training_without_values_are_those_recorded(num_features: int, active: int, width: int) -> None:
    random = np.random.Generator(np.random.Philox(key=[7, 0]))
    layer = SparseLinear(num_features, width)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.from_numpy(random.random(tuple(parameter.shape)) - 0.5))
    synthetic = {"num_features": num_features, "max_active": active}
    with closing(
        open_stream(data_config(source="synthetic", batch_size=512, synthetic=synthetic), [], seed=5)
    ) as stream:
        for batch in read_batches(stream, 6):
            tensors = TensorBatch.from_numpy(batch)
            out = layer(tensors.sparse["features"])
            error = out.detach() - tensors.dense["target"][:, None]
            layer.zero_grad()
            torch.autograd.backward([out], [error])
            with torch.no_grad():
                for parameter in layer.parameters():
                    assert parameter.grad is not None
                    parameter.copy_(parameter - parameter.grad * 2**-12)
    digest = hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in layer.parameters()))
    assert digest.hexdigest() == RECORDED[num_features, active, width]
