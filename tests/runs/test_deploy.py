"""deploy/: the script restarts what may succeed the next time and nothing else; the unit leaves a run what it needs."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader.exit_codes import EXIT_DATA, EXIT_USAGE
from pool.config.schedule import MAX_STEPS
from tests.support.paths import ROOT
from tests.support.runs import TOY, command, steps_done
from tests.support.tools import need_program
from tests.support.wait import wait_for

SCRIPT = ROOT / "deploy/supervisor.sh"
UNIT = ROOT / "deploy/sparsepool@.service"
MAX_EXPOSURE = 20  # tenths, of 100, as `systemd-analyze security` rates it; 17 with systemd 252
SHELLS = [
    words
    for line in (
        "sh",
        "dash",
        "bash --posix",
        "busybox sh",
        "ksh",
        "mksh",
        "yash --posixly-correct",
        "zsh --emulate sh",
    )
    if shutil.which((words := line.split())[0]) is not None
]
QUICK = {**TOY, "train.steps": 2, "pool.devices": ["fake:0"]}


def supervise(dir: Path, settings: dict[str, Any], before: str = "") -> subprocess.Popen[str]:
    """The script at work on a run in `dir`; each start runs the shell commands `before` first, $n being its number."""
    config = command(dir, settings)[-1]
    stub = dir.with_name("pool.sh")
    stub.write_text(
        f'echo start >> "$0.calls"\nn=$(wc -l < "$0.calls")\n{before}\nexec {sys.executable} -m pool "$@"\n'
    )
    return subprocess.Popen(
        ["sh", str(SCRIPT), config],
        cwd=ROOT,
        env={**os.environ, "POOL": f"sh {stub}", "PAUSE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def starts(dir: Path) -> int:
    return dir.with_name("pool.sh.calls").read_text().count("start")


def test_a_run_that_fails_is_started_again_until_it_is_done(tmp_path: Path) -> None:
    process = supervise(tmp_path / "run", QUICK, before='if [ "$n" -lt 3 ]; then exit 1; fi')
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert starts(tmp_path / "run") == 3
    assert err.count("the run ended with code 1; again in 0 s") == 2
    assert steps_done(tmp_path / "run") == 2


@pytest.mark.parametrize(
    ("settings", "before", "code"),
    [({**QUICK, "train.steps": 0}, "", EXIT_USAGE), (QUICK, "exec /nowhere/pool", 127)],
    ids=["a bad config", "no such command"],
)
def test_what_would_fail_again_is_not_started_again(
    settings: dict[str, Any], before: str, code: int, tmp_path: Path
) -> None:
    process = supervise(tmp_path / "run", settings, before)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert starts(tmp_path / "run") == 1


def test_sigterm_ends_the_run_with_a_checkpoint_and_the_script_with_it(tmp_path: Path) -> None:
    process = supervise(tmp_path / "run", {**QUICK, "train.steps": MAX_STEPS})
    wait_for(lambda: steps_done(tmp_path / "run") >= 2, "two steps")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "finishing the step" in out
    assert starts(tmp_path / "run") == 1
    assert (tmp_path / "run/checkpoints/last").exists()


def catches(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def supervise_stub(shell: list[str], folder: Path, body: str, pause: str = "0") -> subprocess.Popen[str]:
    """The script in `shell`; instead of `pool` a few lines of sh run, $n being the number of the start."""
    stub = folder / "pool.sh"
    stub.write_text(f'echo start >> "$0.calls"\nn=$(wc -l < "$0.calls")\n{body}\n')
    return subprocess.Popen(
        # A shell cannot trap what it was started to ignore, as the tests are behind nohup.
        ["env", "--default-signal=INT,HUP", *shell, str(SCRIPT), "config.toml", "--set", "a b=c"],
        env={**os.environ, "POOL": f"sh {stub}", "PAUSE": pause},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
class TestInEveryShellThatIsHere:
    def test_it_restarts_what_failed_with_the_same_arguments(self, shell: list[str], tmp_path: Path) -> None:
        process = supervise_stub(shell, tmp_path, 'printf "%s|" "$@"; [ "$n" -ge 3 ]')
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out == 3 * "train|--resume|config.toml|--set|a b=c|"
        assert err.splitlines() == 2 * ["supervisor.sh: the run ended with code 1; again in 0 s"]

    def test_sigterm_reaches_the_run_and_its_exit_code_is_the_scripts(self, shell: list[str], tmp_path: Path) -> None:
        body = "trap 'echo stopping; exit 143' TERM; echo ready; while :; do sleep 0.05; done"
        process = supervise_stub(shell, tmp_path, body)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (143, "stopping\n", "")

    def test_sigterm_is_lost_at_no_moment_of_the_start(self, shell: list[str], tmp_path: Path) -> None:
        """It is sent when the script has just begun to listen: before, while and after it forks and the child becomes
        the run."""
        for _ in range(20):
            process = supervise_stub(shell, tmp_path, "while :; do sleep 0.05; done")
            wait_for(lambda pid=process.pid: catches(pid, signal.SIGHUP), "the script's traps")  # type: ignore[misc]
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (143, "")

    def test_a_run_that_has_just_begun_is_asked_to_end_and_not_killed(self, shell: list[str], tmp_path: Path) -> None:
        body = "trap 'echo saved; exit 143' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"
        process = supervise_stub(shell, tmp_path, body)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (143, "saved\n", "")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_a_signal_in_a_pause_ends_it(self, number: signal.Signals, shell: list[str], tmp_path: Path) -> None:
        process = supervise_stub(shell, tmp_path, "exit 1", pause="3600")
        assert process.stderr is not None
        assert "again in 3600 s" in process.stderr.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (128 + number, "")

    def test_without_a_config_it_says_how_it_is_used(self, shell: list[str]) -> None:
        done = subprocess.run([*shell, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert "usage: supervisor.sh CONFIG" in done.stderr


def test_the_script_is_what_posix_allows() -> None:
    shellcheck = need_program("shellcheck", "shellcheck")
    done = subprocess.run([shellcheck, "--shell=sh", SCRIPT], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def analyze_unit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze` on an instance of the unit whose program exists."""
    text = re.sub(r"^ExecStart=/opt\S+", "ExecStart=/bin/true", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (folder / "sparsepool@first.service").write_text(text, encoding="utf-8")
    program = need_program("systemd-analyze", "systemd")
    command = [program, *arguments, str(folder / "sparsepool@first.service")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    done = analyze_unit(tmp_path, "--man=no", "verify")
    newer = re.compile("Unknown key( name)? '(RestartSteps|RestartMaxDelaySec)'")
    stderr = [line for line in done.stderr.splitlines() if not newer.search(line)]
    assert (done.returncode, done.stdout, stderr) == (0, "", [])


def test_the_unit_takes_from_a_run_what_it_does_not_need(tmp_path: Path) -> None:
    done = analyze_unit(tmp_path, "security", "--offline=true", f"--threshold={MAX_EXPOSURE}", "--no-pager")
    assert done.returncode == 0, done.stdout


def test_the_unit_leaves_a_run_what_a_gpu_needs() -> None:
    """CUDA opens /dev/nvidia*, and NVRTC and the driver write code and then run it."""
    set_here = {line.partition("=")[0] for line in UNIT.read_text(encoding="utf-8").splitlines()}
    assert set_here.isdisjoint({"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock"})
    assert set_here.isdisjoint({"MemoryDenyWriteExecute", "ProcSubset"})


def test_the_unit_resumes_and_does_not_restart_a_bad_config() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Environment"] == 'ARGUMENTS= "COMMAND=train --resume"'
    assert service["ExecStart"].split()[1:3] == ["$COMMAND", "/etc/sparsepool/%i.toml"]
    assert service["RestartPreventExitStatus"] == f"{EXIT_USAGE} {EXIT_DATA}"
    assert int(service["RestartMaxDelaySec"]) > int(service["RestartSec"]), "what does not pass is tried less often"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "what will pass may take longer than a few restarts"
    assert {"/opt/sparsepool", "/etc/sparsepool", "/var/lib/sparsepool"} == set(
        unit["Unit"]["RequiresMountsFor"].split()
    )
    assert service["SuccessExitStatus"] == "130 143"
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    assert service["OOMPolicy"] == "continue"
    assert service["KillMode"] == "mixed"


def test_the_job_of_several_machines_is_a_script_of_bash() -> None:
    shellcheck = need_program("shellcheck", "shellcheck")
    script = ROOT / "deploy/slurm-machines.sh"
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_pods_of_several_machines_are_started_with_options_that_there_are() -> None:
    text = (ROOT / "deploy/kubernetes-machines.yaml").read_text()
    kinds = {document["kind"]: document for document in yaml.safe_load_all(text)}
    assert list(kinds) == ["Service", "NetworkPolicy", "Job"]
    job = kinds["Job"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    options = [word for word in container["args"] if word.startswith("--")]
    known = subprocess.run(
        [sys.executable, "-m", "pool", "machines", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert [option for option in options if f"{option} " not in known] == []
    number = container["args"][container["args"].index("--machines") + 1]
    assert {int(number)} == {job["completions"], job["parallelism"]}
    assert kinds["Service"]["metadata"]["name"] == job["template"]["spec"]["subdomain"]
