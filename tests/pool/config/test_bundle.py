"""`pool configs`: what comes with the package is listed, copied, and never copied over a file that is there."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from pool.commands.main import main
from pool.config import bundle
from pool.errors import ConfigError, RunError
from tests.support.configs import configs_in
from tests.support.paths import ROOT

NAMES = [
    "clicks",
    "demo",
    "dual",
    "king-buckets",
    "multi-layer",
    "simple",
    "stages",
    "stockfish-15.1",
    "stockfish-19",
    "stockfish-2022",
    "stockfish-2026",
    "threats",
]
ONE = "stockfish-15.1"


def test_the_command_lists_prints_and_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / f"configs/{ONE}.toml").read_text()
    assert main(["configs"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[: len(NAMES)]] == NAMES
    assert main(["configs", ONE]) == 0
    assert capsys.readouterr().out == text
    assert main(["configs", ONE, "-o", "my own.toml"]) == 0
    assert capsys.readouterr().out == "my own.toml: edit it, then pool train 'my own.toml'\n"
    assert Path("my own.toml").read_text() == text
    assert main(["configs", "stages", "-o", "recipe.toml"]) == 0
    assert capsys.readouterr().out == "recipe.toml: edit it, then pool recipe recipe.toml\n"
    for wrong, complaint in (
        (
            [ONE, "-o", "my own.toml"],
            "my own.toml: is there already; give another name, or remove it first",
        ),
        ([ONE, "-o", "."], ".: is there already; give another name, or remove it first"),
        (["nuue"], f"configs: no config 'nuue'; there are {', '.join(NAMES)}"),
        (
            ["-o", "x.toml"],
            f"configs: which one is to be copied? There are {', '.join(NAMES)}",
        ),
    ):
        assert main(["configs", *wrong]) == 2
        assert capsys.readouterr() == ("", f"pool: {complaint}\n")
    assert Path("my own.toml").read_text() == text


@pytest.mark.parametrize("name", bundle.list_names())
def test_every_config_is_accepted_says_what_it_is_and_finds_the_sample(name: str) -> None:
    for settings in configs_in(bundle.read_text(name), name):
        for entry in (*settings.data.train, *settings.data.validation):
            for file in (entry,) if isinstance(entry, str) else entry.files:
                assert "*" in file or Path(file).is_file()
    assert bundle.read_summary(name).endswith(".")
    assert not re.search(r"`make |docs/|configs/[^s]", bundle.read_text(name)), "only a checkout has these"


def test_a_config_is_found_beside_an_installed_package_and_its_path_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / 'a "quoted" \\ folder' / "pool"
    shutil.copytree(ROOT / "configs", package / "configs")
    monkeypatch.setattr(bundle, "__file__", str(package / "config/bundle.py"))
    (file,) = tomllib.loads(bundle.read_text("demo"))["data"]["train"]
    assert Path(file) == package / "configs/sample/train.binpack"
    shutil.rmtree(package / "configs")
    with pytest.raises(RunError, match="install it again"):
        bundle.list_names()


def test_copying_never_replaces_a_file(tmp_path: Path) -> None:
    target = tmp_path / "x.toml"
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is there already"):
        bundle.copy_config("demo", target)
    assert not (tmp_path / "elsewhere").exists()


def test_a_wheel_is_made_of_three_typed_packages_and_the_configs() -> None:
    """What `make wheel-check` sees in a real one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["scikit-build"]["wheel"]["packages"]
    assert packages == {"loader": "loader", "pool": "pool", "sparsepool": "sparsepool", "pool/configs": "configs"}
    assert all((ROOT / package / "py.typed").is_file() for package in ("loader", "pool", "sparsepool"))
