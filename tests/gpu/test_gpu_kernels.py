"""The kernels on a real CUDA device: `make gpu-check`. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from pool.kernels.backend import backend_of
from pool.kernels.cuda import sparse as sparse_sums
from pool.kernels.finite import Outcomes
from pool.kernels.reduction import Addend
from pool.nn.sparse_linear import SparseLinear
from pool.optim import Adam, RangerLite
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.training.config import LossConfig
from tests.pool.kernels import reference
from tests.pool.kernels.cuda.alone.models import Name, agree, batch, randomised, results
from tests.pool.kernels.cuda.alone.win_rate_loss import computed, given
from tests.pool.kernels.sparse_inputs import random_input

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.timeout(300),
]
DEVICE = torch.device("cuda:0")


@pytest.mark.parametrize("width", [7, 16, 1024])
def test_sums_of_lists(width: int) -> None:
    sparse = random_input(3000, 40)
    weight, gradient = torch.randn(40, width), torch.randn(3000, width)
    there = sparse.to(DEVICE)
    assert backend_of(DEVICE) == "cuda", "no kernels: the log says why"
    found = sparse_sums.sum_lists(weight.to(DEVICE), there.features, there.offsets, None, None)
    torch.testing.assert_close(found.cpu(), reference.forward(weight, None, sparse), rtol=1e-5, atol=1e-5)
    found = sparse_sums.sum_long_lists(gradient.to(DEVICE), there.bags, there.touched_offsets, None)
    torch.testing.assert_close(found.cpu(), reference.touched_rows(sparse, gradient), rtol=1e-4, atol=1e-4)


def test_the_layer_agrees_with_the_cpus() -> None:
    sparse = random_input(500, 300)
    layer, there = SparseLinear(300, 64), SparseLinear(300, 64).to(DEVICE)
    there.load_state_dict(layer.state_dict())
    found = []
    for each, active in ((layer, sparse), (there, sparse.to(DEVICE))):
        out = each(active)
        out.square().sum().backward()
        assert each.weight.grad is not None
        found.append((out.cpu(), each.weight.grad.cpu()))
    torch.testing.assert_close(*(out for out, _ in found), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*(gradient for _, gradient in found), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [Adam, RangerLite])
def test_a_step_has_the_bits_of_the_cpus(kind: type[Adam] | type[RangerLite]) -> None:
    gradients = [torch.randn(4096) for _ in range(4)]
    weights = torch.randn(4096)
    found = []
    for device in (torch.device("cpu"), DEVICE):
        parameter = torch.nn.Parameter(weights.to(device, copy=True))
        optimizer = kind([parameter])
        addends = [Addend(place, gradient.to(device), None) for place, gradient in enumerate(gradients)]
        optimizer.set_global_norm(1.0, 4096)
        optimizer.reduce_and_step(parameter, parameter.data.clone(), addends, scale=0.25)
        found.append(parameter.data.cpu())
    assert torch.equal(*found)


@pytest.mark.parametrize("version", ["SFNNv5", "SFNNv16"])
def test_stockfishs_networks(version: Name) -> None:
    fused, plain = (StockfishModel(ModelConfig(version=version, l1=32)) for _ in range(2))
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    found = results(fused.to(DEVICE), batch().to(DEVICE))
    agree({name: tensor.cpu() for name, tensor in found.items()}, results(plain.double(), batch()))


def test_the_loss_and_its_gradient() -> None:
    config, (output, positions) = LossConfig(weight_boost=2.0, asymmetry=0.5), given(5000)
    found = computed(config, output.to(DEVICE), positions.to(DEVICE))
    wanted = computed(config, output.double(), positions)
    for each, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(each.cpu().double(), want, rtol=1e-3, atol=1e-7)


def test_what_is_not_finite_is_found() -> None:
    outcomes = Outcomes(DEVICE, 4)
    outcomes.start_group()
    outcomes.start_batch()
    broken = torch.zeros(1 << 20, device=DEVICE)
    broken[777_777] = torch.inf
    flags = [outcomes.check(gradient) for gradient in (torch.zeros_like(broken), broken)]
    numbers = outcomes.gather(torch.tensor([0.5], device=DEVICE), flags)
    assert outcomes.decode(numbers.cpu().numpy()) == ([0.5], [True, False])
