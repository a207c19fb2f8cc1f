"""The one tree of settings: every key once, with its meaning, default and allowed values.

Read from a TOML file, changed by `--set key=value`. The sections `model` and `loss` belong to the task.
Free of torch: the supervisor reads it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from loader.config import DataConfig, Section
from loader.named_files import read_named
from loader.paths import absolute
from pool.changes import Change
from pool.config_keys import dotted, field_at
from pool.config_values import unfit
from pool.errors import ConfigError
from pool.tasks.registry import task_module
from pool.tasks.start import model_class

MOST_STEPS = 1 << 32  # with the largest steps, of 2^30 samples: the samples of a run fit 64 bits
LONGEST = 1e6  # seconds of a timeout; waiting calls take milliseconds of 32 bits


def _comma_list(value: Any) -> Any:
    """Lists may be given as `a,b` on the command line."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_comma_list)]


class RunConfig(Section):
    dir: Annotated[str, Field(min_length=1, description="folder of the run: checkpoints, metrics, logs")] = "runs/run"
    seed: Annotated[int, Field(ge=0, lt=1 << 63, description="seed of the stream and of the initial weights")] = 42
    trace: Annotated[
        str, Field(description="file for a trace of what each process does when, to look at in Perfetto; none if empty")
    ] = ""


class PoolDataConfig(DataConfig):
    train: Annotated[CommaList, Field(description="training files, in order; * and ? match")] = ()
    validation: Annotated[
        CommaList, Field(description="validation files; each validation reads them from their start")
    ] = ()


class OptimizerConfig(Section):
    name: Annotated[str, Field(description="optimizer class, by dotted name")] = "torch.optim.Adam"
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments")]


class ScheduleConfig(Section):
    name: Annotated[
        str | None, Field(description="learning rate scheduler class, by dotted name; none keeps the rate")
    ] = None
    every: Annotated[
        int, Field(gt=0, le=MOST_STEPS, description="training steps between two steps of the scheduler")
    ] = 1
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments")]


class TrainConfig(Section):
    steps: Annotated[
        int, Field(gt=0, le=MOST_STEPS, description="steps of the whole run, those before a resume included")
    ] = 1000
    batches_per_step: Annotated[
        int, Field(gt=0, le=1024, description="batches whose gradients make one step; the result depends on it")
    ] = 2
    reduction: Annotated[
        Literal["mean", "sum"], Field(description="a step's gradient: mean or sum over the samples of its batches")
    ] = "mean"
    on_bad_batch: Annotated[
        Literal["stop", "skip"],
        Field(
            description="a batch whose loss or gradient is not finite, that raises twice, or that three workers "
            "died of: end the run, or leave it out of its step; either way it is kept in the run folder's poison/"
        ),
    ] = "stop"
    clip_norm: Annotated[
        float | None,
        Field(ge=1e-30, le=1e30, description="scale the step's gradient down to this norm; waits for all buckets"),
    ] = None
    clip_value: Annotated[
        float | None, Field(ge=1e-30, le=1e30, description="clamp each element of the step's gradient")
    ] = None
    validate_every: Annotated[
        int | None,
        Field(
            ge=0,
            le=MOST_STEPS,
            description="steps between validations; not set: one at each checkpoint, if there are validation files; "
            "0: none",
        ),
    ] = None
    validation_batches: Annotated[int, Field(gt=0, le=1 << 20, description="batches of one validation")] = 4
    checkpoint_every: Annotated[
        int, Field(ge=0, le=MOST_STEPS, description="steps between checkpoints; 0: only at the end")
    ] = 1000
    keep_checkpoints: Annotated[
        int, Field(gt=0, le=1 << 20, description="newest checkpoints that are kept, beside the one that validated best")
    ] = 3
    keep_every: Annotated[
        int,
        Field(ge=0, le=MOST_STEPS, description="keep each checkpoint whose step is a multiple of this too; 0: none"),
    ] = 0


class PoolConfig(Section):
    devices: Annotated[
        CommaList,
        Field(description="one worker each: cuda:N, cpu, or auto (all CUDA devices, else two CPU workers)"),
    ] = ("auto",)
    threads: Annotated[int, Field(ge=0, le=1024, description="torch threads of a CPU worker; 0: cores / workers")] = 0
    coordinator_threads: Annotated[
        int, Field(ge=0, le=1024, description="threads of the coordinator; 0: cores, at most 8")
    ] = 0
    ring_slots: Annotated[
        int, Field(ge=0, le=16000, description="batches kept ready or in use; 0: 2 x batches_per_step + 2")
    ] = 0
    gradient_slots: Annotated[int, Field(ge=1, le=16, description="gradient slots of a worker")] = 2
    first_bucket_mb: Annotated[
        float, Field(ge=1e-6, le=1 << 20, description="size limit of the first gradient bucket, MiB")
    ] = 1.0
    bucket_mb: Annotated[
        float, Field(ge=1e-6, le=1 << 20, description="size limit of the other gradient buckets, MiB")
    ] = 25.0
    snapshot_steps: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_STEPS,
            description="steps between copies of weights and optimizer state in memory, from which the run goes on if "
            "the coordinator dies; 0: only with each checkpoint",
        ),
    ] = 100
    restarts: Annotated[int, Field(ge=0, le=1000, description="deaths of one process without a step done")] = 5
    hang_timeout: Annotated[
        float,
        Field(
            ge=1,
            le=LONGEST,
            description="seconds after which a process that does not move is killed and replaced; every half second "
            "each one says that it moves",
        ),
    ] = 60.0
    start_timeout: Annotated[
        float,
        Field(
            ge=0.1,
            le=LONGEST,
            description="seconds a process may take to get ready; then it is killed, as one that hangs",
        ),
    ] = 120.0
    stop_timeout: Annotated[
        float,
        Field(
            ge=0,
            le=LONGEST,
            description="seconds that the step and the checkpoint may take after a signal to stop",
        ),
    ] = 60.0


