"""What Prometheus is told: names in its convention, the report's numbers, and nothing that a run waits for."""

from __future__ import annotations

import json
import math
import re
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pool.config.load import load_config
from pool.errors import ConfigError
from pool.protocol.messages import MetricValue
from pool.telemetry import prometheus
from pool.telemetry.prometheus import Exporter, check_prometheus
from pool.telemetry.web import MOST_CONNECTIONS
from tests.pool.telemetry.test_progress import REPORT
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.tools import need_program
from tests.support.wait import wait_for

ALERTS = ROOT / "deploy/prometheus-alerts.yml"
DASHBOARD = ROOT / "deploy/grafana-dashboard.json"
FULL = replace(
    REPORT,
    losses=(0.5, math.nan),
    validation_losses=(0.25, 0.75),
    validation_metrics=(MetricValue("auc", (0.5, 0.625)),),
    best_step=300,
    best_value=0.25,
    waits_for_disk=True,
)


@contextmanager
def exporting(run: str = "runs/x") -> Iterator[tuple[Exporter, str]]:
    """With where it answers."""
    address = f"127.0.0.1:{free_port()}"
    exporter = Exporter(address, run, pytest.fail)
    try:
        yield exporter, address
    finally:
        exporter.close()


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def samples(text: str) -> dict[str, float]:
    """By name and labels, as the text has them."""
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_it_tells_what_the_newest_report_says() -> None:
    run = 'runs/"x"\n'
    with exporting(run) as (exporter, address):
        assert samples(scrape(address)).keys() == {f"sparsepool_run_info {run} {prometheus._VERSION}"}
        exporter.take(FULL, {"worker": 2})
        told = samples(scrape(address))
    assert {
        "sparsepool_step": 400,
        "sparsepool_steps": 3000,
        "sparsepool_samples_total": 400 * 8192,
        "sparsepool_loss 0": 0.5,
        "sparsepool_validation 1 loss": 0.75,
        "sparsepool_validation 0 auc": 0.5,
        "sparsepool_best_validation loss": 0.25,
        "sparsepool_worker_time_ratio compute": 0.55,
        "sparsepool_process_deaths_total worker": 2,
        "sparsepool_process_deaths_total feeder": 0,
        "sparsepool_run_waiting disk": 1,
        "sparsepool_run_waiting nets": 0,
    }.items() <= told.items()
    assert "sparsepool_loss 1" not in told, "a frozen member has no loss"


def test_a_step_that_stays_has_the_time_at_which_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = prometheus.RunNumbers("x")
    for now, step, expected in ((10.0, 1, 10.0), (20.0, 1, 10.0), (30.0, 2, 30.0), (40.0, 1, 40.0)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        numbers.take(replace(REPORT, step=step), {})
        (stepped,) = (m for m in numbers.collect() if m.name == "sparsepool_last_step_timestamp_seconds")
        assert stepped.samples[0].value == expected


def names() -> set[str]:
    with exporting() as (exporter, address):
        exporter.take(FULL, {})
        return {name.split()[0] for name in samples(scrape(address))}


def test_the_reference_names_all_of_them_and_no_other() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    assert set(re.findall(r"^\| `(sparsepool_\w+)", page, re.MULTILINE)) == names()


def expressions() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [*rules, *(target["expr"] for panel in panels for target in panel["targets"])]


def test_alerts_and_dashboard_ask_for_names_that_there_are() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"sparsepool_\w+", expression)}
    assert asked
    assert asked <= names()


def test_prometheus_own_tool_finds_nothing_wrong_with_the_names() -> None:
    tool = need_program("promtool", "prometheus")
    with exporting() as (exporter, address):
        exporter.take(FULL, {})
        text = scrape(address)
    done = subprocess.run(
        [tool, "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_prometheus_own_tool_takes_the_alerts_and_they_fire_when_they_should(tmp_path: Any) -> None:
    tool = need_program("promtool", "prometheus")
    values = {
        'sparsepool_step{instance="gone"}': "1+1x10 _x120",
        'sparsepool_steps{instance="gone"}': "100x10 _x120",
        'sparsepool_step{instance="done"}': "91+1x9 _x120",
        'sparsepool_steps{instance="done"}': "100x9 _x120",
        'sparsepool_step{instance="slow"}': "5x120",
        'sparsepool_steps{instance="slow"}': "100x120",
        'sparsepool_last_step_timestamp_seconds{instance="slow"}': "60x120",
        'sparsepool_process_deaths_total{instance="slow",role="worker"}': "0x60 1+1x9 10x50",
        'sparsepool_worker_time_ratio{instance="slow",activity="loader"}': "0.5x120",
        'sparsepool_run_waiting{instance="slow",reason="disk"}': "0x90 1x30",
    }
    fire = {
        ("SparsepoolRunGone", "30m"): ["gone"],
        ("SparsepoolRunStalled", "10m"): [],
        ("SparsepoolRunStalled", "30m"): ["slow"],
        ("SparsepoolProcessesDie", "60m"): [],
        ("SparsepoolProcessesDie", "75m"): ["slow"],
        ("SparsepoolWaitsForBatches", "40m"): ["slow"],
        ("SparsepoolWaitsForDisk", "90m"): [],
        ("SparsepoolWaitsForDisk", "110m"): ["slow"],
    }
    tests = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": value} for name, value in values.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count by (instance) (ALERTS{{alertname="{name}",alertstate="firing"}})',
                        "eval_time": at,
                        "exp_samples": [{"labels": f'{{instance="{which}"}}', "value": 1} for which in instances],
                    }
                    for (name, at), instances in fire.items()
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    done = subprocess.run(
        [tool, "test", "rules", str(tmp_path / "tests.yml")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_opens_many_connections_takes_no_more_than_some_and_only_from_others_who_ask() -> None:
    with exporting() as (exporter, address), ExitStack() as held:
        host, _, port = address.partition(":")
        for _ in range(2 * MOST_CONNECTIONS):
            held.enter_context(socket.create_connection((host, int(port)), timeout=30))
        exporter.take(REPORT, {})
        wait_for(
            lambda: sum(t.name.startswith("Thread-") for t in threading.enumerate()) <= MOST_CONNECTIONS, "threads"
        )
        held.close()

        def answers() -> bool:
            try:
                return "sparsepool_step 400" in scrape(address)
            except OSError:
                return False

        wait_for(answers, "room for another one")


def test_an_address_that_is_taken_is_told_and_the_run_goes_on_without_it() -> None:
    said: list[str] = []
    with exporting() as (_, address):
        other = Exporter(address, "runs/y", said.append)
        other.take(REPORT, {})
        other.close()
    (line,) = said
    assert "telemetry.prometheus" in line
    assert "training goes on without it" in line


@pytest.mark.parametrize("address", ["127.0.0.1", "x:0", "x:65536", "x:y", "http://x:1", "::1:9400", "[::1]", " x:1"])
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.prometheus: must be HOST:PORT"):
        load_config(ROOT / "configs/demo.toml", [f"telemetry.prometheus={address}"])


def test_without_the_package_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "find_spec", lambda _: None)
    check_prometheus("")
    with pytest.raises(ConfigError, match=r"sparsepool\[prometheus\]"):
        check_prometheus("127.0.0.1:9400")
