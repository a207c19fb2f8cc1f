"""Exports the numbers of a run to Prometheus (`telemetry.prometheus`).

The exporter belongs to the supervisor, which lives as long as the run, whatever else is restarted. The supervisor only
hands over the newest report; a thread answers requests. Names follow https://prometheus.io/docs/practices/naming: base
units, `_total` for what only grows.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pool.errors import ConfigError, PoolError
from pool.metrics.layout import LOSS
from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, WORKER
from pool.protocol.messages import RunReport
from pool.telemetry.web import WebServer

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

# late imports: prometheus-client is an extra

KEY = "telemetry.prometheus"
ROLES = (COORDINATOR, FEEDER, WORKER, FORKSERVER)
_VERSION = version("sparsepool")


def check_prometheus(address: str) -> None:
    """Checks that the package prometheus-client is installed if an address is set. Raises ConfigError."""
    if address and find_spec("prometheus_client") is None:
        raise ConfigError(
            f"{KEY}: needs prometheus-client, which is not installed: pip install 'sparsepool[prometheus]'"
        )


class Exporter:
    """Serves the run's numbers over HTTP, if an address is set.

    If the address can't be had, a line tells the user, and training goes on.
    """

    def __init__(self, address: str, run: str, say: Callable[[str], object]) -> None:
        """Starts a thread that answers requests. `address`: HOST:PORT, empty for none; `run`: name of the run; `say`:
        shows a line to the user."""
        self._numbers = RunNumbers(run)
        self._create_server: WebServer | None = None
        if not address:
            return
        try:
            self._create_server = _create_server(address, self._numbers)
        except (PoolError, ImportError) as error:
            say(f"{KEY}: {error}; training goes on without it")
            return
        threading.Thread(target=self._create_server.serve_forever, name="prometheus", daemon=True).start()

    def take(self, report: RunReport, deaths: Mapping[str, int]) -> None:
        """Stores the newest state to serve. `deaths`: number of deaths of processes so far, by role."""
        self._numbers.take(report, deaths)

    def close(self) -> None:
        if self._create_server is not None:
            self._create_server.shutdown()


class RunNumbers:
    """Turns the newest report into metrics, as a Collector of prometheus-client."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._newest: tuple[RunReport, Mapping[str, int], float] | None = None  # and time of its step

    def take(self, report: RunReport, deaths: Mapping[str, int]) -> None:
        """Stores the newest report, and when its step was first seen."""
        before = self._newest
        stepped = time.time() if before is None or report.step != before[0].step else before[2]
        self._newest = report, deaths, stepped

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of the newest report, which prometheus-client asks for at each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def metric(
            name: str, about: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
        ) -> Metric:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"sparsepool_{name}", about, labels=labels)
            for label, value in values:
                if not math.isnan(value):
                    family.add_metric(label, value)
            return family

        def number(name: str, about: str, value: float) -> Metric:
            return metric(name, about, (), [((), value)])

        yield metric("run_info", "Folder and version of the run.", ("folder", "version"), [((self._run, _VERSION), 1)])
        if self._newest is None:
            return
        report, deaths, stepped = self._newest
        yield number("step", "Steps done.", report.step)
        yield number("steps", "Steps of the whole run (train.steps).", report.steps)
        yield number("last_step_timestamp_seconds", "When the newest step was seen.", stepped)
        yield number("epoch", "Completed passes over the training files.", report.epoch)
        yield number("samples_total", "Samples trained on since the coordinator's start.", report.samples)
        yield number("learning_rate", "Learning rate, the median of members.", report.learning_rate)
        yield metric("loss", "Training loss of the newest step.", ("member",), _of_members(report.losses))
        yield number("validation_step", "Version of the weights of the newest validation.", report.validation_step)
        yield metric(
            "validation",
            "Numbers of the newest validation.",
            ("metric", "member"),
            [
                ((name, *member), value)
                for name, values in _validation(report).items()
                for member, value in _of_members(values)
            ],
        )
        yield number("checkpoint_step", "Step of the newest checkpoint, -1: none.", report.checkpoint)
        yield number("best_checkpoint_step", "Step of the checkpoint that validated best, -1: none.", report.best_step)
        yield metric("best_validation", "Its number.", ("metric",), [((report.best_metric,), report.best_value)])
        shares = [((name,), share) for name, share in asdict(report.shares).items()]
        yield metric("worker_time_ratio", "What the workers' time goes into.", ("activity",), shares)
        died = [((role,), deaths.get(role, 0)) for role in ROLES]
        yield metric("process_deaths_total", "Deaths of processes, since the run's newest start.", ("role",), died)
        waits = [(("disk",), report.waits_for_disk), (("nets",), report.waits_for_nets)]
        yield metric("run_waiting", "1: nothing is left to do but to wait for it.", ("reason",), waits)


def _of_members(values: Sequence[float]) -> list[tuple[tuple[str], float]]:
    """Returns the values of a number for each member (network of the run), each with the member's index as its
    label."""
    return [((str(m),), value) for m, value in enumerate(values)]


def _validation(report: RunReport) -> dict[str, Sequence[float]]:
    """Returns the results of the newest validation by name: the loss, then the task's metrics."""
    return {LOSS: report.validation_losses, **{each.name: each.values for each in report.validation_metrics}}


def _create_server(address: str, numbers: RunNumbers) -> WebServer:
    """Makes the web server at HOST:PORT. Raises UnavailableError, ImportError."""
    from prometheus_client import CollectorRegistry, make_wsgi_app

    registry = CollectorRegistry()
    registry.register(numbers)
    host, _, port = address.rpartition(":")
    return WebServer(make_wsgi_app(registry), host.strip("[]"), int(port))
