"""Seeded bugs, each with what must notice it. A row is data: add one and `make chaos-mutants` runs it.

`old` occurs exactly once in `file`; `new` takes its place. `caught_by` is what follows `python -m`: it must pass
without the bug and fail with it.
"""

from __future__ import annotations

from dataclasses import dataclass

SIMULATION = ("tests.pool.simulation", "--seeds", "4000", "--failures", "1", "--processes", "1")
MACHINES = ("tests.pool.simulation", "--first", "1000000", "--seeds", "400", "--failures", "1", "--processes", "1")
LEADER = ("pytest", "-q", "-x", "tests/pool/machines/test_leader.py")
BOOKS = ("pytest", "-q", "-x", "tests/pool/coordinator/test_scheduler.py")
MEMBERS = ("pytest", "-q", "-x", "tests/pool/coordinator/test_members.py")
STANDSTILL = ("pytest", "-q", "-x", "-m", "chaos", "tests/chaos/test_crash_points.py", "-k", "still_being_written")
TRACE = ("pytest", "-q", "-x", "tests/pool/telemetry/test_trace.py", "-k", "same_bits")
BLAME = ("pytest", "-q", "-x", "tests/pool/coordinator/test_fault_tracker.py")
FAILURE = ("pytest", "-q", "-x", "tests/pool/process/test_failure.py")
SHORTCUT = ("pytest", "-q", "-x", "tests/pool/shm/test_signals.py")
MAILBOX = ("pytest", "-q", "-x", "tests/pool/worker/test_mailbox.py")
SNAPSHOTS = ("pytest", "-q", "-x", "tests/pool/checkpoint/test_snapshots.py")
CHECKPOINTS = ("pytest", "-q", "-x", "tests/pool/checkpoint/test_checkpoints.py", "-k", "promises")
SUM_ORDER = ("pytest", "-q", "-x", "tests/pool/coordinator/test_sum_order.py")
UNCHANGED_ROWS = ("pytest", "-q", "-x", "tests/pool/coordinator/test_unchanged_rows.py")
AVERAGES = ("pytest", "-q", "-x", "tests/runs/test_average_runs.py", "-k", "same_bits or validated")
NETS = ("pytest", "-q", "-x", "tests/pool/checkpoint/test_best_checkpoint.py", "tests/pool/nets/test_nets.py")
GROUPS = ("pytest", "-q", "-x", "tests/pool/exchange/test_contract.py")
PROOF = ("pytest", "-q", "-x", "tests/pool/device/test_proof.py")
PROGRESS = ("pytest", "-q", "-x", "tests/pool/coordinator/test_checkpoint_progress.py")
BAD_BATCHES = ("pytest", "-q", "-x", "tests/runs/test_bad_batches.py", "-k", "mean_of_the_others")


@dataclass(frozen=True)
class Mutant:
    name: str
    what: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...] = SIMULATION


