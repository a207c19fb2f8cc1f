"""Any tree and any override: a config, or a ConfigError, and never another exception (I8)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pool.config.load import load_config, parse_config
from pool.config.tree import Config
from pool.errors import ConfigError

SECTIONS = ("run", "data", "optimizer", "schedule", "train", "pool", "model", "loss", "task")
KEYS = sorted({key for name in SECTIONS for key in getattr(Config.model_fields[name].annotation, "model_fields", ())})

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(KEYS) | st.text(max_size=6)
TREES = st.dictionaries(
    st.sampled_from(SECTIONS[:-1]) | st.text(max_size=6), st.dictionaries(NAMES, PLAIN, max_size=4) | PLAIN, max_size=4
)
VALUES = (
    st.text(max_size=12) | PLAIN.map(repr) | st.sampled_from(["[1, 2]", "nan", "-inf", "1e999", '"', "[[", "{", ""])
)


def config_or_answer(call: Callable[[], Config]) -> Config | None:
    """What `call` gives, or None if it gives an answer instead."""
    answer: ConfigError | None = None
    try:
        config = call()
    except ConfigError as error:
        answer = error
    if answer is not None:
        assert str(answer)
        return None
    assert isinstance(config, Config)
    return config


def answer(tree: Any) -> Config | None:
    return config_or_answer(lambda: parse_config(tree, "here.toml"))


@given(TREES)
@example({"run": {"seed": 10**5000}})
@example({"optimizer": {"args": {"lr": float("nan")}}})
@example({"data": {"train": ["\ud800"]}})
@example({"run": {"dir": "\ud800"}})
@example({"none": {}})
def test_any_tree_gives_a_config_or_an_answer(tree: dict[str, Any]) -> None:
    answer(tree)


@given(st.dictionaries(st.sampled_from(KEYS), PLAIN, max_size=3), st.sampled_from(SECTIONS[:-1]))
def test_any_value_of_a_known_key_gives_a_config_or_an_answer(section: dict[str, Any], name: str) -> None:
    config = answer({name: section})
    if config is not None:  # what was accepted is accepted again
        again = parse_config(config.model_dump(mode="json"), "again")
        assert again.model_dump() == config.model_dump()


@given(PLAIN)
@example("")
@example(".")
@example("..x")
@example("os")
@example("a\0b")
@example("\ud800")
def test_any_task_gives_a_config_or_an_answer(task: Any) -> None:
    answer({"task": task})


@given(st.lists(st.tuples(st.lists(NAMES | st.sampled_from(SECTIONS), max_size=4), VALUES), max_size=3), st.booleans())
@example([(["optimizer", "args", "lr"], "[" * 5000)], True)
@example([(["optimizer", "args", "a"] + ["b"] * 5000, "1")], True)
def test_any_override_gives_a_config_or_an_answer(overrides: list[tuple[list[str], str]], equals: bool) -> None:
    texts = [".".join(parts) + ("=" if equals else "") + value for parts, value in overrides]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_text("[data]\nbatch_size = 64\n")
        config_or_answer(lambda: load_config(path, texts))


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"a = " + b"[" * 5000)
def test_any_file_gives_a_config_or_an_answer(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_bytes(data)
        config_or_answer(lambda: load_config(path))


@pytest.mark.parametrize(
    "key",
    [
        "pool.bucket_mb",
        "pool.first_bucket_mb",
        "pool.start_timeout",
        "train.clip_norm",
        "data.chess.filters.random_skip",
    ],
)
@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_what_is_not_finite_is_refused(key: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    with pytest.raises(ConfigError, match=key):
        load_config(tmp_path / "run.toml", [f"{key}={value}"])
