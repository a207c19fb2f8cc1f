"""The loss of networks for chess by kernels, against the same in plain torch and double precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.perspective.config import LossConfig as PerspectiveLoss
from pool.tasks.chess.training import loss as loss_module
from pool.tasks.chess.training.config import LambdaPart, LossConfig
from pool.tasks.chess.training.loss import batch_loss, mean_loss
from pool.tasks.chess.training.score_share import lambda_at
from tests.pool.kernels.cuda.on_cpu import CpuLauncher

FAMILY: dict[str, dict[str, Any]] = {
    "Stockfish 15.1's": {},
    "result alone": {"lambda_start": 0.0, "lambda_end": 0.0},
    "parts of lambda": {"lambda_parts": (LambdaPart(start=1.0, end=0.5, steps=5), LambdaPart(start=0.3))},
    "absolute": {"exponent": 1.0},
    "steep": {"exponent": 8.0, "in_scaling": 50.0, "out_scaling": 2000.0},
    "weights": {"weight_boost": 2.0, "weight_power": 0.5, "lambda_start": 0.7},
    "small weights": {"weight_boost": -3.0, "weight_power": 8.0},
    "same weights": {"weight_boost": 1.0, "weight_power": 0.0},
    "asymmetric": {"asymmetry": 1.5, "exponent": 2.0},
    "all": {"asymmetry": -0.5, "weight_boost": 4.0, "lambda_start": 0.4, "lambda_end": 0.9},
}
PROGRESS = Progress(3, 10)


def given(samples: int, seed: int = 0) -> tuple[Tensor, TensorBatch]:
    """Outputs of a net, a few far away; a batch."""
    generator = torch.Generator().manual_seed(seed)
    score = torch.randint(-1500, 1500, (samples,), generator=generator).to(torch.int16)
    score[: samples // 50] = 32002
    result = torch.randint(-1, 2, (samples,), generator=generator).to(torch.int8)
    result[samples // 50 : samples // 25] = -128
    output = torch.randn(samples, generator=generator) * 2
    output[::97] *= 1e3
    return output, TensorBatch(0, {}, {"score": score, "result": result}, (0, samples))


def computed(config: LossConfig, output: Tensor, batch: TensorBatch) -> tuple[Tensor, Tensor]:
    """The loss and the gradient of `output`."""
    leaf = output.clone().requires_grad_()
    loss = batch_loss(config, leaf, batch, PROGRESS)
    (3 * loss).backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad


@pytest.mark.parametrize("samples", [1, 127, 5000])
@pytest.mark.parametrize("name", FAMILY)
def test_loss_and_gradient(name: str, samples: int, cpu: CpuLauncher) -> None:
    config = LossConfig(**FAMILY[name])
    output, batch = given(samples)
    loss, gradient = computed(config, output, batch)
    assert cpu.launched == ["win_rate_losses", "win_rate_parts", "win_rate_mean", "win_rate_backward"]
    wanted, of_output = computed(config, output.double(), batch)
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-5, atol=1e-9)
    largest = of_output.abs().max().item()
    torch.testing.assert_close(gradient.double(), of_output, rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.parametrize("samples", [1, 127, 5000])
def test_each_sample_may_have_a_lambda_of_its_own(
    samples: int, cpu: CpuLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = torch.rand(samples, generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr(loss_module, "score_share", lambda *given: shares.to(given[-1].dtype))
    output, batch = given(samples)
    loss, gradient = computed(LossConfig(), output, batch)
    assert "win_rate_losses" in cpu.launched
    wanted, of_output = computed(LossConfig(), output.double(), batch)
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(gradient.double(), of_output, rtol=1e-3, atol=1e-5 * of_output.abs().max().item())


@pytest.mark.usefixtures("cpu")
def test_errors_are_no_larger_than_torchs_in_the_same_precision() -> None:
    """Against double precision."""
    config, (output, batch) = PerspectiveLoss(), given(5000)
    leaf = output.clone().requires_grad_()
    labels = batch.dense["score"], batch.dense["result"]
    (3 * mean_loss(leaf, *labels, config, lambda_at(config, PROGRESS).base)).backward()
    exact = computed(config, output.double(), batch)[1]
    assert leaf.grad is not None
    own, torchs = ((each.double() - exact).norm() for each in (computed(config, output, batch)[1], leaf.grad))
    assert own <= 2 * torchs


@pytest.mark.parametrize("name", ["Stockfish 15.1's", "all"])
def test_the_same_bits_for_other_blocks_and_orders(name: str, cpu: CpuLauncher) -> None:
    config, (output, batch) = LossConfig(**FAMILY[name]), given(3000)

    def bits() -> list[bytes]:
        return [tensor.numpy().tobytes() for tensor in computed(config, output, batch)]

    wanted = bits()
    for cpu.threads, cpu.backward in ((None, False), (1, False), (2, True), (1024, True)):
        assert bits() == wanted


@pytest.mark.usefixtures("cpu")
def test_what_is_equal_costs_nothing_and_a_nan_stays_one() -> None:
    config = LossConfig(in_offset=0.0, out_offset=0.0, in_scaling=400.0, out_scaling=400.0, exponent=1.0)
    dense = {"score": torch.tensor([600, 0], dtype=torch.int16), "result": torch.zeros(2, dtype=torch.int8)}
    batch = TensorBatch(0, {}, dense, (0, 2))
    loss, gradient = computed(config, torch.tensor([1.0, 0.0]), batch)
    assert (loss.item(), gradient.tolist()) == (0.0, [0.0, 0.0])
    loss, gradient = computed(config, torch.tensor([1.0, torch.nan]), batch)
    assert (loss.isnan().item(), gradient.isnan().tolist()) == (True, [False, True])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.int32, torch.uint8)])
def test_labels_may_have_other_types(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    output, batch = given(50)
    batch.dense["score"].clamp_(0, 100)
    batch.dense["result"].clamp_(0, 1)
    dense = {name: tensor.to(dtype) for (name, tensor), dtype in zip(batch.dense.items(), dtypes, strict=True)}
    found = computed(LossConfig(), output, TensorBatch(0, {}, dense, (0, 50)))
    assert torch.equal(found[0], computed(LossConfig(), output, batch)[0])


def test_other_outputs_and_labels_are_torchs(cpu: CpuLauncher) -> None:
    output, batch = given(50)
    computed(LossConfig(), output.double(), batch)
    batch.dense["score"] = batch.dense["score"].double()  # type: ignore[index]
    computed(LossConfig(), output, batch)
    assert not cpu.launched