class TestingConfig(Section):
    crash_points: Annotated[
        CommaList,
        Field(description="POINT[@N]=kill|segv|stop|exit|note: what happens at the N-th pass of a first life"),
    ] = ()
    history: Annotated[
        bool, Field(description="write down every fold, update and commit, with a hash of each step")
    ] = False


class Config(BaseModel):
    """The tree without the task's own sections; `config_class` adds them."""

    model_config = Section.model_config

    task: Annotated[str, Field(description="what is trained: nnue, or a module with the same names")] = "nnue"
    run: RunConfig = RunConfig()
    data: PoolDataConfig = PoolDataConfig()
    optimizer: OptimizerConfig = Field(default_factory=lambda: OptimizerConfig(args={}))
    schedule: ScheduleConfig = Field(default_factory=lambda: ScheduleConfig(args={}))
    train: TrainConfig = TrainConfig()
    pool: PoolConfig = PoolConfig()
    testing: Annotated[TestingConfig, Field(description="for tests of the runtime itself")] = TestingConfig()
    model: Section = Section()
    loss: Section = Section()

    @property
    def run_dir(self) -> Path:
        """The run folder, from the root. Raises ConfigError."""
        return _absolute(self.run.dir, "run.dir")

    @property
    def trace_file(self) -> Path | None:
        """Where the trace goes; None if there is to be none. Raises ConfigError."""
        return _absolute(self.run.trace, "run.trace") if self.run.trace else None

    @property
    def num_ring_slots(self) -> int:
        """Slots of the training ring; a step's batches stay in theirs until it is committed (I3)."""
        return self.pool.ring_slots or 2 * self.train.batches_per_step + 2

    @property
    def validate_every(self) -> int:
        """Steps between validations; 0: none."""
        if not self.data.validation:
            return 0
        if self.train.validate_every is None:
            return self.train.checkpoint_every or self.train.steps
        return self.train.validate_every


def config_class(task: str) -> type[Config]:
    """The config tree of a run of `task`."""
    module = task_module(task)
    model = model_class(module)
    return create_model(
        "Config",
        __base__=Config,
        model=(model, model()),
        loss=(module.LossConfig, module.LossConfig()),
    )


def load_config(path: Path, overrides: Iterable[str] = (), *, trace: Path | None = None) -> Config:
    """Reads a TOML file and applies `section.key=value` overrides; `trace` overrides run.trace. Raises ConfigError."""
    try:
        tree = tomllib.loads(read_named(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{path}: {reason}") from None
    except ValueError as error:  # also Python's, for an integer of very many digits
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    changes = [Change.parse(text) for text in overrides]
    if trace is not None:
        changes.append(Change("run.trace", str(trace), is_toml=False))
    for change in changes:
        change.apply(tree)
    config = parse_config(tree, str(path))
    for change in changes:
        change.check_quotes(type(config))
    return config


def parse_config(tree: Mapping[str, Any], where: str) -> Config:
    """Validates a tree of plain data. Raises ConfigError naming each key and what is allowed."""
    if (problem := unfit(tree)) is not None:
        raise ConfigError(f"{where}: {problem}")
    task = tree.get("task", "nnue")
    if not isinstance(task, str):
        raise ConfigError(f"{where}: task: must be a string")
    cls = config_class(task)
    try:
        config = cls.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(cls, where, item) for item in error.errors())) from None
    if config.num_ring_slots < config.train.batches_per_step + 1:
        raise ConfigError(
            f"{where}: pool.ring_slots: {config.pool.ring_slots} is too few; a step keeps its "
            f"train.batches_per_step = {config.train.batches_per_step} until it is committed, and one more is needed"
        )
    return config


def cpu_threads(config: Config, workers: int) -> int:
    """Torch threads of one CPU worker."""
    return config.pool.threads or max(1, (os.cpu_count() or 1) // workers)


def coordinator_threads(config: Config) -> int:
    """Threads of the coordinator's reduction and optimizer."""
    return config.pool.coordinator_threads or min(8, os.cpu_count() or 1)


def worker_threads(config: Config, spec: str, workers: int) -> int:
    """Torch threads of the worker on device `spec`."""
    return 1 if spec.startswith("fake:") else cpu_threads(config, workers)


def _absolute(text: str, key: str) -> Path:
    try:
        return absolute(text, key)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _explain(cls: type[BaseModel], where: str, item: Any) -> str:
    """One line for one pydantic error: where, key, what is wrong, what was given, what the key means."""
    location = [str(part) for part in item["loc"]]
    key = dotted(location)
    if item["type"] == "extra_forbidden":
        section = field_at(cls, location[:-1])
        allowed = ", ".join(section.model_fields) if isinstance(section, type) else ""
        return f"{where}: {key}: unknown key; allowed here: {allowed}"
    given = json.dumps(item["input"], default=str)
    said = f"{where}: {key}: {item['msg'][:1].lower()}{item['msg'][1:]}, not {given[:80]}"
    field = field_at(cls, location)
    about = field.description if isinstance(field, FieldInfo) else None
    return f"{said} ({about})" if about else said
