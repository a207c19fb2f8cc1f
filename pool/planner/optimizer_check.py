"""Checks that an optimizer can be run by the pool, which steps it bucket by bucket and restarts it from its saved
state.

Stepped bucket by bucket (parameters that are stepped together) it must give the weights of a plain loop. Its saved
state must contain everything that its later steps depend on. The optimizers in `ELEMENTWISE` are covered by tests.
Any other class is stepped here on small tensors with random gradients, which takes milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import random
import types
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loader.plugins.error_text import format_error
from pool.config.schedule import ScheduleConfig
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError
from pool.exchange.plan import Plan
from pool.nn.generators import GeneratorStates, create_generator, python_and_numpy_state
from pool.optim.buckets import BucketOptimizers
from pool.optim.elementwise import ELEMENTWISE
from pool.optim.joined_state import State
from pool.planner.small_plan import with_buckets, zero_parameters

STEPS = 12  # before and after the state is saved; more than the period of most lookaheads
_SCALES = (1.0, 0.01, 100.0)  # of the gradients in consecutive steps, below and above usual limits of a norm
_TORCH_ATTRIBUTES = vars(torch.optim.SGD([nn.Parameter(torch.zeros(1))])).keys() | {"_opt_called", "_step_count"}
_CODE_TYPES = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)


class _TrialRun:
    """Steps an optimizer on small parameters with random gradients.

    All instances draw the same numbers. The weights have many magnitudes, so that differences between small steps
    change bits.
    """

    def __init__(self, config: Config, plan: Plan) -> None:
        """Makes parameters and optimizers. Raises ConfigError for a class that can't be used."""
        self.parameters = zero_parameters(plan)
        self.optimizers = BucketOptimizers(plan, self.parameters, config.optimizer, ScheduleConfig(args={}).resolve(1))
        self._buckets = range(len(plan.buckets))
        self._gradients = create_generator(0, "gradients")
        for parameter in self.parameters:
            parameter.data.copy_(self._draw_like(parameter) * 10 ** (-2 * self._draw_like(parameter).abs()))

    def step(self, steps: int = STEPS) -> None:
        """Does this many steps. Raises whatever the optimizer raises."""
        for scale in islice(cycle(_SCALES), steps):
            for parameter in self.parameters:
                parameter.grad = (scale * self._draw_like(parameter)).to(parameter.dtype)
            for bucket in self._buckets:
                self.optimizers.step(bucket)

    def _draw_like(self, parameter: nn.Parameter) -> Tensor:
        """Returns the next random numbers in the shape of a parameter."""
        return torch.randn(parameter.shape, generator=self._gradients)

    def restart(self, config: Config, plan: Plan, state: State) -> _TrialRun:
        """Returns a copy of this trial with a new optimizer, which is restored from `state` as a checkpoint returns
        it.

        Raises CheckpointError.
        """
        trial = _TrialRun(config, plan)
        for copy, parameter in zip(trial.parameters, self.parameters, strict=True):
            copy.data.copy_(parameter.data)
        trial._gradients.set_state(self._gradients.get_state())
        tensors, plain = state
        trial.optimizers.load_state(
            {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(plain))
        )
        return trial

    @property
    def weights(self) -> list[bytes]:
        """The bytes of each parameter."""
        return [_bits(parameter) for parameter in self.parameters]


def couples_all_parameters(config: Config, plan: Plan) -> bool:
    """Returns whether an optimizer computes other weights if all parameters are in one bucket than if each has its own.

    That is so if it computes a number from all parameters. `plan`: a plan with small tensors.
    """
    num_parameters = len(plan.parameters)
    if config.optimizer.name in ELEMENTWISE or num_parameters == 1:
        return False
    one_bucket = [tuple(range(num_parameters))]
    bucket_each = [(index,) for index in range(num_parameters)]
    for variant in (plan, _in_double(plan)):
        joined = _weights_after_trial(config, with_buckets(variant, *one_bucket))
        separate = _weights_after_trial(config, with_buckets(variant, *bucket_each))
        if joined != separate:
            return True
    return False


def _in_double(plan: Plan) -> Plan:
    """Returns the plan with float64 parameters, whose bits show the smallest differences."""
    return replace(plan, parameters=tuple(replace(tensor, dtype="float64") for tensor in plan.parameters))


def _weights_after_trial(config: Config, plan: Plan) -> list[bytes] | None:
    """Returns the bits of all weights after some steps; None if the optimizer can't be used."""
    with preserve_generators():
        try:
            trial = _TrialRun(config, plan)
            trial.step()
        except (Exception, SystemExit):  # the trial of the run's own plan reports it
            return None
        return trial.weights


