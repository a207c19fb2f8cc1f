"""What each key declares about its effect on the weights is so. FIXED: test_resuming; SAME_FILES: test_data_files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader.section import Effect
from pool import numerics
from pool.config.key_path import walk_fields
from pool.config.load import parse_config
from pool.config.tree import config_class
from pool.exchange.plan import TensorSpec, build_plan
from tests.support.runs import TOY, run_well

KEYS = dict(walk_fields(config_class("stockfish")))
BASE = {**TOY, "data.source": "tests.support.data.validated:NamedSource", "pool.devices": ["cpu"], "pool.threads": 1}


def keys_of(effect: Effect) -> set[str]:
    return {key for key, field in KEYS.items() if Effect.of(field) is effect}


@pytest.mark.parametrize("key", KEYS)
def test_each_key_declares_one_effect(key: str) -> None:
    assert sum(isinstance(entry, Effect) for entry in KEYS[key].metadata) == 1


# --- none ---

OTHER_VALUES: dict[str, Any] = {
    "run.trace": "trace.json",
    "run.sinks": [],
    "telemetry.project": "mine",
    "telemetry.name": "x",
    "telemetry.tags": ["a"],
    "telemetry.prometheus": "127.0.0.1:9400",
    "data.validation": ["a.binpack"],
    "data.threads": 3,
    "data.growing": "ignore_new",
    "train.validate_every": 5,
    "train.validation_batches": 2,
    "train.checkpoint_every": 4,
    "train.checkpoint_minutes": 1e-5,
    "train.keep_checkpoints": 1,
    "train.keep_every": 4,
    "train.export_every": 6,
    "train.export_weights": "newest",
    "train.on_export": ["true", "{net}"],
    "train.on_end": ["true"],
    "pool.exchange": "host",
    "pool.coordinator_device": "cuda:0",
    "pool.ring_slots": 5,
    "pool.gradient_slots": 1,
    "pool.snapshot_steps": 3,
    "pool.restarts": 1,
    "pool.machine_timeout": 100.0,
    "pool.hang_timeout": 100.0,
    "pool.start_timeout": 100.0,
    "pool.stop_timeout": 30.0,
    "testing.crash_points": ["coordinator.after_publish@1000=note"],
    "testing.device_module": "tests.support.toy",
    "testing.history": True,
}


def test_the_table_has_every_key_without_an_effect() -> None:
    """That of train.metrics_every, which needs a task with metrics: tests/runs/test_train_metrics.py."""
    assert OTHER_VALUES.keys() | {"run.dir", "train.metrics_every"} == keys_of(Effect.NONE)


@pytest.mark.runs
def test_keys_without_an_effect_leave_the_bits(tmp_path: Path) -> None:
    (tmp_path / "a.binpack").touch()
    files = {"run.trace": str(tmp_path / "trace.json"), "data.validation": [str(tmp_path / "a.binpack")]}
    before = run_well(tmp_path / "before", BASE)
    after = run_well(tmp_path / "after", {**BASE, **OTHER_VALUES, **files})
    assert (tmp_path / "trace.json").stat().st_size
    assert any(entry.get("validation_loss") is not None for entry in after.metrics())
    assert after.digest() == before.digest()


# --- numerics ---

TABLE = TensorSpec("table.weight", (1000, 16), "float32", 4)
NUMERICS: dict[str, Any] = {
    "optimizer.name": "torch.optim.SGD",
    "pool.devices": ["cuda:0"],
    "pool.threads": 2,
    "pool.coordinator_threads": 1000,
    "train.batches_per_group": 2,
    "train.gradient_dtype": "bfloat16",
}


CUDA_ALONE: dict[str, Any] = {"pool.dense_products": "tf32"}


def fingerprint(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    tree: dict[str, Any] = {"task": "tests.support.toy"}
    for key, value in {"pool.devices": ["cpu"], "pool.threads": 1, **changes}.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    monkeypatch.setattr(numerics, "device_kind", lambda device, threads: f"{device.kind} {threads}")
    config = parse_config(tree, "test")
    return numerics.reference(config, build_plan([TABLE], [], [1 << 20]), config.pool.devices)


def test_the_table_has_every_key_of_the_fingerprint() -> None:
    """Bucket limits reach it through the plan: tests/pool/exchange/test_buckets.py and test_fingerprint.py; what CUDA
    devices compute with, through their kind: tests/pool/kernels/cuda/test_launcher.py."""
    elsewhere = {"pool.first_bucket_mb", "pool.bucket_mb", "pool.own_kernels"}
    assert NUMERICS.keys() | CUDA_ALONE.keys() | elsewhere == keys_of(Effect.NUMERICS)


@pytest.mark.parametrize("key", NUMERICS)
def test_keys_that_change_rounding_change_the_fingerprint(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fingerprint({key: NUMERICS[key]}, monkeypatch) != fingerprint({}, monkeypatch)


@pytest.mark.parametrize("key", CUDA_ALONE)
def test_some_do_so_on_cuda_devices_alone(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = {"pool.devices": ["cuda:0"]}
    assert fingerprint({key: CUDA_ALONE[key]}, monkeypatch) == fingerprint({}, monkeypatch)
    assert fingerprint({**cuda, key: CUDA_ALONE[key]}, monkeypatch) != fingerprint(cuda, monkeypatch)
