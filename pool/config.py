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
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from loader.config import DataConfig, Section
from loader.named_files import read_named
from pool.errors import ConfigError
from pool.tasks.registry import task_module
from pool.tasks.start import model_class


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
    every: Annotated[int, Field(gt=0, description="training steps between two steps of the scheduler")] = 1
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments")]


class TrainConfig(Section):
    steps: Annotated[int, Field(gt=0, description="steps of the whole run, those before a resume included")] = 1000
    batches_per_step: Annotated[
        int, Field(gt=0, le=1024, description="batches whose gradients make one step; the result depends on it")
    ] = 2
    reduction: Annotated[
        Literal["mean", "sum"], Field(description="a step's gradient: mean or sum over the samples of its batches")
    ] = "mean"
    on_bad_batch: Annotated[
        Literal["stop", "skip"],
        Field(
            description="a batch whose loss or gradient is not finite, or that three workers died of: end the run, or "
            "leave it out of its step; either way it is kept in the run folder's poison/"
        ),
    ] = "stop"
    clip_norm: Annotated[
        float | None, Field(gt=0, description="scale the step's gradient down to this norm; waits for all buckets")
    ] = None
    clip_value: Annotated[float | None, Field(gt=0, description="clamp each element of the step's gradient")] = None
    validate_every: Annotated[int, Field(ge=0, description="steps between validations; 0: none")] = 0
    validation_batches: Annotated[int, Field(gt=0, description="batches of one validation")] = 4
    checkpoint_every: Annotated[int, Field(ge=0, description="steps between checkpoints; 0: only at the end")] = 1000
    keep_checkpoints: Annotated[
        int, Field(gt=0, description="newest checkpoints that are kept, beside the one that validated best")
    ] = 3
    keep_every: Annotated[
        int, Field(ge=0, le=1 << 62, description="keep each checkpoint whose step is a multiple of this too; 0: none")
    ] = 0


class PoolConfig(Section):
    devices: Annotated[
        CommaList,
        Field(description="one worker each: cuda:N, cpu, fake:N, or auto (all CUDA devices, else two CPU workers)"),
    ] = ("auto",)
    threads: Annotated[
        int, Field(ge=0, le=1024, description="torch threads of a CPU worker; 0: cores / workers. fake:N always has 1")
    ] = 0
    coordinator_threads: Annotated[
        int, Field(ge=0, le=1024, description="threads of the coordinator; 0: cores, at most 8")
    ] = 0
    ring_slots: Annotated[
        int, Field(ge=0, le=16000, description="batches kept ready or in use; 0: 2 x batches_per_step + 2")
    ] = 0
    gradient_slots: Annotated[int, Field(ge=1, le=16, description="gradient slots of a worker")] = 2
    first_bucket_mb: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="size limit of the first gradient bucket, MiB")
    ] = 1.0
    bucket_mb: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="size limit of the other gradient buckets, MiB")
    ] = 25.0
    snapshot_steps: Annotated[
        int,
        Field(
            ge=0,
            description="steps between copies of weights and optimizer state in memory, from which the run goes on if "
            "the coordinator dies; 0: only with each checkpoint",
        ),
    ] = 100
    restarts: Annotated[int, Field(ge=0, description="deaths of one process without a step done")] = 5
    hang_timeout: Annotated[
        float, Field(gt=0, description="seconds after which a process that does not move is killed and replaced")
    ] = 60.0
    start_timeout: Annotated[
        float, Field(gt=0, description="seconds a process may take to get ready; then it is killed, as one that hangs")
    ] = 120.0
    stop_timeout: Annotated[
        float, Field(gt=0, description="seconds that the step and the checkpoint may take after a signal to stop")
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
    def num_ring_slots(self) -> int:
        """Slots of the training ring; a step's batches stay in theirs until it is committed (I3)."""
        return self.pool.ring_slots or 2 * self.train.batches_per_step + 2


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


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Reads a TOML file and applies `section.key=value` overrides. Raises ConfigError."""
    try:
        tree = tomllib.loads(read_named(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{path}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    for override in overrides:
        _apply(tree, override)
    return parse_config(tree, str(path))


def parse_config(tree: Mapping[str, Any], where: str) -> Config:
    """Validates a tree of plain data. Raises ConfigError naming each key and what is allowed."""
    task = tree.get("task", "nnue")
    if not isinstance(task, str):
        raise ConfigError(f"{where}: task: must be a string")
    cls = config_class(task)
    try:
        config = cls.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(cls, where, item) for item in error.errors())) from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply") from None
    except (TypeError, ValueError) as error:  # TOML dates have no JSON
        raise ConfigError(f"{where}: {error}") from None
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


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: expected section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    except RecursionError:
        raise ConfigError(f"--set {key}: nested too deeply") from None
    for part in parts[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {override}: {part} is not a section")
    tree[parts[-1]] = value


def _explain(cls: type[BaseModel], where: str, item: Any) -> str:
    """One line for one pydantic error: where, key, what is wrong, what was given."""
    location = [str(part) for part in item["loc"]]
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        section = _section(cls, location[:-1])
        allowed = ", ".join(section.model_fields) if section is not None else ""
        return f"{where}: {key}: unknown key; allowed here: {allowed}"
    given = json.dumps(item["input"], default=str)
    return f"{where}: {key}: {item['msg'][:1].lower()}{item['msg'][1:]}, not {given[:80]}"


def _section(cls: type[BaseModel], location: list[str]) -> type[BaseModel] | None:
    for part in location:
        if part not in cls.model_fields:
            return None
        annotation = cls.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        found = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not found:
            return None
        cls = found[0]
    return cls
