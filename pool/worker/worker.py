"""The worker's loop: waits for the next job, computes its gradients, reports them.

A worker reads the ring and the weights. It writes only memory of its own (I4): gradient slots, arrays for metrics,
which batch is in work, the text of an exception. When the process ends there is nothing to clean up (I6).
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from loader.plugins.error_text import format_error_with_location
from pool.crash_points import crash_point
from pool.device.lost import is_device_lost
from pool.device.memory import describe_free_memory, is_out_of_memory
from pool.errors import LostDeviceError, ResourceError, RunError
from pool.kernels.cuda.compiler import CompileError
from pool.process.start import WorkerStart
from pool.protocol.messages import Assignment
from pool.shm.memory import Memory
from pool.worker.compute import Computed, Computer
from pool.worker.job import Job
from pool.worker.mailbox import JobAction, Mailbox


class Worker:
    """Computes one job after the other on one device."""

    def __init__(
        self, start: WorkerStart, memory: Memory, mailbox: Mailbox, computer: Computer, *, copies_batches: bool
    ) -> None:
        """Connects the worker's parts. `copies_batches`: True if batches are copied to the device, which can be done
        while it computes."""
        self._start = start
        self._memory = memory
        self._mailbox = mailbox
        self._computer = computer
        self._copies_batches = copies_batches
        self._work_record = memory.work_record(start.peer.index)
        self._exception_text = memory.exception_text(start.peer.index)

    def run(self) -> NoReturn:
        """Runs jobs for ever. Raises the exception that ends the process."""
        self._mailbox.start()
        incarnation = 0
        while True:
            job, action = self._mailbox.next_job()  # waits until weights are complete, or a batch can be copied
            if job.incarnation != incarnation:
                incarnation = job.incarnation
                self._computer.forget_weights()
            assignment = job.assignment
            crash_point("worker.before_batch")
            self._work_record.start_assignment(assignment)
            crash_point("worker.batch_begun")
            with self._mailbox.computing():
                try:
                    computed = self._run_job(job, action)
                except BaseException as error:
                    self._report_failure(error, assignment)
                    raise
            if computed is None:
                self._work_record.end_assignment()
                continue
            crash_point("worker.batch_computed")
            self._work_record.end_assignment()
            crash_point("worker.before_finish")
            self._mailbox.finish(job, computed.outcomes, computed.absent)
            crash_point("worker.after_finish")

    def _run_job(self, job: Job, action: JobAction) -> Computed | None:
        """Computes a job, or only prepares it and returns None."""
        if action == "prepare":
            self._prepare(job)
            return None
        assignment = job.assignment
        slots = [self._memory.batch_slot(assignment.purpose, batch) for batch in assignment.batches]
        if assignment.purpose == "validate":
            metric_slot = self._memory.metric_slot(self._start.peer.index, assignment.batch)
            size = self._start.validation.size(assignment.batch)
            samples = None if size == self._start.validation.batch_size else size
            return self._computer.validate(slots[0], assignment.step, metric_slot, self._start.measured, samples)
        return self._computer.train(
            slots,
            assignment,
            frozen=job.frozen,
            on_bucket=lambda bucket: self._mailbox.report_bucket(job, bucket),
            on_batch=self._work_record.start_batch,
            while_computing=self._prepare_next,
        )

    def _prepare(self, job: Job) -> None:
        """Does the part of the job's first batch that needs no weights."""
        assignment = job.assignment
        slot = self._memory.batch_slot(assignment.purpose, assignment.batch)
        self._computer.prepare(slot, assignment.attempt, lambda: self._mailbox.finish_preparing(job))

    def _prepare_next(self) -> None:
        """Starts to copy the next batch to a device that still computes this one."""
        if not self._copies_batches:
            return
        job = self._mailbox.next_job_to_prepare()
        if job is not None:
            self._prepare(job)

    def _report_failure(self, error: BaseException, assignment: Assignment) -> None:
        """Writes the exception's text to the worker's shared memory. The coordinator reads it there, and has another
        worker compute the batch. This process ends, as it may be damaged.

        Raises ResourceError if memory has run out, LostDeviceError if the device can't be used any more, RunError if a
        kernel can't be compiled.
        """
        text, peer, spec = format_error_with_location(error), self._start.peer, self._start.device
        if isinstance(error, CompileError):
            raise RunError(
                f"{peer} ({spec}): a kernel can't be compiled: {text}; "
                f"pool.own_kernels = false computes with torch's own operations; all that was said is in {_log_path()}"
            ) from None
        if is_device_lost(error):
            self._work_record.end_assignment()  # not the batch's fault
            raise LostDeviceError(f"{spec} can't be used: {text}", [spec]) from None
        if is_out_of_memory(error):
            batch = self._work_record.read().batch
            raise ResourceError(
                f"{peer} ({spec}) ran out of memory in batch {batch}: {text}{describe_free_memory()}; "
                "lower data.batch_size or model sizes"
            ) from None
        self._exception_text.write(assignment.attempt, f"{text}; traceback in {_log_path()}")


def _log_path() -> str:
    """Returns the path of this process's output, wherever that has been moved."""
    try:
        return str(Path("/proc/self/fd/2").readlink())
    except OSError:
        return "no log"
