"""The tree of settings of a run: its sections, of which two are the task's and one the source's. Free of torch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ValidationError, create_model

from loader.cores import allowed_cores, decoding_threads
from loader.files.paths import absolute_path
from loader.section import Effect, Section
from loader.stream.sources import create_source, source_config_class
from pool.config.ensemble import MAX_SEED, EnsembleConfig
from pool.config.errors import format_errors
from pool.config.schedule import Schedule, ScheduleConfig
from pool.config.sections import (
    OptimizerConfig,
    PoolConfig,
    PoolDataConfig,
    RunConfig,
    TelemetryConfig,
    TestingConfig,
    TrainConfig,
)
from pool.device.names import parse_device
from pool.errors import ConfigError
from pool.task.net import Net
from pool.task.registry import load_task_module
from pool.task.start import model_class

_DEFAULT_SOURCE: str = PoolDataConfig.model_fields["source"].default


class Config(BaseModel):
    """Holds all settings of a run but the task's own sections, which `config_class` adds."""

    model_config = Section.model_config

    task: Annotated[
        str,
        Field(description="what is trained: stockfish, perspective, clicks, a module, or module:Class"),
        Effect.FIXED,
    ] = "stockfish"
    run: RunConfig = RunConfig()
    data: PoolDataConfig = PoolDataConfig()
    optimizer: OptimizerConfig = Field(default_factory=lambda: OptimizerConfig(args={}))
    schedule: ScheduleConfig = Field(default_factory=lambda: ScheduleConfig(args={}))
    train: TrainConfig = TrainConfig()
    ensemble: EnsembleConfig = EnsembleConfig()
    pool: PoolConfig = PoolConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    testing: Annotated[TestingConfig, Field(description="for tests of the runtime itself")] = TestingConfig()
    model: Section = Section()
    loss: Section = Section()

    @property
    def members(self) -> tuple[Self, ...]:
        """Returns the config of each network that the run trains, as if that were trained alone.

        A run that is no ensemble has one member, the config itself. Raises ConfigError, with the key, for a member
        that is not valid. The configs of an ensemble are computed once, by `parse_config`.
        """
        return self.networks if self.ensemble.is_set else (self,)

    @cached_property
    def networks(self) -> tuple[Self, ...]:
        """Returns the configs of the members of an ensemble. Raises ConfigError."""
        last_seed = self.model_seed + (self.ensemble.members or 1) - 1
        if not self.ensemble.member and last_seed > MAX_SEED:
            raise ConfigError(
                f"ensemble.members: the last member's seed would be above {MAX_SEED}: lower run.model_seed"
            )
        trees = self.ensemble.member_trees(self.model_dump(mode="json"), self.model_seed)
        return tuple(self._parse_member(index, tree) for index, tree in enumerate(trees))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with the changes `update`, whose members are computed again."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("networks", None)
        return copied

    @property
    def model_seed(self) -> int:
        """Returns the seed of the initial weights and of dropout."""
        return self.run.seed if self.run.model_seed is None else self.run.model_seed

    @property
    def net(self) -> Net:
        """Returns the settings of the task, model and loss of this network."""
        return Net(self.task, self.model, self.loss, self.model_seed)

    @property
    def run_schedule(self) -> Schedule:
        """Returns the schedule with all lengths in steps of this run."""
        return self.schedule.resolve(self.train.steps)

    @property
    def run_dir(self) -> Path:
        """Returns the absolute path of the run's folder. Raises ConfigError."""
        return _absolute_path(self.run.dir, "run.dir")

    @property
    def trace_file(self) -> Path | None:
        """Returns the absolute path of the trace file; None if there is none. Raises ConfigError."""
        return _absolute_path(self.run.trace, "run.trace") if self.run.trace else None

    @property
    def num_ring_slots(self) -> int:
        """Returns the number of slots of the ring for training batches.

        A step's batches stay in their slots until the step is committed (invariant I3).
        """
        return self.pool.ring_slots or 2 * self.train.batches_per_step + 2

    @property
    def max_batches_of_group(self) -> int:
        """Returns the largest number of batches in a group, whose gradients one worker adds up."""
        return min(self.train.batches_per_group, self.train.batches_per_step)

    @property
    def num_coordinator_threads(self) -> int:
        """Returns the number of threads of the coordinator's reduction and optimizer."""
        return self.pool.coordinator_threads or min(8, allowed_cores())

    def num_decoding_threads(self, devices: Collection[str]) -> int:
        """Returns the number of threads of each of the loader's streams, for a run on these devices."""
        return self.data.threads or decoding_threads(_count_accelerators(devices))

    def has_cores_to_spin(self, devices: Collection[str]) -> bool:
        """Tells whether there are more cores than the run's threads need, so that threads may wait in loops.

        Needed are the loader's threads, and for each accelerator one of the coordinator and one of the worker.
        """
        return allowed_cores() > 2 * _count_accelerators(devices) + self.num_decoding_threads(devices)

    @property
    def num_cpu_workers(self) -> int:
        """Returns the number of workers that `auto` means on a machine without a CUDA device.

        At most the number of cores, at most the number of groups of batches in a step, and at most 8, because each
        worker takes memory for gradients.
        """
        groups = -(-self.train.batches_per_step // self.train.batches_per_group)  # rounded up
        return min(8, allowed_cores(), groups)

    def num_worker_threads(self, spec: str, workers: int) -> int:
        """Returns the number of torch's threads in the worker on device `spec`, if there are `workers` workers."""
        if parse_device(spec).is_for_tests:  # must not depend on the machine's number of cores
            return 1
        return self.pool.threads or max(1, allowed_cores() // workers)

    @property
    def can_validate(self) -> bool:
        """Tells whether there is data to validate on.

        These are validation files, a share of the training files, or samples of a source that generates them, if
        there are no training files either.
        """
        return self._reads_validations or (not self.data.train and create_source(self.data.source).can_generate)

    @property
    def has_validations(self) -> bool:
        """Tells whether the run has a stream for validations.

        A run with validation files has one. A run with generated samples has one if validations are requested.
        """
        return self._reads_validations or (bool(self.train.validate_every) and self.can_validate)

    @property
    def _reads_validations(self) -> bool:
        return bool(self.data.validation) or self.data.validation_share > 0

    @property
    def validate_every(self) -> int:
        """Returns the number of steps between validations; 0: none."""
        if not self.has_validations:
            return 0
        if self.train.validate_every is None:
            return self.train.checkpoint_every or self.train.steps
        return self.train.validate_every

    def _parse_member(self, index: int, tree: Mapping[str, Any]) -> Self:
        """Validates the settings of a member of the ensemble. Raises ConfigError with the member's key."""
        table = ("ensemble", "member", str(index))
        try:
            config = self.model_validate_json(json.dumps(tree))
        except ValidationError as error:
            raise ConfigError(format_errors(type(self), error, table)) from None
        if config.schedule.problem:
            raise ConfigError(f"{'.'.join(table)}.{config.schedule.problem}")
        return config


def config_class(task: str, source: str = _DEFAULT_SOURCE) -> type[Config]:
    """Returns the class of the config for a task and a source of data. Raises ConfigError."""
    module = load_task_module(task)
    model = model_class(module)
    try:
        data = source_config_class(source, PoolDataConfig)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return _with_sections(data, model, module.LossConfig)


@cache
def _with_sections(data: type[PoolDataConfig], model: type[Section], loss: type[Section]) -> type[Config]:
    """Returns the config's class with these sections. The same arguments return the same class."""
    return create_model("Config", __base__=Config, data=(data, data()), model=(model, model()), loss=(loss, loss()))


def _count_accelerators(devices: Collection[str]) -> int:
    return len({spec for spec in devices if parse_device(spec).is_accelerator})


def _absolute_path(text: str, key: str) -> Path:
    try:
        return absolute_path(text, key)
    except ValueError as error:
        raise ConfigError(str(error)) from None
