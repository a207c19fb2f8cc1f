"""Records finished steps and validations: in the metrics, and in a snapshot or checkpoint if one is due."""

from __future__ import annotations

from collections.abc import Callable

from pool import _native
from pool.checkpoint.validations import Validation
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.first_steps import FirstStepsRecord
from pool.coordinator.history import History
from pool.coordinator.metrics.metrics import Metrics, Traffic
from pool.coordinator.scheduler.actions import Action, CollectArrays, Commit, FinishValidation, SaveValidation
from pool.coordinator.validation_arrays import ValidationArrays
from pool.crash_points import crash_point
from pool.telemetry.trace import Trace


class StepRecord:
    """Records what the coordinator has done. A commit is recorded after the workers were told of it, so that they don't
    wait, and before anything changes the state."""

    def __init__(
        self,
        metrics: Metrics,
        checkpoints: Checkpoints,
        trace: Trace,
        collected: ValidationArrays,
        history: History | None,
        first_steps: FirstStepsRecord,
        *,
        first_step: int,
        traffic: Callable[[], Traffic],
    ) -> None:
        """Makes the recorder of a run's steps. `collected`: gathers the arrays of validations. `history`: notes each
        action that is carried out; None: there is no such file. `first_step`: the first of this process. `traffic`:
        returns the bytes moved since this process began."""
        self._metrics = metrics
        self.checkpoints = checkpoints
        self._trace = trace
        self._collected = collected
        self._history = history
        self._first_steps = first_steps
        self._first_step = first_step
        self._traffic = traffic
        self._open: tuple[Commit, tuple[float, ...]] | None = None  # a commit that `settle` has to record

    def on_commit(self, action: Commit, learning_rates: tuple[float, ...]) -> None:
        """Takes a commit, which `settle` records later. `learning_rates`: those that the step was made with, one for
        each member (network of an ensemble)."""
        self.checkpoints.on_next_version()
        self._open = action, learning_rates

    def finish_commit(self) -> None:
        """Records the last commit in the metrics, and in a snapshot or checkpoint if one is due. Does nothing if that
        has been done."""
        if self._open is None:
            return
        (commit, learning_rates), self._open = self._open, None
        crash_point("coordinator.before_record")
        self._metrics.add_step(commit, learning_rates, self._traffic())
        self._first_steps.on_commit(commit.step + 1)  # before the snapshot: a successor repeats the step and writes it
        with self._trace.span("snapshot, if due", step=commit.step):
            self.checkpoints.on_commit(commit.step + 1, validated_next=commit.is_validated_next)
        if commit.step == self._first_step:  # all lasting memory is allocated now, that of optimizer state too
            _native.return_free_memory()  # that of weights as loaded or drawn, and of parts of optimizer state

    def write_history(self, action: Action) -> None:
        """Writes an action that was carried out to the history file, if there is one."""
        if self._history is not None:
            self._history.add_action(action)

    def collect_arrays(self, action: CollectArrays) -> None:
        """Copies the arrays that a worker has left for a validation batch."""
        self._collected.collect(action)

    def finish_validation(self, action: FinishValidation) -> list[Validation]:
        """Makes and records the validation of each member. Raises as `ValidationArrays.values`."""
        metrics = self._collected.compute_metrics()
        self._metrics.add_validation(action.version, action.losses, metrics)
        return [
            Validation(action.version, loss, {metric.name: metric.values[m] for metric in metrics})
            for m, loss in enumerate(action.losses)
        ]

    def on_validation(self, action: SaveValidation) -> None:
        """Saves the validated version of the weights if that is due, now that the state holds the validation's
        results."""
        self.checkpoints.on_validation(action.validations)
