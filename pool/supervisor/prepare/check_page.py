"""Writes the page that `pool check` prints: what a run does, and what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from loader.files.identity import DataFile
from loader.stream.data_facts import format_facts
from pool.machines.traffic import compute_step_traffic
from pool.supervisor.prepare.data_size import data_facts, describe_mixture, estimate_samples, file_lines, unit_warning
from pool.supervisor.prepare.disk_plan import DiskPlan
from pool.supervisor.prepare.gpu_page import gpu_lines
from pool.supervisor.prepare.learning_rate import rate_lines
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.system_memory import format_mib

WIDTH = 22  # characters of the left column


_RATES = (1, 10, 25, 100)  # Gbit/s


def check_page(run: RunPlan, disk: DiskPlan, memory: str, machines: int = 1) -> str:
    """Returns the page about a run as text.

    `disk`: room for checkpoints; `memory`: table of the memory that the run needs; `machines`: number of machines that
    compute the run.
    """
    entries = (*_run_lines(run), *_model_lines(run), *_machine_lines(run, disk), *_traffic_lines(run, machines))
    lines = (f"{name:{WIDTH}}{value}" for name, value in entries)
    facts = list(format_facts(data_facts(run.data)))
    return "\n".join(["Run", *lines, *(["", *facts] if facts else []), "", "Memory", memory])


def _run_lines(run: RunPlan) -> Iterator[tuple[str, str]]:
    """Yields names and values of the lines about the run: folder, samples, data, learning rate, validation."""
    config = run.config
    train, batch = config.train, config.data.batch_size
    per_step = train.batches_per_step * batch
    steps = train.steps - run.step
    samples = steps * per_step
    yield "folder", str(run.run_dir)
    yield "samples of a step", f"{per_step:,} = {train.batches_per_step} x {batch:,}"
    yield "samples of the run", f"{samples:,} in {steps:,} steps{f' behind {run.step:,}' if run.step else ''}"
    yield "training data", _describe_training_data(run, samples)
    for line in file_lines(run.data["train"]):
        yield "", line
    mixture = describe_mixture(run)
    if mixture is not None:
        yield "mixture", mixture.removeprefix("data.train: ")
    for number, line in enumerate(rate_lines(run)):
        yield ("" if number else "learning rate"), line
    every = config.validate_every
    if every:
        batches = f"{run.validation.batches:,} x {batch:,} samples"
        if run.validation.ends:
            batches = f"all {run.validation.samples:,} samples"
        share = config.data.validation_share
        origin = f"{share:.3g} of the training data" if share else _describe_files(run.validation_files)
        yield "validation", f"{origin}; every {every:,} steps, {batches}"
        for line in () if share else file_lines(run.data["validate"]):
            yield "", line
    else:
        yield "validation", "none"
    if (warning := unit_warning(config.task, run.data)) is not None:
        yield "", warning


def _describe_training_data(run: RunPlan, samples: int) -> str:
    """Describes the training data: files, samples, and how many epochs the run makes of them. `samples`: of the run."""
    files = _describe_files(run.train_files)
    samples_per_epoch = estimate_samples(run.data["train"])
    if not samples_per_epoch:
        return files
    epochs = samples / samples_per_epoch
    return f"{files}; about {samples_per_epoch:,} samples after the filters: {epochs:.2g} epochs"


def _describe_files(files: Sequence[DataFile]) -> str:
    size = format_mib(sum(file.size for file in files))
    return f"{_format_count(len(files), 'file')}, {size}" if files else "no files"


def _format_count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _model_lines(run: RunPlan) -> Iterator[tuple[str, str]]:
    """Yields names and values of the lines about the model's parameters."""
    plans = run.planned.plans
    plan, members = plans[0], f"{len(plans)} members of " if len(plans) > 1 else ""
    trained = sum(prod(tensor.shape) for tensor in plan.parameters)
    carried = sum(prod(tensor.shape) for tensor in plan.buffers)
    others = f", and {carried:,} numbers that are not trained" if carried else ""
    tensors, buckets = _format_count(len(plan.parameters), "tensor"), _format_count(len(plan.buckets), "bucket")
    yield "parameters", f"{members}{trained:,} in {tensors}, gradients in {buckets}{others}"


def _traffic_lines(run: RunPlan, machines: int) -> Iterator[tuple[str, str]]:
    """Yields names and values of the lines about several machines, if there are several: shares of a step, traffic."""
    if machines == 1:
        return
    groups = run.groups
    traffic = compute_step_traffic(run.planned.plan, groups, machines)
    shares = [len(groups.share(machine, machines)) for machine in range(machines)]
    yield "machines", f"{machines}; groups of a step on each: {', '.join(map(str, shares))}"
    rates = ", ".join(f"{1000 * traffic.seconds(rate):,.0f} ms at {rate} Gbit/s" for rate in _RATES)
    yield "each sends", f"{format_mib(traffic.sent)} a step at most: {rates}"
    yield "", "another machine pays if it saves more than that: --measure says what a step takes on this one"


def _machine_lines(run: RunPlan, disk: DiskPlan) -> Iterator[tuple[str, str]]:
    """Yields names and values of the lines about this machine: devices, threads, disk."""
    yield "workers on", "; ".join(run.planned.device_names)
    for line in run.planned.about_devices:
        yield "", line
    yield "loader's threads", str(run.decoding_threads)
    yield from gpu_lines(run)
    if (idle := run.idle_devices) is not None:
        yield "idle devices", idle
    size = f"{disk.more} x {format_mib(disk.nbytes)}"
    yield "checkpoints", f"{size} at a time, {format_mib(disk.free)} are free on the disk of {disk.place}"