MUTANTS = (
    # --- several machines ---
    Mutant(
        "a node across shares",
        "sums of a share are joined into a node that lacks the places before the share",
        "pool/kernels/tree.py",
        "        if covered.start < leaves.start or covered.stop > leaves.stop:\n",
        "        if covered.stop > leaves.stop:\n",
        MACHINES,
    ),
    Mutant(
        "announced too early",
        "a machine tells what its share has come to when one of its batches is finished",
        "pool/coordinator/scheduler/step_progress.py",
        "return all(batch in self.losses for batch in self.batches if self.is_local(batch))",
        "return any(batch in self.losses for batch in self.batches if self.is_local(batch))",
        MACHINES,
    ),
    Mutant(
        "sent before it is sound",
        "a machine sends what is in a bucket's sum before it knows that no batch is left out of it",
        "pool/coordinator/scheduler/step_progress.py",
        "        if self._announced and has_local_sum and bucket not in self._sent:\n",
        "        if has_local_sum and bucket not in self._sent:\n",
        MACHINES,
    ),
    Mutant(
        "stepped without the others",
        "a bucket is stepped when the machine's own share of it is there",
        "pool/coordinator/scheduler/step_progress.py",
        "        missing = [machine for machine in senders if bucket not in self._remote_shares[machine].buckets]\n",
        "        missing: list[int] = []\n"
        "        senders = [machine for machine in senders if bucket in self._remote_shares[machine].buckets]\n",
        MACHINES,
    ),
    Mutant(
        "a batch left out on one machine",
        "what another machine can't use stays in the step",
        "pool/coordinator/scheduler/scheduler.py",
        "            if members and not self._ended:\n",
        "            if members and not self._ended and unusable.batch < 0:\n",
        MACHINES,
    ),
    Mutant(
        "stops alone",
        "a machine that is told to stop does not tell the others",
        "pool/coordinator/scheduler/scheduler.py",
        "        return AnnounceShare(replace(action.report, ends=True))\n",
        "        return action\n",
        MACHINES,
    ),
    Mutant(
        "does not hear of the end",
        "a machine goes on after the step with which another one ends",
        "pool/coordinator/scheduler/scheduler.py",
        "        if report.ends:\n",
        "        if report.ends and self._draining:\n",
        MACHINES,
    ),
    Mutant(
        "commits ahead of its feeder",
        "a version is complete though nobody here knows where the next step begins",
        "pool/coordinator/scheduler/scheduler.py",
        "self._progress.is_complete and self._knows_next_cursor\n",
        "self._progress.is_complete\n",
        MACHINES,
    ),
    Mutant(
        "reports of the future forgotten",
        "what another machine says of the next step is dropped",
        "pool/coordinator/scheduler/scheduler.py",
        "        if report.step < self.step:\n            return []\n",
        "        if report.step != self.step:\n            return []\n",
        MACHINES,
    ),
    Mutant(
        "begins with a step that one lacks",
        "a generation begins with the newest step that any machine has",
        "pool/machines/leader.py",
        "        common = set.intersection(*(set(report.steps) for report in reports.values()))\n",
        "        common = set.union(*(set(report.steps) for report in reports.values()))\n",
        MACHINES,
    ),
    Mutant(
        "a new life passes for the old one",
        "a supervisor that has begun anew is taken for the one that it follows",
        "pool/machines/leader.py",
        "            if report.life != self._lives[machine]:\n",
        "            if machine not in self._lives:\n",
        LEADER,
    ),
    Mutant(
        "orders of the dead",
        "a supervisor follows orders that were for its predecessor",
        "pool/machines/follower.py",
        "        if orders.life != self.report.life:  # orders for a dead supervisor, this one's predecessor\n",
        "        if not orders.life:\n",
        LEADER,
    ),
    Mutant(
        "finished for good",
        "a machine that has finished does not begin anew for one that has not",
        "pool/machines/leader.py",
        "            if report.lost >= self._generation:\n",
        "            if report.lost >= self._generation and not self._received[0].report.finished:\n",
        LEADER,
    ),
    Mutant(
        "kept too short",
        "what a machine has said of a step is forgotten before all have heard it",
        "tests/pool/simulation/links.py",
        "each[0] >= before]\n",
        "each[0] > before]\n",
        MACHINES,
    ),
    # --- ownership (I4) ---
    Mutant(
        "no fencing",
        "a batch of which nothing is heard in time is taken from its worker, which is silent and not dead",
        "pool/coordinator/scheduler/scheduler.py",
        """\
        self._workers.resend_orders()
        self._sent_to_feeder = None
        return list(self._changed_orders())
""",
        """\
        for key, group in list(self._assigned.items()):
            if group.assignment.step == self.step and not group.buckets:
                self._workers.take_back(group.worker, group.assignment)
                del self._assigned[key]
        self._workers.resend_orders()
        self._sent_to_feeder = None
        return self._advance()
""",
    ),
    Mutant(
        "successor does not wait",
        "a coordinator's successor has the ring filled again while batches are read for the dead one",
        "pool/coordinator/scheduler/scheduler.py",
        "if self._feeder is not None and self._workers.all_accounted_for:",
        "if self._feeder is not None:",
    ),
    Mutant(
        "worker speaks too early",
        "a worker speaks to the successor while it still computes for the dead coordinator",
        "pool/worker/job_queue.py",
        "return all(job.incarnation == self.incarnation for job in self._in_work)",
        "return True",
    ),
    Mutant(
        "mailbox speaks too early",
        "the same, in the thread that sends",
        "pool/worker/mailbox.py",
        "if not self._queue.can_report:",
        "if False:",
        MAILBOX,
    ),
    Mutant(
        "successor takes itself for the first",
        "a second coordinator does not know that there may be workers of an earlier one",
        "pool/coordinator/scheduler/scheduler.py",
        "successor=incarnation > 1",
        "successor=incarnation > 2",
    ),
    Mutant(
        "first roster not waited for",
        "a successor waits for none of the workers that it is told of first",
        "pool/coordinator/scheduler/worker_pool.py",
        "set(alive) if self._unaccounted is None else self._unaccounted & alive",
        "set()",
    ),
    Mutant(
        "gradient slot released early",
        "a gradient slot is free when its batch is finished, before it is added up",
        "pool/coordinator/scheduler/scheduler.py",
        "            group.absent = report.absent\n",
        "            group.absent = report.absent\n"
        "            self._workers.release_slot(group.worker, group.assignment.gradient_slot)\n",
    ),
    # --- versions and slots of a step (I3) ---
    Mutant(
        "ring slot freed at forward",
        "the feeder may fill the slot of the oldest batch as soon as it is given out",
        "pool/coordinator/scheduler/ring.py",
        "return StreamOrders(self.generation, self.start, self.freed)",
        "return StreamOrders(self.generation, self.start, min(self.freed + 1, self.filled))",
    ),
    Mutant(
        "ring slot freed before commit",
        "with a step the first batch of the next one is freed",
        "pool/coordinator/scheduler/scheduler.py",
        "self.train.free_below(self._workers.first_batch_in_use(committed))",
        "self.train.free_below(min(self.train.filled, self.step * self.rules.batches_per_step + 1))",
    ),
    Mutant(
        "version announced early",
        "workers hear of the next version when its first bucket is summed",
        "pool/coordinator/scheduler/scheduler.py",
        "yield from self._workers.pop_changed_orders(self.step, self._frozen)",
        "yield from self._workers.pop_changed_orders(self.step + self._progress.has_begun, self._frozen)",
    ),
    Mutant(
        "batch begun with old weights",
        "a worker does not wait for the version that its batch is for",
        "pool/worker/job_queue.py",
        "job.assignment.step == self.version",
        "job.assignment.step >= self.version",
    ),
    # --- the step is a function (I2) ---
    Mutant(
        "apply twice",
        "the optimizer steps a bucket twice",
        "pool/coordinator/scheduler/step_progress.py",
        "                yield Update(self.step, bucket, len(self._batches[member]), reduction)\n",
        "                yield Update(self.step, bucket, len(self._batches[member]), reduction)\n"
        "                yield Update(self.step, bucket, len(self._batches[member]), None)\n",
    ),
    Mutant(
        "stepped too early",
        "a bucket is stepped while a batch may still be left out",
        "pool/coordinator/scheduler/step_progress.py",
        "            return self._all_finished\n        if len",
        "            return True\n        if len",
    ),
    Mutant(
        "preparing is not reading",
        "a worker speaks to a new coordinator while it prepares a batch of the old one",
        "pool/worker/job_queue.py",
        "        if job not in self._in_work:\n            self._in_work.append(job)\n",
        "        if job not in self._in_work and stage is Stage.COMPUTING:\n            self._in_work.append(job)\n",
    ),
    Mutant(
        "taken back, but still read",
        "a ring slot is freed while a worker still prepares the batch that was taken back from it",
        "pool/coordinator/scheduler/worker_pool.py",
        "return min([end, *(batch for worker in self._workers.values() for batch in worker.revoked)])",
        "return end",
        BOOKS,
    ),
    Mutant(
        "taken back, not answered",
        "a worker says only when asked a second time that a batch taken back is not read any more",
        "pool/worker/job_queue.py",
        "return orders.needs_report and self.released_orders == self._newest_orders",
        "return False",
        ("pytest", "-q", "-x", "tests/pool/worker/test_job_queue.py", "-k", "want_an_answer"),
    ),
    Mutant(
        "taken back, answered late",
        "a worker's mailbox leaves it to the next repetition to say that orders are settled",
        "pool/worker/mailbox.py",
        "if is_new or is_awaited or is_woken or again.due():",
        "if is_new or is_woken or again.due():",
        (*MAILBOX, "-k", "want_an_answer"),
    ),
    Mutant(
        "reduce in order of arrival",
        "gradients are added up in the order in which their batches were finished",
        "pool/coordinator/scheduler/step_progress.py",
        "for group in groups[num_reduced:]:",
        "for group in sorted(groups[num_reduced:], key=lambda g: [*self.losses, *self.batches].index(g.batches[0])):",
    ),
    Mutant(
        "bad batch stays in its group's sum",
        "the others of its group are not computed again without it",
        "pool/coordinator/scheduler/scheduler.py",
        "if key in self._assigned and self._progress.shares_sum(batch, members):",
        "if False:",
    ),
    Mutant(
        "left out for nobody",
        "a group is computed again with a batch that is left out for one member",
        "pool/coordinator/scheduler/step_progress.py",
        "return tuple(sorted(entry for entry in self._left_out if entry.batch in batches))",
        "return ()",
    ),
    Mutant(
        "group begun too early",
        "a group is given out when its first batch is in the ring",
        "pool/coordinator/scheduler/scheduler.py",
        "return bool(batches) and batches[-1] < self.train.filled",
        "return bool(batches) and batches[0] < self.train.filled",
    ),
    Mutant(
        "nobody tells of deaths",
        "a coordinator does not know in which batches its predecessor's worker died with it",
        "pool/coordinator/scheduler/scheduler.py",
        "        for death in self._earlier_deaths:\n",
        "        for death in ():\n",
    ),
    Mutant(
        "a step done again has all its batches",
        "a batch that was left out is computed when its step is done again, by a coordinator that dies of it",
        "pool/supervisor/failover.py",
        "death.step >= done or reason_unusable(by_batch[death.key])",
        "death.step >= done",
        ("pytest", "-q", "-x", "tests/pool/supervisor/test_supervision.py", "-k", "told_on"),
    ),
    Mutant(
        "left out before it is there",
        "a batch is kept and left out by what is known of it before the ring holds it",
        "pool/coordinator/scheduler/scheduler.py",
        "is_in_ring = batch < self.train.filled",
        "is_in_ring = True",
    ),
    Mutant(
        "first batch blamed",
        "who dies in a group died of its first batch",
        "pool/coordinator/scheduler/scheduler.py",
        "DeathInBatch(assignment.purpose, assignment.step, batch, exception)",
        "DeathInBatch(assignment.purpose, assignment.step, assignment.batch, exception)",
    ),
    Mutant(
        "rows of a group begin as they are",
        "rows that the first batch of a group does not touch hold what was there",
        "pool/exchange/host/group_sum.py",
        "            group_sum[torch.from_numpy(only_of_group)] = 0.0\n",
        "            pass\n",
        GROUPS,
    ),
    Mutant(
        "added up from left to right",
        "what is added up early is added to all that was added up before, and not along the tree",
        "pool/kernels/tree.py",
        "if covered.start < leaves.start or covered.stop > leaves.stop:",
        "if not leaves.stop:",
    ),
    Mutant(
        "memory of a sum used twice",
        "a second part of the sum is written over the first",
        "pool/coordinator/update/parameter_part.py",
        "_first_free(used)",
        "0",
        SUM_ORDER,
    ),
    Mutant(
        "rows of a part forgotten",
        "of a table's part that was added up early, only the rows that its first batch touched count",
        "pool/exchange/host/coordinator.py",
        "union_rows(addends, self.first_row, len(out)) if self.is_table else None",
        "addends[0].touched",
        SUM_ORDER,
    ),
    Mutant(
        "sum not begun anew",
        "a batch that is left out stays in the sums that had it already",
        "pool/coordinator/scheduler/step_progress.py",
        "            self._num_reduced[bucket] = 0\n        for batch",
        "            pass\n        for batch",
    ),
    Mutant(
        "not renormalized",
        "without the batch that is left out, the gradient is still divided by all batches of a step",
        "pool/coordinator/update/bucket_steps.py",
        "return 1.0 / max(1, batches)",
        "return 1.0 / config.train.batches_per_step",
        BAD_BATCHES,
    ),
    Mutant(
        "left out, but slots kept",
        "batches of the next step keep slots that this one needs once more",
        "pool/coordinator/scheduler/scheduler.py",
        "        self._take_back_next_step()  # or its batches keep slots that this one needs once more\n",
        "",
        BOOKS,
    ),
    Mutant(
        "attempts counted anew",
        "a batch is blamed for the death of a worker that was still at an old coordinator's batch",
        "pool/coordinator/scheduler/scheduler.py",
        "self._attempts = generation",
        "self._attempts = 0",
        BOOKS,
    ),
    Mutant(
        "an earlier incarnation's exception",
        "what a worker raised in one batch is taken for the reason of its next incarnation's death in another",
        "pool/shm/signals.py",
        "if not attempt or written_attempt != attempt:",
        "if not attempt or not written_attempt:",
        (*FAILURE, "-k", "about_one_attempt"),
    ),
    Mutant(
        "left out for ever",
        "a run that can use no batch at all goes on to its end, leaving all out",
        "pool/coordinator/scheduler/fault_tracker.py",
        "[before + lost if lost else 0 for before, lost in zip(self._unused, num_lost, strict=True)]",
        "[0 for _ in num_lost]",
        BLAME,
    ),
    Mutant(
        "the same exception again and again",
        "a process whose exception came again is restarted as often as one that dies of this and that",
        "pool/supervisor/policy.py",
        "if self._exceptions.get(peer.role_index) == failure.signature:",
        "if False:",
        ("pytest", "-q", "-x", "tests/pool/supervisor/test_supervision.py"),
    ),
    # --- the stream is a function (I1) ---
    Mutant(
        "cursor off by one",
        "a new feeder begins at the batch before the one that it should",
        "pool/coordinator/scheduler/ring.py",
        "self.start = self._cursors[self.filled]",
        "self.start = self._cursors[max(self.freed, self.filled - 1)]",
    ),
    Mutant(
        "cursor an entry late",
        "the feeder reports where a batch begins with an entry too many",
        "pool/feeder/ring.py",
        "self._cursors.append(filled.next_cursor)",
        "self._cursors.append(Cursor(*[*vars(filled.next_cursor).values()][:3], filled.next_cursor.entry + 1))",
    ),
    # --- messages (I5) ---
    Mutant(
        "reports said once only",
        "what a worker reports is said when it changes, and not again",
        "pool/worker/mailbox.py",
        "is_new or is_awaited or is_woken or again.due():",
        "is_new or is_awaited or is_woken:",
        MAILBOX,
    ),
    Mutant(
        "addressee's incarnation ignored",
        "a message is taken that was for an earlier incarnation of the addressee",
        "pool/protocol/admission.py",
        "if envelope.addressee != self._me:",
        "if envelope.addressee.role_index != self._me.role_index:",
    ),
    Mutant(
        "the dead are heard",
        "messages of a coordinator that has a successor still count",
        "pool/protocol/admission.py",
        "self._newest = {peer:",
        "self._newest |= {peer:",
    ),
    Mutant(
        "order of messages ignored",
        "a message that was overtaken counts as the newest",
        "pool/protocol/admission.py",
        "if envelope.sequence <= self._newest[sender]:",
        "if envelope.sequence == self._newest[sender]:",
    ),
    Mutant(
        "orders said once only",
        "orders to workers that are lost are never made up for",
        "pool/coordinator/scheduler/scheduler.py",
        "        self._workers.resend_orders()\n",
        "",
    ),
    Mutant(
        "orders to the feeder said once only",
        "orders to the feeder that are lost are never made up for",
        "pool/coordinator/scheduler/scheduler.py",
        "        self._workers.resend_orders()\n        self._sent_to_feeder = None\n",
        "        self._workers.resend_orders()\n",
    ),
    Mutant(
        "generation ignored by the feeder",
        "the feeder goes on where it is when a new generation begins elsewhere",
        "pool/feeder/ring.py",
        "if orders.generation > self._generation:",
        "if self._generation < 0:",
    ),
    Mutant(
        "generation ignored by the scheduler",
        "what was filled for a dead coordinator is taken for the successor's",
        "pool/coordinator/scheduler/ring.py",
        "if report is None or report.generation != self.generation:",
        "if report is None:",
    ),
    # --- what must not be lost (I9) ---
    Mutant(
        "commit word first",
        "a snapshot says that it is whole before it is",
        "pool/checkpoint/snapshot.py",
        """\
        head[0] = 0
        crash_point("coordinator.snapshot_withdrawn")
""",
        """\
        head[0] = state.step + 1
        crash_point("coordinator.snapshot_withdrawn")
""",
        SNAPSHOTS,
    ),
    Mutant(
        "changed rows after a failed copy",
        "a snapshot after one that failed holds changed rows only, over what the failed one has left",
        "pool/checkpoint/snapshot.py",
        "before, self._places = self._places, None",
        "before = self._places",
        SNAPSHOTS,
    ),
    Mutant(
        "sum of an order",
        "machines that have the same state differ, if one of them has it from a file and the other from a snapshot",
        "pool/checkpoint/snapshot.py",
        "sorted(entries, key=lambda entry: entry.name)",
        "list(entries)",
        SNAPSHOTS,
    ),
    Mutant(
        "sum not looked at",
        "a snapshot that its dying writer has scribbled over is taken for a good one",
        "pool/checkpoint/snapshot.py",
        " or _total(area, commit, begin, end) != total:",
        ":",
        SNAPSHOTS,
    ),
    Mutant(
        "newest snapshot overwritten",
        "a successor begins with writing over the snapshot that it came from",
        "pool/coordinator/snapshots.py",
        "self._newest = newest or 0",
        "self._newest = 1 - (newest or 0)",
        SNAPSHOTS,
    ),
    Mutant(
        "optimizer state in the snapshot",
        "a successor trains on in the memory of the snapshot instead of a copy",
        "pool/coordinator/snapshots.py",
        "{name: tensor.clone() for name, tensor in state.optimizer_tensors.items()}",
        "dict(state.optimizer_tensors)",
        SNAPSHOTS,
    ),
    Mutant(
        "folder not synced",
        "a checkpoint's new name may be lost in a power cut after the older one is gone",
        "pool/checkpoint/store.py",
        """\
    files.sync_folder(where)
""",
        "",
        CHECKPOINTS,
    ),
    Mutant(
        "anybody may speak",
        "a message in a worker's name is taken from any process of the user",
        "pool/protocol/channel.py",
        "refusal = _check_origin(body, envelope, self._pids[sender])",
        'refusal = ""',
        ("pytest", "-q", "-x", "tests/pool/protocol/test_channel.py"),
    ),
    Mutant(
        "anybody may order",
        "a link hears whoever listens at the other end's address",
        "pool/protocol/channel.py",
        "refusal = _check_origin(body, envelope, self._other_pid)",
        'refusal = ""',
        ("pytest", "-q", "-x", "tests/pool/protocol/test_channel.py"),
    ),
    # --- the short way ---
    Mutant(
        "finished, but which",
        "that a worker has finished something is taken for the batch that it is to compute now",
        "pool/coordinator/scheduler/scheduler.py",
        "[each for each in worker.assignments if each.attempt == last.attempt]",
        "[each for each in worker.assignments if last.attempt > 0]",
    ),
    Mutant(
        "version of another incarnation",
        "a dead coordinator's version is taken for the living one's",
        "pool/shm/signals.py",
        "return newest.version if newest.incarnation == incarnation else -1",
        "return newest.version",
        SHORTCUT,
    ),
    Mutant(
        "half an entry",
        "a new attempt is read with the loss of the one before",
        "pool/shm/signals.py",
        "        if checksum != _checksum(attempt, losses):\n            return FinishedBatches(0, (), times)\n",
        "",
        SHORTCUT,
    ),
    Mutant(
        "published early",
        "workers begin while the version is still being written",
        "pool/coordinator/executor.py",
        """\
            self._models.commit(action.step)  # steps optimizers that need the gradients of all buckets
            self._models.publish(action.step + 1)
""",
        """\
            self._models.publish(action.step + 1)
            self._models.commit(action.step)  # steps optimizers that need the gradients of all buckets
""",
        STANDSTILL,
    ),
    Mutant(
        "overwritten unread",
        "a worker that finishes two batches before anybody looks says nothing of the first",
        "pool/worker/job_queue.py",
        "return is_awaited or follows_another or bool(absent) or not is_sound(outcomes)",
        "return is_awaited or bool(absent) or not is_sound(outcomes)",
    ),
    Mutant(
        "nothing rung",
        "a finished batch takes the long way only",
        "pool/worker/mailbox.py",
        "            self._signals.report_finished(job.assignment.attempt, losses, self._times)\n",
        "            pass\n",
        TRACE,
    ),
    Mutant(
        "nothing published",
        "a complete version takes the long way only",
        "pool/coordinator/executor.py",
        "            self._models.publish(action.step + 1)\n",
        "",
        TRACE,
    ),
    # --- members ---
    Mutant(
        "left out for another member",
        "a batch that is bad for one member is left out for another",
        "pool/coordinator/scheduler/scheduler.py",
        'is not finite ({group.computed_by})", set(infinite))',
        'is not finite ({group.computed_by})", {min(self._training)})',
    ),
    Mutant(
        "left out for all members",
        "a batch that is bad for one member is left out for all",
        "pool/coordinator/scheduler/scheduler.py",
        'is not finite ({group.computed_by})", set(infinite))',
        'is not finite ({group.computed_by})", using)',
    ),
    Mutant(
        "frozen member stepped",
        "a member that is frozen takes part in the next step",
        "pool/coordinator/scheduler/scheduler.py",
        "self._progress = StepProgress(self.step, self.rules, self._frozen)\n",
        "self._progress = StepProgress(self.step, self.rules)\n",
    ),
    Mutant(
        "frozen members forgotten",
        "a coordinator's successor trains a member that was frozen",
        "pool/coordinator/scheduler/scheduler.py",
        "set(range(rules.members)) - set(frozen)",
        "set(range(rules.members))",
    ),
    Mutant(
        "member stepped before it is judged",
        "buckets of a member are stepped while another batch may still freeze it",
        "pool/coordinator/scheduler/step_progress.py",
        "return all(self._is_finite(group",
        "return True or all(self._is_finite(group",
    ),
    Mutant(
        "batch judged before its version",
        "a bad batch freezes a member before it is known whether the member stops early",
        "pool/coordinator/scheduler/scheduler.py",
        """\
            if self._validation_due:
                self._assign_validation()
                break
            actions += self._leave_out_bad_batches()
""",
        """\
            actions += self._leave_out_bad_batches()
            if self._validation_due:
                self._assign_validation()
                break
""",
    ),
    Mutant(
        "all end with one",
        "a run ends with the first member that stops early",
        "pool/coordinator/scheduler/scheduler.py",
        "self._stopped_early = stopping == self._training",
        "self._stopped_early = bool(stopping)",
    ),
    Mutant(
        "stopped member trained again",
        "a coordinator's successor trains a member that has stopped with the version that it goes on from",
        "pool/coordinator/scheduler/scheduler.py",
        "        return [self._freeze(member) for member in sorted(stopping)]\n",
        "        return []\n",
        MEMBERS,
    ),
    Mutant(
        "plateau forgotten",
        "a coordinator's successor does not know how many validations were no better",
        "pool/coordinator/scheduler/validation_progress.py",
        "list(plateaus) or [Plateau()]",
        "[Plateau()]",
        MEMBERS,
    ),
    Mutant(
        "plateau of a frozen member",
        "the learning rate of a member that is trained no further is reduced",
        "pool/coordinator/scheduler/validation_progress.py",
        "if rule is None or member not in training:",
        "if rule is None:",
    ),
    Mutant(
        "saved with the old rate",
        "a snapshot holds the validation that reduces the learning rate, and the rate before that",
        "pool/coordinator/scheduler/validation_progress.py",
        """\
        if rules_on_plateau:
            yield ReduceRates(validations[0].step, rules_on_plateau)
        yield SaveValidation(self.validations, tuple(self._plateaus))
""",
        """\
        yield SaveValidation(self.validations, tuple(self._plateaus))
        if rules_on_plateau:
            yield ReduceRates(validations[0].step, rules_on_plateau)
""",
        MEMBERS,
    ),
    Mutant(
        "buffers of another member",
        "the buffers of a left out batch stay with the member that lost it",
        "pool/coordinator/scheduler/step_progress.py",
        "                self._lacks_buffers.discard(member)\n                if",
        "                if",
    ),
    Mutant(
        "frozen member computed with",
        "what a worker says of a member that is frozen by now is taken for news",
        "pool/coordinator/scheduler/step_progress.py",
        "return self._batches.get(member, ())",
        "return self._batches.get(member, self.batches)",
    ),
    # --- a worker that does not come back ---
    Mutant(
        "full slots stay full",
        "a group that a lost worker had waits for a slot that only its own sum could free",
        "pool/coordinator/scheduler/scheduler.py",
        "elif not reductions and not self._free_last_slot():",
        "elif not reductions:",
    ),
    Mutant(
        "given up for good",
        "a group that had to make room is not computed again",
        "pool/coordinator/scheduler/step_progress.py",
        "        for batch in self._groups.batches(self.step, group_index):\n"
        "            self.losses.pop(batch, None)\n",
        "        del group_index\n",
    ),
    Mutant(
        "given up, and its slot kept",
        "the slot of a group that had to make room is nobody's",
        "pool/coordinator/scheduler/scheduler.py",
        "        self._drop_group((self.step, max(finished)))\n        return True\n",
        "        del self._assigned[self.step, max(finished)]\n        return True\n",
    ),
    # --- what a version takes over from the one before ---
    Mutant(
        "rows of a task forgotten",
        "of a version that the task has changed, only the rows that the optimizer wrote are in the next but one",
        "pool/coordinator/update/unchanged_rows.py",
        "        self._different_rows = None\n        self._changes.mark_range",
        "        self._changes.mark_range",
        UNCHANGED_ROWS,
    ),
    Mutant(
        "copied ahead once and for all",
        "an optimizer of torch steps from the version before the newest",
        "pool/coordinator/update/unchanged_rows.py",
        "            self._memory.copy_unchanged(version)\n        self._is_copied = False\n",
        "            self._memory.copy_unchanged(version)\n",
        UNCHANGED_ROWS,
    ),
    # --- averages and numbered nets ---
    Mutant(
        "added twice",
        "a version is added to the average each time that something follows from it",
        "pool/coordinator/models.py",
        "        if self._averaged_version == self.version:\n            return\n",
        "",
        AVERAGES,
    ),
    Mutant(
        "average begins anew",
        "a successor does not know how many versions are in the average",
        "pool/checkpoint/snapshot.py",
        '"averaged": state.averaged,',
        '"averaged": min(1, state.averaged),',
        AVERAGES,
    ),
    Mutant(
        "other versions added",
        "the average has the versions after those that are due",
        "pool/coordinator/update/weight_average.py",
        "if not self._config.includes(version):",
        "if not self._config.includes(version - 1):",
        AVERAGES,
    ),
    Mutant(
        "net passed by",
        "a snapshot is taken before the checkpoint of a net is on the disk",
        "pool/coordinator/checkpoint_progress.py",
        "self.stage is not Stage.WRITING_FIRST and self.reason is not Reason.NET",
        "self.stage is not Stage.WRITING_FIRST",
        NETS,
    ),
    Mutant(
        "best overwritten while it waits",
        "a snapshot is taken while both areas hold what has to be written",
        "pool/coordinator/checkpoint_progress.py",
        "self.stage is not Stage.WRITING_FIRST and self.reason is not Reason.NET",
        "self.reason is not Reason.NET",
        PROGRESS,
    ),
    Mutant(
        "reason of the one before",
        "a checkpoint that waited for the thread counts as what it waited for",
        "pool/coordinator/checkpoint_progress.py",
        "            self.reason = Reason.BEST\n",
        "",
        PROGRESS,
    ),
    Mutant(
        "checkpoint of a net removed",
        "an old checkpoint goes although its net is not exported yet",
        "pool/nets/record.py",
        "step not in read_record(run)",
        "step in read_record(run)",
        NETS,
    ),
    Mutant(
        "command forgotten",
        "a net whose command was running when the supervisor died counts as tried",
        "pool/nets/record.py",
        "if state is NetState.WRITTEN]",
        "if state is None]",
        NETS,
    ),
    # --- devices ---
    Mutant(
        "proof of another driver",
        "what was seen of shared memory counts for every driver",
        "pool/device/proof.py",
        "if record.setup == setup), cls",
        "if record.setup.card == setup.card), cls",
        PROOF,
    ),
    Mutant(
        "copies between cards that nobody has seen",
        "several devices are taken for an exchange where one was seen to work",
        "pool/planner/memory_sharing.py",
        "needed = NEEDED if try_copying is None else NEEDED_BY_SEVERAL",
        "needed = NEEDED",
        ("pytest", "-q", "-x", "tests/pool/planner/test_memory_sharing.py"),
    ),
    Mutant(
        "full card noted",
        "a card that is full when it is tried is never tried again",
        "pool/device/second_process.py",
        "not (is_out_of_memory(error) or is_device_lost(error))",
        "not is_device_lost(error)",
        ("pytest", "-q", "-x", "tests/pool/device/test_second_process.py"),
    ),
    Mutant(
        "thread without a context",
        "a kernel is launched in a thread in which nothing of torch has run, as it stands",
        "pool/kernels/cuda/driver.py",
        'self._driver.call("cuCtxSetCurrent", self.handle)',
        "pass",
        ("pytest", "-q", "-x", "tests/pool/kernels/cuda/test_launcher.py"),
    ),
    Mutant(
        "card that fails when it is opened",
        "a card that a new process can't open is not lost if a wrong kernel says the same",
        "pool/device/lost.py",
        "return _contains_any(error, _AMBIGUOUS_PHRASES)",
        "return False",
        ("pytest", "-q", "-x", "tests/pool/device/test_lost.py"),
    ),
)
