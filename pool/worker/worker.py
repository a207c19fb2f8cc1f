"""The worker process, from start to end: take an assignment, compute it, announce it, take the next.

Reads the ring and the weights, writes its own gradient slots and nothing else (I4). Dies by signal: there is
nothing to clean up (I6).
"""

from __future__ import annotations

import torch

from pool import _native, numerics
from pool.config import worker_threads
from pool.crash_points import crash_point
from pool.devices import parse_device
from pool.errors import ResourceError
from pool.launch import Launch
from pool.shm.memory import Memory
from pool.tasks.registry import task_module
from pool.telemetry.trace import Trace
from pool.worker.faults import Faults
from pool.worker.mailbox import Mailbox
from pool.worker.pinning import page_lock
from pool.worker.step import Computer


def run(launch: Launch) -> None:
    config = launch.config
    spec = launch.devices[launch.peer.index]
    device = parse_device(spec)
    torch.set_num_threads(worker_threads(config, spec, len(launch.devices)))
    numerics.check_worker(launch.fingerprint, launch.peer, device)
    _native.keep_freed_memory()  # or every large activation costs fresh pages
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    schema, plan = launch.planned()
    memory = Memory(launch)
    if device.kind == "cuda":
        page_lock(memory.ring, torch.device(device.torch_name))
    trace = Trace(launch.run_dir, launch.peer, on=bool(config.run.trace))
    computer = Computer(
        task_module(config.task).create_task(config.model, config.loss),
        plan,
        schema,
        device,
        Faults(device, launch.peer.incarnation),
        trace=trace,
        seed=config.run.seed,
        total_steps=config.train.steps,
        halves=memory.weight_halves(),
        gradient_slots=memory.gradient_slots(launch.peer.index),
    )
    in_work = memory.in_work(launch.peer.index)
    mailbox = Mailbox(launch, memory.worker_end(launch), trace)
    mailbox.start()
    life = 0
    while True:
        job, todo = mailbox.next_job()
        if job.life != life:
            life = job.life
            computer.forget_weights()
        assignment = job.assignment
        crash_point("worker.before_batch")
        in_work[1], in_work[0] = assignment.batch, assignment.attempt
        crash_point("worker.batch_begun")
        slot = memory.batch_slot(assignment.purpose, assignment.batch)
        try:
            with mailbox.computing():
                if todo == "prepare":
                    computer.prepare(slot, assignment.attempt)
                elif assignment.purpose == "validate":
                    outcome = computer.validate(slot, assignment.step)
                else:
                    outcome = computer.train(
                        slot,
                        assignment.step,
                        assignment.gradient_slot,
                        attempt=assignment.attempt,
                        first=assignment.batch % config.train.batches_per_step == 0,
                        announce=lambda bucket: mailbox.bucket(job, bucket),  # noqa: B023
                    )
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            what = next(iter(str(error).splitlines()), "no more is to be had")
            raise ResourceError(
                f"{launch.peer} ({spec}) ran out of memory in batch {assignment.batch}: {what}; "
                "lower data.batch_size or model sizes"
            ) from None
        if todo == "prepare":
            in_work[0] = 0
            mailbox.prepared(job)
            continue
        crash_point("worker.batch_computed")
        in_work[0] = 0
        crash_point("worker.before_finish")
        mailbox.finish(job, outcome)
        crash_point("worker.after_finish")


def out_of_memory(error: Exception) -> bool:
    """Torch's allocator for CPUs has no exception of its own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
