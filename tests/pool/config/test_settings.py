"""What is said of settings is what the config's classes say. (The page made of it: tests/project/test_docs.py.)"""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
from rich.console import Console

from pool.config.load import parse_config
from pool.config.reference import format_text, list_sections, print_settings
from pool.config.stages import EndConfig, StageConfig
from pool.config.tree import config_class
from pool.errors import ConfigError
from tests.support.paths import ROOT


def test_every_key_has_a_meaning_and_allowed_values() -> None:
    for group in list_sections("stockfish"):
        for setting in group.settings:
            assert setting.meaning, setting.key
            assert setting.allowed, setting.key


def test_every_key_of_the_tree_is_listed_once() -> None:
    def keys(tree: dict[str, object], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for name, value in tree.items():
            inner = isinstance(value, dict) and name != "args"
            found |= keys(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}"}  # type: ignore[arg-type]
        return found

    sources = ("chess", "synthetic")
    listed = [setting.key for group in list_sections("stockfish", sources) for setting in group.settings]
    assert len(listed) == len(set(listed))
    of_runs = set().union(*(keys(config_class("stockfish", source)().model_dump()) for source in sources))
    of_recipes = {f"stages.{key}" for key in EndConfig.model_fields} | {
        f"stage.{key}" for key in StageConfig.model_fields
    }
    assert set(listed) == of_runs | of_recipes


@pytest.mark.parametrize(("source", "other"), [("synthetic", "chess"), ("chess", "synthetic")])
def test_the_section_of_another_source_is_unknown_and_the_source_is_named(source: str, other: str) -> None:
    said = rf'data\.{other}: unknown key; allowed here: .*, {source}; it needs data\.source = "{other}"$'
    with pytest.raises(ConfigError, match=said):
        parse_config({"data": {"source": source, other: {}}}, "test")


@pytest.mark.parametrize("name", ["str", "none", "list[x]", "function-before", ""])
def test_an_unknown_key_that_is_called_like_a_type_is_named(name: str) -> None:
    quoted = name if name.isidentifier() or "-" in name else f'"{name}"'
    for tree, key in (({name: 1}, quoted), ({"train": {name: 1}}, f"train.{quoted}")):
        with pytest.raises(ConfigError, match=rf"^here: {re.escape(key)}: unknown key; allowed here: "):
            parse_config(tree, "here")


def test_limits_and_defaults_are_those_of_the_classes() -> None:
    by_key = {setting.key: setting for group in list_sections("stockfish") for setting in group.settings}
    assert by_key["model.l1"].default == "1024"
    assert by_key["model.l1"].allowed == "integer, above 0, at most 16,384, a multiple of 8"
    assert by_key["train.reduction"].allowed == '"mean" or "sum"'
    assert by_key["train.clip_norm"].default == ""
    assert by_key["pool.devices"].default == '["auto"]'


def test_a_task_of_ones_own_is_shown_with_its_own_sections() -> None:
    assert "model.hidden = 16" in format_text("tests.support.toy")
    with pytest.raises(ConfigError, match="no task 'nonsense'"):
        list_sections("nonsense")


def test_on_a_terminal_there_are_tables_with_the_names_of_the_sections() -> None:
    out = io.StringIO()
    print_settings(Console(file=out, force_terminal=True, width=120), "stockfish")
    assert "[data.chess.filters]" in out.getvalue()
    assert "skip_in_check" in out.getvalue()


def test_the_command_is_plain_where_nobody_looks_and_does_not_import_torch() -> None:
    code = "import sys; from pool.commands.main import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code, "settings"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == format_text("stockfish")
