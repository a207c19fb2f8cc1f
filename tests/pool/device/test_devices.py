"""Names of devices, and what is said of those that stand idle."""

from __future__ import annotations

import pytest

from pool.config import bundle
from pool.config.load import parse_config
from pool.device.names import check_devices, describe_idle_devices, describe_unused_devices, resolve_devices
from pool.errors import ConfigError
from tests.support.configs import configs_in


@pytest.mark.parametrize(
    "text",
    [
        *("", "gpu", "gpu:0", "cpu:1", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:\u0663", "cpu?compute_ms=1"),
        *("cuda:" + "9" * 5000, "fake:0\n", "fake:0?compute_ms=nan", "fake:0?compute_ms=-5", "fake:0?compute_ms=inf"),
        *("fake:0?compute_ms=1e308", "fake:0?slow=1:nan", "fake:0?slow=nan:1", "fake:0?slow=1", "fake:0?crash=-1"),
        *(
            "fake:0?crash=" + "9" * 5000,
            "fake:0?crash=\u0663",
            "fake:0?explode=1",
            "fake:0?oom",
            "fake:0?nan=1:backward",
        ),
    ],
    ids=lambda text: repr(text)[:40],
)
def test_what_is_no_device_is_one_line_that_names_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^pool\.devices: ") as error:
        check_devices([text], "")
    assert len(str(error.value).splitlines()) == 1


def test_devices_for_tests_are_not_offered_to_users() -> None:
    with pytest.raises(ConfigError, match=r"allowed: cuda:N, cpu, auto$"):
        check_devices(["gpu:0"], "")
    with pytest.raises(ConfigError, match=r"no device; allowed: cuda:N, cpu, auto$"):
        check_devices((), "")


TAKES = "and a device takes whole batches; set it to"


def test_a_device_takes_whole_groups() -> None:
    assert describe_idle_devices(2, 7, 4) is None
    told = describe_idle_devices(4, 8, 4)
    assert told is not None
    assert "2 of 4 devices stand idle" in told
    assert "takes groups of 4 batches (train.batches_per_group); set it to 16 (" in told


@pytest.mark.parametrize(
    ("devices", "batches_per_step", "words"),
    [
        (1, 1, None),
        (2, 2, None),
        (2, 8, None),
        (4, 2, f"2 of 4 devices stand idle: train.batches_per_step = 2, {TAKES} 4 ("),
        (4, 1, f"3 of 4 devices stand idle: train.batches_per_step = 1, {TAKES} 4 ("),
        (4, 6, f"2 of 4 devices stand idle at the end of each step: train.batches_per_step = 6, {TAKES} 4 or 8 ("),
    ],
)
def test_idle_devices_are_told_with_what_to_set(devices: int, batches_per_step: int, words: str | None) -> None:
    told = describe_idle_devices(devices, batches_per_step)
    assert told is None if words is None else told is not None and told.startswith(words)


@pytest.mark.parametrize("batches_per_group", [1, 3])
@pytest.mark.parametrize("batches_per_step", [1, 2, 8, 100])
@pytest.mark.parametrize("cores", [1, 2, 5, 64])
def test_auto_is_all_cuda_devices_else_as_many_workers_as_can_be_busy(
    cores: int, batches_per_step: int, batches_per_group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pool.config.tree.allowed_cores", lambda: cores)
    train = {"batches_per_step": batches_per_step, "batches_per_group": batches_per_group}
    workers = parse_config({"task": "tests.support.toy", "train": train}, "test").num_cpu_workers
    assert 1 <= workers <= min(8, cores, batches_per_step)
    assert workers == 1 or describe_idle_devices(workers, workers * batches_per_group, batches_per_group) is None
    assert resolve_devices(["auto"], 0, cpu_workers=workers) == ("cpu",) * workers
    assert resolve_devices(["auto"], 3, cpu_workers=workers) == ("cuda:0", "cuda:1", "cuda:2")
    if cores == batches_per_step == 2 and batches_per_group == 1:
        assert workers == 2


@pytest.mark.parametrize(
    ("devices", "count", "cards", "line"),
    [
        (["cuda:0", "cuda:1"], 2, 2, None),
        (["cpu", "cpu"], 0, 0, None),
        (["cpu", "cpu"], 1, 1, "cuda:0: not used by this run"),
        (["cuda:1"], 4, 4, "cuda:0, cuda:2, cuda:3: not used by this run"),
        (["fake:0"], 1, 0, "cuda:0: not used"),
        (["cpu"], 0, 4, "NVIDIA cards in this machine: 4; torch shows none of them, because"),
        (["cuda:0", "cuda:1"], 2, 4, "NVIDIA cards in this machine: 4; torch shows 2 of them, because"),
    ],
)
def test_devices_of_the_machine_that_a_run_does_not_use_are_named(
    devices: list[str], count: int, cards: int, line: str | None
) -> None:
    told = describe_unused_devices(devices, count, cards, ", because")
    assert told is None if line is None else told is not None and told.startswith(line)


@pytest.mark.parametrize("name", bundle.list_names())
def test_bundled_configs_use_what_the_machine_has(name: str) -> None:
    assert {config.pool.devices for config in configs_in(bundle.read_text(name), name)} == {("auto",)}
