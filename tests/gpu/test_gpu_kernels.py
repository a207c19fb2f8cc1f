"""The kernels on a real CUDA device: `make gpu-check`. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from pool.cuda import folding, sparse_sums
from pool.exchange.addend import Addend
from pool.nn import reference
from pool.optim.adam import Adam
from pool.tasks.stockfish.config import ModelConfig
from pool.tasks.stockfish.model import StockfishModel
from tests.cuda.alone.models import Name, agree, batch, randomised, results
from tests.nn.sparse_inputs import random_input

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
    assert sparse_sums.serves(weight.to(DEVICE)), "no kernels: the log says why"
    found = sparse_sums.sum_lists(weight.to(DEVICE), there.features, there.offsets, None, None)
    torch.testing.assert_close(found.cpu(), reference.forward(weight, None, sparse), rtol=1e-5, atol=1e-5)
    found = sparse_sums.sum_long_lists(gradient.to(DEVICE), there.bags, there.touched_offsets, None)
    torch.testing.assert_close(found.cpu(), reference.touched_rows(sparse, gradient), rtol=1e-4, atol=1e-4)


def test_a_step_of_adam_has_the_bits_of_the_cpus() -> None:
    parameter = torch.nn.Parameter(torch.randn(4096))
    weights = parameter.detach().clone().to(DEVICE)
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    gradients = [torch.randn(4096) for _ in range(4)]
    step = folding.AdamStep.of(
        learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, decoupled=False, step=1
    )
    there = [gradient.to(DEVICE) for gradient in gradients]
    folding.adam(weights, weights.clone(), mean, square, there, [0, 1, 2, 3], 0.25, step.numbers)
    addends = [Addend(place, gradient, None) for place, gradient in enumerate(gradients)]
    Adam([parameter]).fold_and_step(parameter, parameter.data.clone(), addends, scale=0.25)
    assert torch.equal(weights.cpu(), parameter.data)


@pytest.mark.parametrize("version", ["SFNNv5", "SFNNv16"])
def test_stockfishs_networks(version: Name) -> None:
    fused, plain = (StockfishModel(ModelConfig(version=version, l1=32)) for _ in range(2))
    randomised(fused)
    plain.load_state_dict(fused.state_dict())
    found = results(fused.to(DEVICE), batch().to(DEVICE))
    agree({name: tensor.cpu() for name, tensor in found.items()}, results(plain.double(), batch()))
