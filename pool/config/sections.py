"""The sections of a config: every key once, with its meaning, default and allowed values. Free of torch."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from annotated_types import Gt, Le
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from loader.section import Effect, Section, WrongKeyError
from loader.stream.config import DataConfig
from loader.stream.mixture_entries import DataEntry, parse_train_files, parse_validation_files, split_commas
from pool.config.average import AverageConfig
from pool.config.ensemble import MAX_SEED
from pool.config.schedule import MAX_STEPS

_ADDRESS = re.compile(r"(?:[^:\s\[\]]+|\[[^\s\[\]]+\]):(\d{1,5})", re.ASCII)
LONGEST = 1e6  # seconds of a timeout; waiting calls take milliseconds of 32 bits


CommaList = Annotated[tuple[str, ...], BeforeValidator(split_commas)]


class RunConfig(Section):
    dir: Annotated[
        str, Field(min_length=1, description="folder of the run: checkpoints, metrics, logs"), Effect.NONE
    ] = "runs/run"
    seed: Annotated[
        int, Field(ge=0, lt=1 << 63, description="seed of the stream, and of the model if it has none"), Effect.FIXED
    ] = 42
    model_seed: Annotated[
        int | None,
        Field(ge=0, le=MAX_SEED, description="seed of the first weights and of dropout; not set: run.seed"),
        Effect.FIXED,
    ] = None
    trace: Annotated[
        str,
        Field(description="file for a trace of what each process does when, to look at in Perfetto; none if empty"),
        Effect.NONE,
    ] = ""
    sinks: Annotated[
        CommaList,
        Field(description="where metrics go, too: `tensorboard`, `wandb`, `trackio`, or `module:factory` of yours"),
        Effect.NONE,
    ] = ("tensorboard",)


def _check_address(text: str) -> str:
    if not text:
        return text
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[1]) < 1 << 16:
        raise ValueError("must be HOST:PORT, as 127.0.0.1:9400 or [::1]:9400, or empty")
    return text


class TelemetryConfig(Section):
    prometheus: Annotated[
        str,
        AfterValidator(_check_address),
        Field(description="HOST:PORT for Prometheus to ask for the run's numbers, as 127.0.0.1:9400; none if empty"),
        Effect.NONE,
    ] = ""
    project: Annotated[
        str,
        Field(min_length=1, description="for the sinks wandb and trackio: the run's project there"),
        Effect.NONE,
    ] = "sparsepool"
    name: Annotated[
        str,
        Field(description="for these sinks: the run's name there; the last part of run.dir if empty"),
        Effect.NONE,
    ] = ""
    tags: Annotated[CommaList, Field(description="for the sink wandb: the run's tags"), Effect.NONE] = ()


class DataFiles(Section):
    train: Annotated[
        tuple[str | DataEntry, ...],
        BeforeValidator(parse_train_files),
        Field(
            description="training files, in order; * and ? match; or tables of files, share and score_scale: with "
            "shares they are mixed in that ratio, by samples; scores are multiplied by score_scale when they are read"
        ),
        Effect.SAME_FILES,
    ] = ()
    validation: Annotated[
        tuple[str | DataEntry, ...],
        BeforeValidator(parse_validation_files),
        Field(
            description="validation files, or tables of files and score_scale; each validation reads them from their "
            "start; or set validation_share"
        ),
        Effect.NONE,
    ] = ()


class PoolDataConfig(DataConfig, DataFiles):
    """The stream of batches, and the files that it reads."""

    @model_validator(mode="after")
    def _validations_have_one_origin(self) -> Self:
        if self.validation and self.validation_share:
            share = f"{self.validation_share:g}"
            raise WrongKeyError(f"{share}: data.validation names files, too; set one of them", "validation_share")
        return self


class GroupConfig(Section):
    """Tensors that the optimizer steps with other arguments."""

    tensors: Annotated[
        tuple[str, ...],
        Field(strict=False, min_length=1, description="names of tensors; * and ? match any text and any character"),
    ]
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="arguments beside optimizer.args")]


class OptimizerConfig(Section):
    """The optimizer, and groups of tensors that it steps with other arguments.
    Schedule, plateau and a changed optimizer.args.lr act on all groups alike: the learning rate of a group stays the
    same share of optimizer.args.lr. Other arguments that are changed when a run is resumed are changed in groups that
    have no such argument of their own.

    [[optimizer.groups]]
    tensors = ["stacks.shared_*"]                      # of several groups that match, a tensor has the first
    args = { weight_decay = 1e-3, lr = 2e-4 }          # the rest is optimizer.args
    """

    name: Annotated[str, Field(description="optimizer class, by dotted name"), Effect.NUMERICS] = "pool.optim.Adam"
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments"), Effect.SAVED]
    groups: Annotated[
        tuple[GroupConfig, ...],
        Field(
            strict=False,  # JSON's arrays are lists
            description="tables of tensors and args, for tensors that are stepped with other arguments",
        ),
        Effect.FIXED,
    ] = ()


class TrainConfig(Section):
    steps: Annotated[
        int,
        Field(gt=0, le=MAX_STEPS, description="steps of the whole run, those before a resume included"),
        Effect.RESULT,
    ] = 1000
    epochs: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 20,
            description="passes over the training data, in place of steps, which do not count then: the samples are "
            "counted when the run starts; 0: train.steps counts",
        ),
        Effect.RESULT,
    ] = 0
    batches_per_step: Annotated[
        int,
        Field(gt=0, le=1024, description="batches whose gradients make one step; the result depends on it"),
        Effect.FIXED,
    ] = 2
    batches_per_group: Annotated[
        int,
        Field(
            gt=0,
            le=1024,
            description="consecutive batches of a step that one worker adds up before it hands their gradients over: "
            "as many times less travels; the order of sums depends on it",
        ),
        Effect.NUMERICS,
    ] = 1
    gradient_dtype: Annotated[
        Literal["float32", "bfloat16"],
        Field(
            description="numbers in which a worker hands over the gradients of a group: bfloat16 takes half of the "
            "bytes, each number rounded to nearest even; sums, optimizer and weights are float32 either way"
        ),
        Effect.NUMERICS,
    ] = "float32"
    reduction: Annotated[
        Literal["mean", "sum"],
        Field(description="a step's gradient: mean or sum over the samples of its batches"),
        Effect.RESULT,
    ] = "mean"
    on_bad_batch: Annotated[
        Literal["stop", "skip"],
        Field(
            description="a batch whose loss or gradient is not finite, that raises twice, or that three workers "
            "died of: end the run, or leave it out of its step; either way it is kept in the run folder's poison/"
        ),
        Effect.RESULT,
    ] = "stop"
    clip_norm: Annotated[
        float | None,
        Field(ge=1e-30, le=1e30, description="scale the step's gradient down to this norm; waits for all buckets"),
        Effect.RESULT,
    ] = None
    clip_value: Annotated[
        float | None, Field(ge=1e-30, le=1e30, description="clamp each element of the step's gradient"), Effect.RESULT
    ] = None
    validate_every: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_STEPS,
            description="steps between validations; not set: one at each checkpoint, if there are validation files; "
            "0: none",
        ),
        Effect.NONE,
    ] = None
    validation_batches: Annotated[
        Annotated[int, Gt(0), Le(1 << 20)] | Literal["all"],
        Field(description="batches of one validation; all: every sample once, the last batch with those that are left"),
        Effect.NONE,
    ] = 4
    metrics_every: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_STEPS,
            description="steps between those whose own batches are measured by the task's metrics, too, with the "
            "weights before the step, by another forward pass; 0: none",
        ),
        Effect.NONE,
    ] = 0
    checkpoint_every: Annotated[
        int, Field(ge=0, le=MAX_STEPS, description="steps between checkpoints; 0: only at the end"), Effect.NONE
    ] = 1000
    checkpoint_minutes: Annotated[
        float,
        Field(
            ge=0,
            le=LONGEST,
            description="longest time between checkpoints, by the clock: one is written after the next step; 0: only "
            "train.checkpoint_every counts",
        ),
        Effect.NONE,
    ] = 0.0
    keep_checkpoints: Annotated[
        int,
        Field(gt=0, le=1 << 20, description="newest checkpoints that are kept, beside the one that validated best"),
        Effect.NONE,
    ] = 3
    best_metric: Annotated[
        str,
        Field(
            min_length=1,
            description="number of a validation that says which checkpoint is the best: loss, or a metric of the "
            "task's",
        ),
        Effect.RESULT,
    ] = "loss"
    early_stopping: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_STEPS,
            description="end the run after so many validations in a row in which train.best_metric was no better than "
            "its best value before; what is validated, and when, decides with it how long the run is",
        ),
        Effect.RESULT,
    ] = None
    keep_every: Annotated[
        int,
        Field(ge=0, le=MAX_STEPS, description="keep each checkpoint whose step is a multiple of this too; 0: none"),
        Effect.NONE,
    ] = 0
    export_every: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_STEPS,
            description="steps between numbered nets, exported to the run folder's nets/; each has a checkpoint of its "
            "step made; 0: none",
        ),
        Effect.NONE,
    ] = 0
    export_weights: Annotated[
        Literal["averaged", "newest"] | None,
        Field(
            description="which weights numbered nets have; not set: the averaged ones as soon as there are any "
            "(train.average), else the newest"
        ),
        Effect.NONE,
    ] = None
    start_weights: Annotated[
        Literal["averaged", "newest"],
        Field(description="which weights of a checkpoint, model.start_from, the run begins with"),
        Effect.SAVED,
    ] = "newest"
    on_export: Annotated[
        CommaList,
        Field(
            description="program and arguments, run with each numbered net, one at a time, beside training; {net} is "
            "the file, {step} its step; if the last line that it prints is a JSON object, its numbers go to the metrics"
        ),
        Effect.NONE,
    ] = ()
    on_end: Annotated[
        CommaList,
        Field(
            description="program and arguments, run once when the run has ended, well or not; it gets the outcome as a "
            "JSON object on standard input, and has 60 seconds"
        ),
        Effect.NONE,
    ] = ()
    average: AverageConfig = AverageConfig()

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        for key, value in (("on_export", self.on_export), ("export_weights", self.export_weights)):
            if value and not self.export_every:
                return f"train.{key}: does nothing without train.export_every: set that, or leave it out"
        for key, command in (("on_export", self.on_export), ("on_end", self.on_end)):
            if command and not command[0].strip():
                return f"train.{key}: the first entry is the program to run, and it is empty"
            if any("\0" in word for word in command):
                return f"train.{key}: no program can be given a NUL character"
        if self.export_weights == "averaged" and self.average.kind is None:
            return "train.export_weights: averaged: the run has no averaged weights: set train.average.kind"
        return self.average.problem


class PoolConfig(Section):
    devices: Annotated[
        CommaList,
        Field(
            description="one worker each: cuda:N, cpu, or auto: all CUDA devices, else CPU workers, one for each group "
            "of batches of a step, as far as there are cores, at most 8"
        ),
        Effect.NUMERICS,
    ] = ("auto",)
    threads: Annotated[
        int,
        Field(ge=0, le=1024, description="torch threads of a CPU worker; 0: allowed cores / workers"),
        Effect.NUMERICS,
    ] = 0
    coordinator_threads: Annotated[
        int,
        Field(ge=0, le=1024, description="threads of the coordinator; 0: allowed cores, at most 8"),
        Effect.NUMERICS,
    ] = 0
    own_kernels: Annotated[
        bool,
        Field(
            description="CUDA workers compute with this project's kernels, compiled when they are first used; if false "
            "with torch's own operations alone"
        ),
        Effect.NUMERICS,
    ] = True
    dense_products: Annotated[
        Literal["float32", "tf32", "bfloat16"],
        Field(
            description="numbers that CUDA workers multiply in torch's dense products, the sums being float32; this "
            "project's kernels compute in float32 all the same"
        ),
        Effect.NUMERICS,
    ] = "float32"
    ring_slots: Annotated[
        int, Field(ge=0, le=16000, description="batches kept ready or in use; 0: 2 x batches_per_step + 2"), Effect.NONE
    ] = 0
    gradient_slots: Annotated[int, Field(ge=1, le=16, description="gradient slots of a worker"), Effect.NONE] = 2
    exchange: Annotated[
        Literal["auto", "host", "device", "local"],
        Field(
            description="where gradients are added up and weights are stepped: the host's memory, or the accelerators' "
            "(their workers use the weights where they lie); local: the only worker's, by its own process; auto: "
            "local, or with several workers device, where that can be done and where processes can share such memory, "
            "which is tried once for each driver"
        ),
        Effect.NONE,
    ] = "auto"
    coordinator_device: Annotated[
        str,
        Field(
            description="the accelerator of the exchange on a device; not set: those of all workers, each of which "
            "adds up and steps a share of the weights' rows, if what they copy to one another arrives, which is tried "
            "once, too, and otherwise that of the first worker; all: those of all workers, or an error"
        ),
        Effect.NONE,
    ] = ""
    first_bucket_mb: Annotated[
        float, Field(ge=1e-6, le=1 << 20, description="size limit of the first gradient bucket, MiB"), Effect.NUMERICS
    ] = 1.0
    bucket_mb: Annotated[
        float,
        Field(
            ge=1e-6,
            le=1 << 20,
            description="size limit of the other gradient buckets, MiB; one bucket for an optimizer that steps all "
            "parameters together",
        ),
        Effect.NUMERICS,
    ] = 25.0
    snapshot_steps: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_STEPS,
            description="steps between copies of weights and optimizer state in memory, from which the run goes on if "
            "the coordinator dies; not set: one after the first step, then every 10 seconds; more time between them "
            "where the copies would take over a tenth of it; 0: only with each checkpoint",
        ),
        Effect.NONE,
    ] = None
    restarts: Annotated[
        int, Field(ge=0, le=1000, description="deaths of one process without a step done"), Effect.NONE
    ] = 5
    machine_timeout: Annotated[
        float,
        Field(
            ge=1,
            le=LONGEST,
            description="seconds that machines wait for one that is lost; then they save a checkpoint and end",
        ),
        Effect.NONE,
    ] = 3600.0
    hang_timeout: Annotated[
        float,
        Field(
            ge=1,
            le=LONGEST,
            description="seconds after which a process that does not move is killed and replaced; every half second "
            "each one says that it moves",
        ),
        Effect.NONE,
    ] = 60.0
    start_timeout: Annotated[
        float,
        Field(
            ge=0.1,
            le=LONGEST,
            description="seconds a process may take to get ready; then it is killed, as one that hangs",
        ),
        Effect.NONE,
    ] = 120.0
    stop_timeout: Annotated[
        float,
        Field(
            ge=0,
            le=LONGEST,
            description="seconds that the step and the checkpoint may take after a signal to stop",
        ),
        Effect.NONE,
    ] = 60.0


class TestingConfig(Section):
    crash_points: Annotated[
        CommaList,
        Field(description="POINT[@N]=kill|segv|stop|exit|note: what happens at the N-th pass of a first incarnation"),
        Effect.NONE,
    ] = ()
    device_module: Annotated[
        str,
        Field(
            description="module that adds a kind of device to torch: pool.devices may name it by the module's last part"
        ),
        Effect.NONE,
    ] = ""
    history: Annotated[
        bool, Field(description="write down every fold, update and commit, with a hash of each step"), Effect.NONE
    ] = False
