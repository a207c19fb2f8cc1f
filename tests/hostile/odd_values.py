"""Odd values for the keys of a config, in its file and by `--set`: extremes, other types, texts that are no text.

Most draws are only parsed, in this process: each is a config or one line. Some that parse are planned, in this process
too, and the first one is tried as a user would, by `pool check` or by a run of a few steps.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from loader.files.identity import identify
from loader.section import union_types
from loader.stream.mixture_files import apply_entry_settings, find_entry_files
from pool.config.key_path import format_key, is_untyped, walk_fields
from pool.config.load import load_config
from pool.config.tree import Config, config_class
from pool.errors import ConfigError
from pool.planner import planner
from pool.process.plan_result import Accepted
from pool.process.start import PlannerStart, decode_start
from pool.protocol.identity import PLANNER, Peer
from tests.hostile.attack import assert_said_well
from tests.support.paths import ROOT
from tests.support.run_plans import run_plan
from tests.support.runs import TOY, Ended, command, elsewhere, toml, toml_value

PARSED = 150  # draws of an attack that are only parsed
PLANNED = 8  # of them that are planned
SECONDS = 100  # that a command may take on a busy machine

NNUE: dict[str, Any] = {
    "task": "stockfish",
    "data.train": [str(ROOT / "configs/sample/validation.binpack")],
    "data.batch_size": 64,
    "model.l1": 16,
    "pool.devices": ["fake:0"],
}
BASES: tuple[dict[str, Any], ...] = ({**TOY, "train.steps": 2}, {**NNUE, "train.steps": 2})
LONG = ("train.steps", "train.validation_batches", "data.batch_size")  # large values of these are right, and take long

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63) - 1),
    *(0.0, -0.0, 1.0, 0.5, 1e6, 1e-308, 5e-324, 1e308, -1e308, 1e30, math.inf, -math.inf, math.nan),
)
TEXTS = (
    *(
        "",
        " ",
        "x",
        "a\0b",
        "\n",
        "a\nb\n",
        "\x1b[31m",
        "\u2028",
        "\U0001f600",
        "é" * 300,
        "a" * 5000,
        "~",
        "~nosuchuser/x",
    ),
    *(
        "..",
        "/",
        "/dev/null",
        "/dev/full/x",
        "/proc/self/mem",
        "%s%n",
        "{0}",
        "auto",
        "cpu",
        "fake:0",
        "1e-3x",
        "nan",
        "'",
        '"',
    ),
    *(
        "os.path",
        "sys.exit",
        "Adam",
        "torch.optim.Adam",
        "pool.optim.Adam",
        "torch.optim",
        "tests",
    ),
)
OUTSIDE = ("/", "..", "~")  # where a run would leave what nobody removes
WHEN = (date(2026, 1, 1), time(1, 2), datetime(2026, 1, 1, 1, 2))
DEVICES = (
    *("compute_ms=nan", "compute_ms=-5", "compute_ms=1", "compute_ms=1e400", "compute_ms=", "slow=1:nan", "slow=0:1"),
    *(
        "slow=-1:1",
        "nan=1",
        "nan=99999999999999999999",
        "crash=1:bucket",
        "crash=nan",
        "oom=1:forward",
        "&",
        "=",
        "a\0b=1",
    ),
)
ARGUMENTS = ("lr", "betas", "eps", "weight_decay", "foreach", "step_size", "gamma", "a b", "", "self", "params")


def odd(rng: random.Random, depth: int = 0) -> Any:
    """A value of any type of TOML."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice((True, False))
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice(TEXTS)
    if kind == 4:
        return rng.choice((*WHEN, rng.randrange(1 << 80), rng.uniform(-2, 2)))
    if kind < 7:
        return [odd(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice((*ARGUMENTS, *TEXTS)): odd(rng, depth + 1) for _ in range(rng.randrange(4))}


def fitting(rng: random.Random, annotation: Any) -> Any:
    """An extreme value of a key's own type."""
    kind = rng.choice(union_types(annotation))
    if get_origin(kind) is Literal:
        return rng.choice(get_args(kind))
    if kind is bool:
        return rng.choice((True, False))
    if kind in (int, float):
        return rng.choice(NUMBERS)
    if get_origin(kind) is tuple:
        return [rng.choice(TEXTS) for _ in range(rng.randrange(3))]
    if get_origin(kind) is dict:
        return {rng.choice(ARGUMENTS): odd(rng, 1) for _ in range(rng.randrange(3))}
    return rng.choice(TEXTS)


DEADLY = ("testing.", "model.deadly_batch")  # kill processes, as they are told to


def drawn(rng: random.Random, task: str, source: str) -> dict[str, Any]:
    """One to three keys with odd values; most of them of the right type, or little would come further."""
    keys = [(key, field) for key, field in walk_fields(config_class(task, source)) if not key.startswith(DEADLY)]
    values: dict[str, Any] = {}
    for key, field in rng.sample(keys, rng.randrange(1, 4)):
        name = f"{key}.{rng.choice(ARGUMENTS[:7])}" if is_untyped(field) and rng.random() < 0.5 else key
        values[name] = fitting(rng, field.annotation) if rng.random() < 0.7 and name == key else odd(rng)
    if values.get("run.dir") in OUTSIDE:
        values["run.dir"] = "inside"
    return values


def parsed(file: Path, overrides: list[str]) -> Config | None:
    """The config; None if there is one line instead. Nothing else may happen."""
    try:
        return load_config(file, overrides)
    except ConfigError as error:
        said = str(error)
    assert said
    assert len(said.splitlines()) == 1, said
    return None


def takes_long(values: Mapping[str, Any], config: Config) -> bool:
    """A run of it would be right, and not end in time."""
    huge = any(isinstance(values.get(key), int | float) and values[key] > 4096 for key in LONG)
    return huge or config.train.batches_per_step > 8 or config.pool.stop_timeout > SECONDS


def planned(config: Config, folder: Path) -> None:
    """By the planner: a plan, or one line."""
    try:
        train, validation = (
            apply_entry_settings(identify(paths), components, key)
            for key, entries in (("data.train", config.data.train), ("data.validation", config.data.validation))
            for paths, components in (find_entry_files(entries, key),)
        )
    except ValueError:
        return
    run = run_plan(folder, config=config, train_files=train, validation_files=validation)
    start = decode_start(run.planner_start(Peer(PLANNER)).to_json(), folder)
    assert isinstance(start, PlannerStart)
    assert repr(start.config) == repr(config)
    with contextlib.redirect_stdout(io.StringIO()):  # a module that is imported by name may greet
        answer = planner.run(start)
    assert isinstance(answer, Accepted) or len(answer.error.splitlines()) == 1, answer


def carried_out(folder: Path, settings: Mapping[str, Any], overrides: list[str], *, check: bool) -> None:
    """As a user would, in `folder`: success, or one line."""
    if "run.dir" in settings:
        overrides = [*overrides, f"run.dir={toml_value(settings['run.dir'])}"]
    sets = (word for text in overrides for word in ("--set", text))
    words = command(folder / "run", settings, *sets, name="check" if check else "train")
    done = subprocess.run(
        words,
        cwd=folder,
        env=elsewhere(),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    ended = Ended(folder, done.returncode, done.stdout, done.stderr)
    if check and ended.code == 71:  # the page is told, too
        ended = replace(ended, err=ended.err.splitlines()[-1])
    assert_said_well(ended)


def file_with(folder: Path, settings: Mapping[str, Any]) -> Path:
    file = folder / "drawn.toml"
    file.write_text(toml(settings), encoding="utf-8")
    return file


def values_in_the_file(rng: random.Random, folder: Path) -> None:
    """Keys of the file have odd values."""
    good: list[Callable[[], None]] = []
    for _ in range(PARSED):
        base = rng.choice(BASES)
        values = drawn(rng, base["task"], base.get("data.source", "chess"))
        settings = {key: value for key, value in {**base, **values}.items() if not _inside(key, values)}
        settings = {_quoted(key): value for key, value in settings.items()}
        config = parsed(file_with(folder, settings), [])
        if config is not None and len(good) < PLANNED:
            planned(config, folder)
            check = takes_long(values, config) or rng.random() < 0.3
            good.append(partial(carried_out, folder, settings, [], check=check))
    if good:
        rng.choice(good)()


def values_by_set(rng: random.Random, folder: Path) -> None:
    """The same by `--set`, some of them as bare text."""
    good: list[Callable[[], None]] = []
    for _ in range(PARSED):
        base = rng.choice(BASES)
        values = drawn(rng, base["task"], base.get("data.source", "chess"))
        overrides = []
        for key, value in values.items():
            text = value if isinstance(value, str) and rng.random() < 0.7 else toml_value(value)
            broken = rng.choice((key, f"={text}", f"{key}.x={text}", text))
            overrides.append(f"{key}={text}" if rng.random() < 0.9 else broken)
        config = parsed(file_with(folder, base), overrides)
        passes = not any("\0" in text for text in overrides)  # the kernel takes no others
        if config is not None and passes and len(good) < PLANNED:
            planned(config, folder)
            check = takes_long(values, config) or rng.random() < 0.3
            good.append(partial(carried_out, folder, base, overrides, check=check))
    if good:
        rng.choice(good)()


def device_options(rng: random.Random, folder: Path) -> None:
    """Options of fake devices, as many devices as come, and texts that are no devices."""
    devices = []
    for _ in range(rng.choice((1, 2, 3, 120))):
        options = "&".join(rng.sample(DEVICES, rng.randrange(3)))
        devices.append(f"fake:{rng.randrange(3)}" + (f"?{options}" if options else ""))
    devices += rng.sample(TEXTS, rng.randrange(2))
    settings = {**BASES[0], "train.on_bad_batch": "skip", "pool.devices": devices}
    carried_out(folder, settings, [], check=rng.random() < 0.2)


def bytes_of_an_argument(rng: random.Random, folder: Path) -> None:
    """`--set` with bytes that are no text."""
    odd_bytes = os.fsdecode(bytes(rng.randrange(1, 256) for _ in range(rng.randrange(1, 20))))
    key = rng.choice(("run.trace", "data.train", "optimizer.args.x", "task", "schedule.name", odd_bytes))
    override = f"{key}={odd_bytes}"
    parsed(file_with(folder, BASES[0]), [override])
    carried_out(folder, BASES[0], [override], check=rng.random() < 0.5)


def _inside(key: str, values: Mapping[str, Any]) -> bool:
    """A key of the base whose table is drawn as a whole."""
    return any(key.startswith(f"{table}.") or table.startswith(f"{key}.") for table in values)


def _quoted(key: str) -> str:
    section, args, name = key.partition(".args.")
    return f"{section}.args.{format_key([name])}" if args else key


ATTACKS = (values_in_the_file, values_by_set, device_options, bytes_of_an_argument)
