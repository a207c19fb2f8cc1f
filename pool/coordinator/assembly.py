"""Makes the coordinator's parts and connects them, for a new run and for one that is resumed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import torch
import zmq

from pool import _native, numerics
from pool.checkpoint.schedule import Schedule
from pool.checkpoint.state import FOLDER
from pool.checkpoint.validations import Goal
from pool.checkpoint.writer import CheckpointWriter
from pool.coordinator.bad_batches import BadBatches
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.coordinator import Coordinator
from pool.coordinator.exchange_setup.exchanges import Exchanges, exchange_devices
from pool.coordinator.exchange_setup.workers_memory import WorkersMemory
from pool.coordinator.executor import Executor
from pool.coordinator.first_steps import FirstStepsRecord
from pool.coordinator.history import History
from pool.coordinator.metrics.metrics import Metrics, Traffic
from pool.coordinator.models import Models
from pool.coordinator.other_machines import OtherMachines
from pool.coordinator.scheduler.inbox import Inbox
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.coordinator.snapshots import Snapshots
from pool.coordinator.state import State
from pool.coordinator.step_record import StepRecord
from pool.coordinator.update.stopwatch import Stopwatch
from pool.coordinator.validation_arrays import ValidationArrays
from pool.device.startup import naming_lost_devices
from pool.ensemble.factory import build_members
from pool.exchange.device.store import ExportedMemory
from pool.exchange.layout import list_bucket_members
from pool.nets.record import create_export_check
from pool.optim.plateau import plateau_rule
from pool.process.start import CoordinatorStart
from pool.protocol.channel import Hub, Link
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import Notice
from pool.run_folder.access import show_real_paths
from pool.shm.memory import Memory
from pool.task.factory import task_metrics
from pool.telemetry.trace import Trace


def begin(start: CoordinatorStart, exported: Future[ExportedMemory] | None = None) -> Callable[[], None]:
    """Makes the coordinator and returns the function that runs its loop.

    `exported`: if the run's only worker is a thread of this process, receives the GPU memory that coordinator and
    worker share. Raises as `assemble` does.
    """
    names, devices = start.exchange.devices, exchange_devices(start)
    if not names:
        return assemble(start, devices).run
    with naming_lost_devices(*names, devices=devices):
        coordinator = assemble(start, devices, exported)
    return naming_lost_devices(*names, devices=devices)(coordinator.run)


def assemble(
    start: CoordinatorStart, devices: Sequence[torch.device], exported: Future[ExportedMemory] | None = None
) -> Coordinator:
    """Makes a coordinator and publishes its newest weights to the workers.

    `devices`: the GPUs on which gradients and weights are exchanged, as torch numbers them in this process. `exported`:
    as in `begin`. Raises CheckpointError, RunError, ResourceError, LostDeviceError, and UnavailableError if
    a port can't be had.
    """
    config, layout = start.config, start.layout
    torch.set_num_threads(config.num_coordinator_threads)
    numerics.check_coordinator(start.fingerprint, start.peer)
    _native.keep_freed_memory()  # an optimizer allocates the same memory in every step
    context = zmq.Context[zmq.Socket[bytes]]()
    supervisor = Link(context, start.address_key, start.peer, Peer(SUPERVISOR), os.getppid())
    hub = Hub(context, start.address_key, start.peer)

    def notify(text: str) -> None:
        supervisor.send(Notice(show_real_paths(text)))

    trace = Trace(start.run_dir, start.peer, on=start.traced)
    samples = config.train.batches_per_step * config.data.batch_size
    metrics = Metrics(start.run_dir, start.step, config.train.steps, samples, notify, sinks=config.run.sinks)
    memory = Memory(start.memory, start.segments)
    shortcut = memory.coordinator_signals(start.peer, start.signal_fds)
    stopwatch = Stopwatch(metrics, trace)
    members = list(build_members([each.net for each in config.members], layout.plans))
    numerics.check_members(start.fingerprint, start.peer, members, config.pool.dense_products)
    exchanges = Exchanges(start, memory, shortcut, devices, exported)
    numerics.check_steps_on(start.fingerprint, start.peer, devices)
    models = Models(config.members, members, layout.plans, exchanges.members, stopwatch)
    areas, threads = memory.snapshots(), config.num_coordinator_threads
    snapshots = Snapshots(areas, start.snapshot, changes=models.changes, threads=threads)
    goal = Goal(config.train.best_metric, start.measured.best(config.train.best_metric))
    state = State(start, memory, models, snapshots, goal, notify)
    checkpoints = Checkpoints(
        snapshots,
        _create_writer(start),
        _create_schedule(start),
        goal=goal,
        state=state.as_checkpoint,
        notify=notify,
        copies=exchanges.copies,
        together=start.rank is not None,
    )
    checkpoints.resume(start.step, state.load())
    rules = _create_rules(start, goal)
    scheduler = StepScheduler(
        rules,
        start.step,
        start.cursor,
        incarnation=start.peer.incarnation,
        validations=checkpoints.validations,
        plateaus=state.plateaus,
        frozen=models.frozen,
        unused=state.unused,
        deaths=start.deaths,
    )
    machines = _connect_machines(start, context, rules, exchanges)
    history = _open_history(start, models)
    record = StepRecord(
        metrics,
        checkpoints,
        trace,
        ValidationArrays(
            [task_metrics(member.task, layout.schema) for member in members],
            start.measured,
            validation=start.validation,
            place=memory.metric_slot,
        ),
        history,
        FirstStepsRecord(start.run_dir, config.model_dump(mode="json"), models.weights),
        first_step=start.step,
        traffic=lambda: Traffic(models.read_nbytes, None if machines is None else machines.sent_nbytes),
    )
    bad_batches = BadBatches(start, memory, notify)
    executor = Executor(scheduler, models, state, record, bad_batches, hub, stopwatch, notify, machines)
    executor.execute(scheduler.start())
    coordinator = Coordinator(
        context=context,
        supervisor=supervisor,
        hub=hub,
        shortcut=shortcut,
        exchanges=exchanges,
        metrics=metrics,
        trace=trace,
        state=state,
        checkpoints=checkpoints,
        scheduler=scheduler,
        executor=executor,
        inbox=Inbox(scheduler, WorkersMemory(memory, shortcut), metrics.update_times),
        machines=machines,
        machine_timeout=config.pool.machine_timeout,
        history=history,
        notify=notify,
    )
    checkpoints.while_waiting = coordinator.report
    return coordinator


def _create_writer(start: CoordinatorStart) -> CheckpointWriter:
    train = start.config.train
    wanted = create_export_check(start.run_dir, train.export_every)
    return CheckpointWriter(start.run_dir / FOLDER, train.keep_checkpoints, train.keep_every, wanted)


def _create_schedule(start: CoordinatorStart) -> Schedule:
    train = start.config.train
    return Schedule(
        train.checkpoint_every,
        start.saved,
        seconds=60 * train.checkpoint_minutes,
        nets=train.export_every,
        snapshots=start.config.pool.snapshot_steps,
        now=time.monotonic(),
    )


def _connect_machines(
    start: CoordinatorStart, context: zmq.Context[zmq.Socket[bytes]], rules: Rules, exchanges: Exchanges
) -> OtherMachines | None:
    """Makes the connection to the other machines' coordinators; None if the run is on one machine. Raises
    UnavailableError if the port can't be had."""
    if start.rank is None:
        return None
    assert exchanges.others is not None
    return OtherMachines(context, start.rank, start.layout, rules.share, exchanges.others)


def _open_history(start: CoordinatorStart, models: Models) -> History | None:
    if not start.config.testing.history:
        return None
    return History(start.run_dir, start.peer.incarnation, start.step, models.newest_bytes)


def _create_rules(start: CoordinatorStart, goal: Goal) -> Rules:
    config = start.config
    plans = start.layout.plans
    return Rules(
        steps=config.train.steps,
        batches_per_step=config.train.batches_per_step,
        member_of=list_bucket_members(plans),
        gradient_slots=config.pool.gradient_slots,
        has_buffers=bool(plans[0].buffers),
        validate_every=config.validate_every,
        validation=start.validation,
        on_bad_batch=config.train.on_bad_batch,
        collects=start.measured.collects,
        batches_per_group=config.train.batches_per_group,
        goal=goal,
        early_stopping=config.train.early_stopping,
        plateaus=tuple(plateau_rule(member, start.measured) for member in config.members),
        machines=1 if start.rank is None else start.rank.num_machines,
        machine=0 if start.rank is None else start.rank.machine,
        metrics_every=config.train.metrics_every,
        metrics=tuple(name for name, _ in start.measured.metrics),
    )
