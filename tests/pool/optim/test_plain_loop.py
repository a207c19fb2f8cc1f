"""Optimizers of torch and of pytorch_optimizer, all of them: as many buckets as there are parameters, or one, give the
bits of a plain loop, also across a resume; or the optimizer is refused before the run, by name."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pool.checkpoint.state import OptimizerNumbers
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.exchange.plan import Plan, TensorSpec
from pool.optim.buckets import BucketOptimizers
from pool.planner.planner import plan_member
from pool.planner.trial import snapshot_nbytes

SHAPES = {"table.weight": (40, 16), "bias": (16,), "scale": (1,), "deep.weight": (7, 30), "deep.bias": (7,)}
STEPS, RESUMED = 12, 7
SMALLEST, DEFAULT = 1e-6, 25.0  # MiB of a bucket

ARGS: dict[str, dict[str, Any]] = {"pytorch_optimizer.Ranger21": {"num_iterations": 100}}

NO_LIST = "takes groups with settings of their own, for matrices and others, and no list: ValueError: `use_muon`"
ANOTHER_ARGUMENT = "missing 1 required positional argument"
OTHER_WEIGHTS = "validates and saves other weights than it steps"
OPTIMIZER = "need to pass `params` when you pass the `torch.optim.Optimizer`"
NO_CLOSURE = "(it computes losses itself, by a closure, which nobody gives it here: take another optimizer)"
MATRICES = "(it takes matrices only, and "
IN_GROUPS = "in its parameter groups, and a checkpoint has no place for that"
NO_PARAMETERS = "in its state, which is no parameter's, and a checkpoint has no place for that"
REFUSED = {
    "torch.optim.LBFGS": NO_CLOSURE,
    "torch.optim.Muon": MATRICES,
    "torch.optim.SparseAdam": "does not support dense gradients",
    "pytorch_optimizer.A2Grad": "KeyError: 'lr'",
    "pytorch_optimizer.ASGD": f"keeps a tensor, 'prev_param_norm', {IN_GROUPS}",
    "pytorch_optimizer.AdaGO": NO_LIST,
    "pytorch_optimizer.AdaHessian": "does not require grad",
    "pytorch_optimizer.AdaLOMO": "'list' object has no attribute 'named_parameters'",
    "pytorch_optimizer.AdaMuon": NO_LIST,
    "pytorch_optimizer.AdaShift": "keeps a deque of tensors, 'grad_queue', in its state",
    "pytorch_optimizer.AdamMini": "'list' object has no attribute 'named_parameters'",
    "pytorch_optimizer.AggMo": "keeps a dict of tensors, 'momentum_buffer', in its state",
    "pytorch_optimizer.AliG": NO_CLOSURE,
    "pytorch_optimizer.BSAM": ANOTHER_ARGUMENT,
    "pytorch_optimizer.Conda": "keeps an object of the class GaLoreProjector, 'projector', in its state",
    "pytorch_optimizer.DASH": "keeps a list of tensors, 'blocks', in its state",
    "pytorch_optimizer.DAdaptAdaGrad": f"keeps a tensor, 'gsq_weighted', {IN_GROUPS}",
    "pytorch_optimizer.DAdaptAdam": f"keeps a tensor, 'numerator_weighted', {IN_GROUPS}",
    "pytorch_optimizer.DAdaptAdan": f"keeps a tensor, 'gsq_weighted', {IN_GROUPS}",
    "pytorch_optimizer.DAdaptLion": f"keeps a tensor, 'numerator_weighted', {IN_GROUPS}",
    "pytorch_optimizer.DAdaptSGD": f"keeps a tensor, 'numerator_weighted', {IN_GROUPS}",
    "pytorch_optimizer.DeMo": "You need to install `einops`",
    "pytorch_optimizer.DistributedMuon": NO_LIST,
    "pytorch_optimizer.EmoFact": f"keeps 'ema' {NO_PARAMETERS}",
    "pytorch_optimizer.EmoLynx": f"keeps 'ema' {NO_PARAMETERS}",
    "pytorch_optimizer.EmoNavi": f"keeps 'ema' {NO_PARAMETERS}",
    "pytorch_optimizer.FriendlySAM": ANOTHER_ARGUMENT,
    "pytorch_optimizer.GSAM": "missing 3 required positional arguments",
    "pytorch_optimizer.Gravity": "draws random numbers, and would draw others after a death or a resume",
    "pytorch_optimizer.Kron": "keeps a list of tensors, 'Q', in its state",
    "pytorch_optimizer.LOMO": "'list' object has no attribute 'parameters'",
    "pytorch_optimizer.LoRARite": MATRICES,
    "pytorch_optimizer.LookSAM": ANOTHER_ARGUMENT,
    "pytorch_optimizer.Lookahead": OPTIMIZER,
    "pytorch_optimizer.MADGRAD": f"keeps 'k' {NO_PARAMETERS}",
    "pytorch_optimizer.Magma": "KeyError: 'state'",
    "pytorch_optimizer.Muon": NO_LIST,
    "pytorch_optimizer.MuonClip": NO_LIST,
    "pytorch_optimizer.NorMuon": NO_LIST,
    "pytorch_optimizer.OrthoGrad": OPTIMIZER,
    "pytorch_optimizer.PCGrad": "'list' object has no attribute 'defaults'",
    "pytorch_optimizer.Prodigy": f"keeps a tensor, 'd_numerator', {IN_GROUPS}",
    "pytorch_optimizer.ROSE": "keeps an object of the class dtype, 'compute_dtype'",
    "pytorch_optimizer.SAM": ANOTHER_ARGUMENT,
    "pytorch_optimizer.SOAP": "keeps a list of tensors, 'GG', in its state",
    "pytorch_optimizer.SPAM": f"keeps 'total_step' {NO_PARAMETERS}",
    "pytorch_optimizer.SPlus": OTHER_WEIGHTS,
    "pytorch_optimizer.SaRA": "keeps _mask_indices outside its state_dict, so that a death or a resume would lose it",
    "pytorch_optimizer.SafeFP16Optimizer": "'list' object has no attribute 'param_groups'",
    "pytorch_optimizer.ScalableShampoo": "keeps an object of the class PreConditioner",
    "pytorch_optimizer.ScheduleFreeAdamW": OTHER_WEIGHTS,
    "pytorch_optimizer.ScheduleFreeRAdam": OTHER_WEIGHTS,
    "pytorch_optimizer.ScheduleFreeSGD": OTHER_WEIGHTS,
    "pytorch_optimizer.ScheduleFreeWrapper": OTHER_WEIGHTS,
    "pytorch_optimizer.SophiaH": "does not require grad",
    "pytorch_optimizer.SpectralSphere": MATRICES,
    "pytorch_optimizer.TRAC": OPTIMIZER,
    "pytorch_optimizer.WSAM": "missing 2 required positional arguments",
}
IN_ONE_BUCKET = {f"pytorch_optimizer.{name}" for name in ("AdaGC", "Adai", "AdamS", "AvaGrad", "Ranger21")}


def optimizers_of(module: Any) -> Iterator[str]:
    for name, value in vars(module).items():
        is_optimizer = inspect.isclass(value) and issubclass(value, torch.optim.Optimizer)
        if is_optimizer and value is not torch.optim.Optimizer and value.__module__.startswith(module.__name__):
            yield f"{module.__name__}.{name}"


def all_optimizers() -> list[str]:
    import pytorch_optimizer

    return sorted({*optimizers_of(torch.optim), *optimizers_of(pytorch_optimizer)})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def config_of(name: str, bucket_mb: float) -> Config:
    tree = {
        "task": "tests.support.toy",
        "optimizer": {"name": name, "args": ARGS.get(name, {})},
        "pool": {"first_bucket_mb": bucket_mb, "bucket_mb": bucket_mb},
    }
    return parse_config(tree, "test")


def planned(config: Config) -> Plan:
    specs = [TensorSpec(name, shape, "float32", 4) for name, shape in SHAPES.items()]
    return plan_member(config, specs, [])


def first_weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES.values()]


def set_gradients(parameters: Sequence[nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator) * (1 + 0.1 * step)


def in_a_plain_loop(name: str) -> list[Tensor]:
    parameters = first_weights()
    module, _, kind = name.rpartition(".")
    optimizer = getattr(__import__(module, fromlist=[kind]), kind)(parameters, **ARGS.get(name, {}))
    for step in range(STEPS):
        set_gradients(parameters, step)
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def in_buckets(config: Config, plan: Plan, resumed: int | None = None) -> list[Tensor]:
    """`resumed`: the step before which all goes through plain data into another optimizer."""

    def made() -> BucketOptimizers:
        return BucketOptimizers(plan, parameters, config.optimizer, config.run_schedule)

    parameters = first_weights()
    optimizers = made()
    for step in range(STEPS):
        if step == resumed:
            tensors, plain = optimizers.state()
            kept = {name: tensor.clone() for name, tensor in tensors.items()}
            parameters = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
            optimizers = made()
            optimizers.load_state(kept, json.loads(json.dumps(OptimizerNumbers.of(plain).plain())))
        set_gradients(parameters, step)
        for bucket in range(len(plan.buckets)):
            optimizers.step(bucket)
    return [parameter.detach() for parameter in parameters]


def equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("bucket_mb", [SMALLEST, DEFAULT], ids=["smallest", "default"])
@pytest.mark.parametrize("name", all_optimizers())
def test_an_optimizer_has_the_bits_of_a_plain_loop_or_is_refused_by_name(name: str, bucket_mb: float) -> None:
    config = config_of(name, bucket_mb)
    if name in REFUSED:
        with pytest.raises(ConfigError) as refusal:
            snapshot_nbytes(config, [planned(config)])
        assert name in str(refusal.value)
        assert REFUSED[name] in str(refusal.value)
        return
    plan = planned(config)
    assert (len(plan.buckets) == 1) == (bucket_mb == DEFAULT or name in IN_ONE_BUCKET)
    assert snapshot_nbytes(config, [plan]) > 0
    plain = in_a_plain_loop(name)
    assert equal(in_buckets(config, plan), plain)
    assert equal(in_buckets(config, plan, RESUMED), plain)
    assert not equal(plain, first_weights())


def test_the_table_of_refused_optimizers_names_those_that_there_are() -> None:
    assert REFUSED.keys() | IN_ONE_BUCKET <= set(all_optimizers())