def check_optimizer(config: Config, plan: Plan) -> State:
    """Returns the state of an optimizer after some steps, if the pool can run it. `plan`: a plan with small tensors.

    Raises ConfigError if the optimizer steps parameters of several buckets together, draws random numbers, has state
    that grows with the steps, or does not save everything that its later steps depend on.
    """
    name = f"optimizer.name: {config.optimizer.name}"
    if len(plan.buckets) > 1 and couples_all_parameters(config, plan):
        raise ConfigError(
            f"{name}: steps all parameters together, which have to be in one bucket of gradients for that, and these "
            f"are in {len(plan.buckets)}, as those of several dtypes are: take another optimizer"
        )
    with preserve_generators():
        try:
            return _run_checks(config, plan, name)
        except PoolError as error:  # it names the key
            raise ConfigError(str(error)) from None
        except (Exception, SystemExit) as error:  # a class of the user's choice may raise anything
            raise ConfigError(f"{name}: can't be used here: {format_error(error)}") from None


def _run_checks(config: Config, plan: Plan, name: str) -> State:
    """Does the work of `check_optimizer`. Raises ConfigError, and whatever the optimizer raises."""
    generators_before = _generator_states()
    trial = _TrialRun(config, plan)
    trial.step()
    if _generator_states() != generators_before:
        raise ConfigError(
            f"{name}: draws random numbers, and would draw others after a death or a resume: take another optimizer"
        )
    state = trial.optimizers.state()
    sizes = _state_sizes(state)
    restarted = trial.restart(config, plan, state)
    attribute = _find_lost_attribute(trial, restarted)
    if attribute:
        raise ConfigError(
            f"{name}: keeps {attribute} outside its state_dict, so that a death or a resume would lose it: take "
            "another optimizer, or one of your own that keeps it in its state"
        )
    trial.step()
    restarted.step()
    if trial.weights != restarted.weights:
        raise ConfigError(
            f"{name}: goes on from its saved state with other weights than without a resume: take another optimizer"
        )
    state = trial.optimizers.state()
    grown = [key for key, size in _state_sizes(state).items() if size > sizes.get(key, 0)]
    if grown:
        raise ConfigError(
            f"{name}: its state grows with the steps ({grown[0]} after step {STEPS}), and room for it is reserved "
            "once: take another optimizer"
        )
    return state


def _state_sizes(state: State) -> dict[str, int]:
    """Returns the bytes of each tensor of a state, and the number of its plain values."""
    tensors, plain = state
    return {**{name: tensor.nbytes for name, tensor in tensors.items()}, "its numbers": _count_leaves(plain)}


def _count_leaves(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_count_leaves, value.values()))
    return sum(map(_count_leaves, value)) if isinstance(value, list | tuple) else 1


def _find_lost_attribute(trial: _TrialRun, restarted: _TrialRun) -> str:
    """Returns the name of an attribute of the optimizer that a restart does not restore; "" if there is none."""
    for bucket in trial._buckets:
        original: dict[str, Any] = vars(trial.optimizers.of(bucket))
        restored: dict[str, Any] = vars(restarted.optimizers.of(bucket))
        for name in sorted((original.keys() | restored.keys()) - _TORCH_ATTRIBUTES):
            if _comparable(original.get(name), set()) != _comparable(restored.get(name), set()):
                return name
    return ""


def _comparable(value: Any, open_objects: Set[int]) -> Any:
    """Converts a value to a form that is equal for equal values. Objects are converted by their attributes.

    `open_objects`: ids of the objects that contain this value, so that cycles end.
    """
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), _bits(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | torch.dtype):
        return repr(value)
    if isinstance(value, _CODE_TYPES) or id(value) in open_objects:
        return type(value).__name__
    inner = open_objects | {id(value)}
    if isinstance(value, Mapping):
        return [(_comparable(key, inner), _comparable(item, inner)) for key, item in value.items()]
    if isinstance(value, Sequence | deque):
        return [_comparable(item, inner) for item in value]
    if isinstance(value, Set):
        return sorted(repr(_comparable(item, inner)) for item in value)
    return type(value).__name__, _comparable(getattr(value, "__dict__", None), inner)


def _bits(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _generator_states() -> tuple[object, ...]:
    """Returns the states of this process's random generators, which change with each number drawn."""
    return torch.get_rng_state().numpy().tobytes(), *python_and_numpy_state()


@contextlib.contextmanager
def preserve_generators() -> Iterator[None]:
    """Restores the process's random generators after the context, and suppresses warnings about small tensors in it."""
    saved = GeneratorStates.capture()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        saved.restore()
