"""Tasks whose code raises, gives nonsense, kills or changes its process: at a random batch, once or always.

What happened once leaves the bits as they are. What happens always is one line with type, text and place, or the batch
is left out where the config says so.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.hostile.attack import Attack, assert_said_well
from tests.support.runs import TOY, Ended, run, run_well
from tests.support.tasks import hostile_task

SETTINGS = {**TOY, "train.steps": 6}  # 12 batches
RAISES = {  # code -> what is said of it
    'raise ValueError("bad value")': "ValueError: bad value",
    'raise ValueError("x" * 1_000_000)': "ValueError: xxx",
    r'raise ValueError("a\nb \x1b[31m\udc80")': r"ValueError: a b \x1b[31m\udc80",
    'raise RuntimeError("")': "RuntimeError (",
    "raise KeyboardInterrupt": "KeyboardInterrupt (",
    "raise Mute": "Mute: its text can't be had: OSError",
    'raise ExceptionGroup("several", [ValueError("one"), Mute()])': "ExceptionGroup: several (2 sub-exceptions)",
    'try:\n    {}["x"]\nexcept KeyError as error:\n    raise TypeError("second") from error': "TypeError: second",
    "next(iter(()))": "StopIteration (",
    "sys.exit(3)": "SystemExit: 3",
    "mischief(model, batch, usual)": "RecursionError: maximum recursion depth exceeded",
    '{}["x"]': "KeyError: 'x'",
    'open("/nowhere/at/all")': "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/at/all'",
    "import nosuchmodule": "ModuleNotFoundError: No module named 'nosuchmodule'",
    r'b"\xff".decode()': "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
    "torch.zeros(2) @ torch.zeros(3)": "RuntimeError: inconsistent tensor size",
    'warnings.simplefilter("error")\nwarnings.warn("old")': "UserWarning: old",
}
RAISES_IN_BACKWARD = {
    "return Boom.apply(usual())": "ValueError: bad value",
    "loss = usual()\nloss.register_hook(boom)\nreturn loss": "ValueError: bad value",
    "return usual() + model.table.weight.square().sum()": "table.weight gets a gradient from elsewhere",
}
NONSENSE = {
    "return None": "loss gave NoneType, which is no tensor",
    "return 3": "loss gave int, which is no tensor",
    "return usual().item()": "loss gave float, which is no tensor",
    "return usual().expand(64)": "loss gave a tensor of shape (64,)",
    "return usual().detach()": "loss gave a number without gradient",
    "return usual() * 1j": "loss gave a number that is complex",
    'return usual().to("meta")': "loss gave a number that is on the device meta",
    "torch.set_grad_enabled(False)\nreturn usual()": "loss gave a number without gradient",
    "torch.set_default_dtype(torch.float64)\nreturn usual()": "loss changes torch's default dtype",
    "torch.set_num_threads(3)\nreturn usual()": "loss changes torch's number of threads",
    "torch.set_float32_matmul_precision('medium')\nreturn usual()": "loss changes torch's backends.mkldnn.matmul",
    "torch.set_flush_denormal(True)\nreturn usual()": "loss changes torch's flush denormal",
    "model.output.weight.data = torch.zeros(1, 16)\nreturn usual()": "loss changes output.weight",
}
DEADLY = (
    "os._exit(0)",
    "os._exit(1)",
    "os.kill(os.getpid(), signal.SIGKILL)",
    "os.kill(os.getpid(), signal.SIGSEGV)",
    "os.abort()",
    "with torch.no_grad():\n    model.output.weight.zero_()",  # its memory can't be written
    "time.sleep(1e9)",
    "while True:\n    pass",
)
HARMLESS = (
    'for _ in range(4):\n    print("x" * (1 << 20))\nreturn usual()',
    'print("x" * (1 << 20), file=sys.stderr)\nreturn usual()',
    'os.chdir("/")\nreturn usual()',
    "for number in (signal.SIGTERM, signal.SIGINT):\n    signal.signal(number, signal.SIG_IGN)\nreturn usual()",
    "threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()\nreturn usual()",
    "os.waitpid(os.fork() or os._exit(0), 0)\nreturn usual()",
    "os.fork()\nreturn usual()",  # and the new process goes on as if it were the worker
    "if os.fork() == 0:\n    boom()\nreturn usual()",
    "torch.manual_seed(7)\nreturn usual()",
    'warnings.warn("old")\nreturn usual()',
    "sys.stdout = sys.stderr = None\nreturn usual()",
)


@cache
def undisturbed() -> str:
    with TemporaryDirectory() as folder:
        return run_well(Path(folder) / "run", SETTINGS).digest()


def hostile(rng: random.Random, folder: Path, code: str, *, skip: bool = False, **where: Any) -> Ended:
    """A run with such a task, on one worker or two."""
    settings = {
        **SETTINGS,
        **hostile_task.write(folder, code, **where),
        "pool.devices": [f"fake:{i}" for i in range(rng.randint(1, 2))],
        "pool.hang_timeout": 2.0,
        "train.on_bad_batch": "skip" if skip else "stop",
    }
    return run(folder / "run", settings, cwd=folder)


def drawn(rng: random.Random, folder: Path, code: str, told: str) -> None:
    """One that happens in `loss`: once, in one batch, or in all of them."""
    at = rng.choice((-1, rng.randrange(12)))
    once, skip = rng.random() < 0.3, rng.random() < 0.5
    ended = hostile(rng, folder, code, at=at, once=once, skip=skip)
    assert_said_well(ended)
    what = f"{code!r} at {at}, once: {once}, skip: {skip}: exit code {ended.code}\n{ended.out}\n{ended.err}"
    assert told in ended.out + ended.err, what
    if once:
        assert (ended.code, ended.digest()) == (0, undisturbed()), what
    elif skip and at >= 0:
        assert ended.code == 0, what
        assert f"batch {at} of step {at // 2}: " in ended.out, what
        assert ended.metrics()[-1]["step"] == SETTINGS["train.steps"], what
    else:
        assert ended.code == 1, what
        assert told in ended.err, what
        assert ("no batch of the last steps could be used" in ended.err) == skip, what


def a_loss_that_raises(rng: random.Random, folder: Path) -> None:
    code, told = rng.choice([*RAISES.items(), *RAISES_IN_BACKWARD.items()])
    drawn(rng, folder, code, told)


def a_loss_that_gives_nonsense(rng: random.Random, folder: Path) -> None:
    code, told = rng.choice([*NONSENSE.items()])
    drawn(rng, folder, code, told)


def a_task_that_raises_elsewhere(rng: random.Random, folder: Path) -> None:
    """In another method than `loss`: before the run (2), or in the coordinator, or while validating."""
    code, told = rng.choice([*RAISES.items()])
    method = rng.choice(("create_task", "check", "build_model", "initialize", "after_step"))
    ended = hostile(rng, folder, code, method=method)
    assert_said_well(ended)
    planned = method in ("create_task", "check", "build_model")
    assert ended.code == (2 if planned else 1), f"{method}: {code}: {ended.code} {ended.err}"
    assert told in ended.err or planned, f"{method}: {code}: {ended.err}"
    assert str(folder) in ended.err or planned, f"{method}: {code}: {ended.err}"


def a_task_that_kills_its_process(rng: random.Random, folder: Path) -> None:
    """Three workers die, and the batch is bad; a death that does not come again changes nothing."""
    code, at = rng.choice(DEADLY), rng.randrange(12)
    once, skip = rng.random() < 0.5, rng.random() < 0.5
    ended = hostile(rng, folder, code, at=at, once=once, skip=skip)
    assert_said_well(ended, lines=20)  # how the last one died, and the end of its log
    assert ended.code == (0 if once or skip else 1), f"{code}: {ended.code} {ended.err}"
    if once:
        assert ended.digest() == undisturbed(), code
    elif not skip:
        assert f"batch {at} of step {at // 2}: 3 workers died while they held it" in ended.err


def a_task_that_changes_its_process(rng: random.Random, folder: Path) -> None:
    """What it prints, where it is, what it does with signals and threads is no harm to the run."""
    code = rng.choice(HARMLESS)
    ended = hostile(rng, folder, code, at=rng.choice((-1, rng.randrange(12))))
    assert_said_well(ended)
    assert (ended.code, ended.digest()) == (0, undisturbed()), f"{code}: {ended.err}"


def a_task_that_closes_what_is_not_its_own(rng: random.Random, folder: Path) -> None:
    """Sockets, bells, logs, lifeline: the worker dies of it somewhere; nothing else is harmed."""
    first, at = rng.randrange(12), rng.randrange(12)
    code = f"os.closerange({first}, {first + rng.randint(1, 20)})\nreturn usual()"
    once = rng.random() < 0.7
    ended = hostile(rng, folder, code, at=at, once=once)
    assert_said_well(ended, lines=20)
    if ended.code == 0:
        assert ended.digest() == undisturbed(), code
    assert ended.code == 0 or not once, f"{code}: {ended.code} {ended.err}"


ATTACKS: tuple[Attack, ...] = (
    a_loss_that_raises,
    a_loss_that_gives_nonsense,
    a_task_that_raises_elsewhere,
    a_task_that_kills_its_process,
    a_task_that_changes_its_process,
    a_task_that_closes_what_is_not_its_own,
)
