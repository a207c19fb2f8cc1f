"""The fused first stage, against plain torch in double precision."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from pool.kernels.cuda import sparse as kernels
from pool.nn.batch import SparseInput
from pool.tasks.chess.cuda.first_stage import NOT_CUT, Activation, Cut, WriteGradient, fused_first_stage
from pool.tasks.chess.stockfish.versions import VERSIONS
from pool.tasks.chess.training.fake_quantization import fake_floor
from tests.pool.kernels import reference
from tests.pool.kernels.cuda.on_cpu import CpuLauncher
from tests.pool.kernels.sparse_inputs import input_of, random_input

FEATURES = 40
CUTS = {
    "SFNNv5": Cut(VERSIONS["SFNNv5"].product_factor, 127),
    "SFNNv16": Cut(VERSIONS["SFNNv16"].product_factor, 128),
    "perspective": Cut(one=255**2 / 512),
    "many on a step": Cut(one=256),  # products of multiples of 1/16
}
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-2}


def plain(weight: Tensor, bias: Tensor, sparse: SparseInput, highest: float, activation: Activation) -> Tensor:
    """As StockfishModel and PerspectiveModel do it."""
    active = torch.zeros(sparse.num_bags, FEATURES, dtype=weight.dtype)
    bags = torch.repeat_interleave(torch.arange(sparse.num_bags), sparse.offsets.to(torch.int64).diff())
    active[bags, sparse.features.long()] = 1
    x = functional.hardtanh(active @ weight + bias, 0.0, highest)
    if activation == Activation.PAIRWISE:
        low, high = x.chunk(2, dim=1)
        x = low * high
    elif activation == Activation.SCRELU:
        x = x.square()
    return torch.cat(x.chunk(2), dim=1)


def computed(
    weight: Tensor,
    bias: Tensor,
    sparse: SparseInput,
    write: WriteGradient,
    highest: float,
    activation: Activation,
    cut: Cut = NOT_CUT,
) -> Tensor:
    """Of a table as it is."""
    lists = sparse.features, sparse.offsets
    return fused_first_stage(weight, bias, (weight, bias), *lists, write, highest, activation, cut)


def parameters(columns: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """In bfloat16 multiples of 1/16, whose sums are exact: none is rounded to a border at which it is clipped."""
    generator = torch.Generator().manual_seed(columns)
    weight = torch.randn(FEATURES, columns, generator=generator) * 0.4
    bias = torch.randn(columns, generator=generator) * 0.2 + 0.3
    if dtype == torch.bfloat16:
        weight, bias = ((tensor * 16).round() / 16 for tensor in (weight, bias))
    return weight.to(dtype), bias.to(dtype)


def run(sparse: SparseInput, columns: int, dtype: torch.dtype, highest: float, activation: Activation) -> list[Tensor]:
    """The output and the gradients of weight and bias; of the weight, rows that are not touched are zeros."""
    weight, bias = (tensor.requires_grad_() for tensor in parameters(columns, dtype))

    def write(gradient: Tensor) -> Tensor:
        rows = kernels.sum_long_lists(gradient, sparse.bags, sparse.touched_offsets, None)
        return torch.zeros_like(weight).index_copy(0, sparse.touched.long(), rows)

    out = computed(weight, bias, sparse, write, highest, activation)
    out.backward(slope(out))
    assert weight.grad is not None
    assert bias.grad is not None
    return [out.detach(), weight.grad, bias.grad]


def slope(out: Tensor) -> Tensor:
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(out.dtype)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize(
    ("columns", "samples", "highest"), [(16, 45, 1.0), (6, 1, 1.0), (1040, 3, 255 / 256), (48, 0, 1.0)]
)
def test_forward_and_backward(
    columns: int, samples: int, highest: float, activation: Activation, dtype: torch.dtype
) -> None:
    sparse = random_input(2 * samples, FEATURES, seed=columns)
    found = run(sparse, columns, dtype, highest, activation)
    weight, bias = (tensor.double().requires_grad_() for tensor in parameters(columns, dtype))
    wanted = plain(weight, bias, sparse, highest, activation)
    wanted.backward(slope(found[0]).double())
    assert weight.grad is not None
    assert bias.grad is not None
    allowed = TOLERANCE[dtype]
    for name, each, want in zip(("out", "weight", "bias"), found, (wanted, weight.grad, bias.grad), strict=True):
        torch.testing.assert_close(
            each.double(), want, rtol=allowed, atol=allowed * 10, msg=partial("{}: {}".format, name)
        )


@pytest.mark.usefixtures("cpu")
def test_the_bits_are_those_of_the_layer_and_of_torch() -> None:
    """In float32: the same sums, then one rounding for each operation."""
    sparse = random_input(200, FEATURES, most=30)
    weight, bias = parameters(16, torch.float32)
    sums = kernels.sum_lists(weight, sparse.features, sparse.offsets, None, bias)
    low, high = functional.hardtanh(sums, 0.0, 1.0).chunk(2, dim=1)
    found = computed(weight, bias, sparse, lambda _: None, 1.0, Activation.PAIRWISE)
    assert torch.equal(found, torch.cat((low * high).chunk(2), dim=1))


def test_the_same_bits_for_other_blocks_and_orders(cpu: CpuLauncher) -> None:
    sparse = random_input(90, FEATURES)

    def bits() -> list[bytes]:
        return [tensor.numpy().tobytes() for tensor in run(sparse, 48, torch.float32, 1.0, Activation.PAIRWISE)]

    wanted = bits()
    for cpu.threads, cpu.backward in ((None, False), (1, False), (2, True), (1024, True)):
        assert bits() == wanted


@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize(("columns", "samples"), [(16, 45), (6, 1), (24, 3), (1040, 3), (48, 0)])
def test_a_table_of_bfloat16_beside_a_bias_of_float32(
    columns: int, samples: int, activation: Activation, cpu: CpuLauncher
) -> None:
    """The bits of the same numbers in float32."""
    sparse = random_input(2 * samples, FEATURES, seed=columns)
    weight, bias = parameters(columns, torch.float32)
    table = weight.bfloat16()
    weight.requires_grad_()
    bias.requires_grad_()
    found: list[list[Tensor]] = []
    for each, cpu.backward in ((table.float(), False), (table, False), (table, True)):
        seen: list[Tensor] = []
        lists = sparse.features, sparse.offsets
        out = fused_first_stage(weight, bias, (each, bias), *lists, seen.append, 1.0, activation)
        bias.grad = None
        out.backward(slope(out))
        assert bias.grad is not None
        found.append([out.detach(), seen[0], bias.grad])
    for mixed in found[1:]:
        for one, other in zip(found[0], mixed, strict=True):
            assert one.dtype == other.dtype == torch.float32
            assert torch.equal(one, other)


@pytest.mark.usefixtures("cpu")
def test_a_sum_at_a_border_has_no_gradient_and_a_nan_stays_one() -> None:
    sparse = input_of([[0], [1], [2], [3]], FEATURES)
    weight, bias = torch.zeros(FEATURES, 2), torch.zeros(2, requires_grad=True)
    weight[1], weight[2], weight[3] = 1.0, torch.nan, 0.5
    weight.requires_grad_()
    seen: list[Tensor] = []
    out = computed(weight, bias, sparse, lambda sums: seen.append(sums), 1.0, Activation.CRELU)
    out.backward(torch.ones_like(out))
    assert out.isnan().tolist() == [[False] * 2 + [True] * 2, [False] * 4]
    assert seen[0].tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]


@pytest.mark.usefixtures("cpu")
def test_it_agrees_with_the_layers_own_backward() -> None:
    """Gradients of rows: those of reference.touched_rows, given the same gradient of the sums."""
    sparse = random_input(60, FEATURES)
    weight, bias = (tensor.requires_grad_() for tensor in parameters(16, torch.float32))
    seen: list[Tensor] = []
    out = computed(weight, bias, sparse, lambda sums: seen.append(sums), 1.0, Activation.SCRELU)
    out.sum().backward()
    rows = kernels.sum_long_lists(seen[0], sparse.bags, sparse.touched_offsets, None)
    torch.testing.assert_close(rows, reference.touched_rows(sparse, seen[0]))


def by_torch(kept: Tensor, highest: float, cut: Cut) -> Tensor:
    """As StockfishModel and PerspectiveModel do it, of sums."""
    low, high = functional.hardtanh(kept, 0.0, highest).chunk(2, dim=1)
    return torch.cat(fake_floor(low * high * cut.factor, cut.one).chunk(2), dim=1)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("table", TOLERANCE)
@pytest.mark.parametrize("columns", [16, 6])
def test_products_that_are_cut_have_torchs_bits(columns: int, table: torch.dtype, name: str) -> None:
    """Forward, and the gradient of the sums, which passes the cut; of tables of float32 and bfloat16."""
    sparse, cut, highest = random_input(400, FEATURES, seed=columns), CUTS[name], 255 / 256
    weight, bias = parameters(columns, torch.bfloat16 if name == "many on a step" else torch.float32)
    rows, start, seen = weight.to(table), bias.float().requires_grad_(), list[Tensor]()
    weight.requires_grad_()
    lists = sparse.features, sparse.offsets
    out = fused_first_stage(weight, start, (rows, start), *lists, seen.append, highest, Activation.PAIRWISE, cut)
    out.backward(slope(out))
    sums = kernels.sum_lists(rows.float(), *lists, None, start.detach()).requires_grad_()
    wanted = by_torch(sums, highest, cut)
    wanted.backward(slope(wanted))
    assert torch.equal(out, wanted)
    assert sums.grad is not None
    assert torch.equal(seen[0], sums.grad)
    steps = wanted * cut.one
    assert (steps - steps.round()).abs().max() < 1e-4
    assert len(steps.round().unique()) > 50


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("name", CUTS)
def test_products_in_bfloat16_are_cut_before_they_are_rounded(name: str) -> None:
    sparse, cut = random_input(90, FEATURES, seed=3), CUTS[name]
    weight, bias = parameters(16, torch.bfloat16)
    lists = sparse.features, sparse.offsets
    out = computed(weight, bias, sparse, lambda _: None, 1.0, Activation.PAIRWISE, cut)
    sums = kernels.sum_lists(weight, *lists, None, bias).float()
    assert torch.equal(out, by_torch(sums, 1.0, cut).bfloat16())


@pytest.mark.usefixtures("cpu")
@given(st.lists(st.floats(width=32, allow_nan=True), min_size=4, max_size=4), st.sampled_from(sorted(CUTS)))
def test_any_product_is_cut_as_by_torch(sums: list[float], name: str) -> None:
    """A NaN stays one."""
    sparse, cut = input_of([[], []], FEATURES), CUTS[name]
    weight, bias = torch.zeros(FEATURES, 4), torch.tensor(sums)
    out = computed(weight, bias, sparse, lambda _: None, 1.0, Activation.PAIRWISE, cut)
    wanted = by_torch(bias.repeat(2, 1), 1.0, cut)
    torch.testing.assert_close(out, wanted, rtol=0, atol=0, equal_nan=True)
