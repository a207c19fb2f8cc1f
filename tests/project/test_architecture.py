"""The directions in which the project's parts may know each other, read from their imports."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from loader.cli.families import families
from loader.formats.families import FAMILIES
from loader.formats.file_tools import Family, FileTools
from loader.plugins.interface import find_interface_problem
from pool.task.registry import TASKS
from tests import structure
from tests.support.paths import ROOT

ROLES = ("planner", "coordinator", "feeder", "worker", "supervisor")
TORCH_FREE = (
    "loader.cli.main",
    "loader.stream.sources",
    "loader.chess.source",
    "loader.formats.registry",
    "pool.commands.main",
    "pool.exchange.groups",
    "pool.exchange.layout",
    "pool.kernels.tree",
    "pool.feeder.feeder",
    "pool.process.start",
    "pool.protocol.channel",
    "pool.process.roles",
    "pool.shm.memory",
    "pool.checkpoint.folder",
    "pool.checkpoint.snapshot",
    "pool.checkpoint.state",
    "pool.supervisor.train",
    "pool.tasks.chess.perspective",
    "pool.tasks.chess.perspective.network",
    "pool.tasks.chess.stockfish",
    "pool.tasks.chess.networks.eval",
    "pool.tasks.chess.networks.inspect",
    "pool.tasks.chess.pair_order",
    "pool.tasks.chess.stockfish.network",
    "sparsepool.child",
    "sparsepool.result",
    "sparsepool.stream",
    "sparsepool.run",
)
TOP_LEVEL = {  # of pool/: what everybody uses; all else is a package
    "__init__",
    "__main__",
    "crash_points",
    "errors",
    "numerics",
}
DECIDE = (  # driven by events and the time that they are given
    "pool.feeder.feature_coverage",
    "pool.feeder.ring",
    "pool.protocol.admission",
    "pool.supervisor.summary",
    "pool.supervisor.deaths",
    "pool.supervisor.process_state",
    "pool.supervisor.process_table",
    "pool.supervisor.policy",
    "pool.supervisor.stop_plan",
    "pool.worker.job_queue",
    "pool.worker.job",
)
EFFECTS = {"mmap", "os", "select", "signal", "socket", "subprocess", "threading", "time", "torch", "zmq"}


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


@functools.cache  # most tests ask for the imports of most files
def imports(path: Path) -> Sequence[str]:
    """Returns every module named in an import of a file, also inside functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module)
    return names


def root(module: str) -> str:
    return module.partition(".")[0]


def test_the_loader_never_imports_the_pool() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("loader")
        for imported in imports(path)
        if imported.startswith("pool")
    ]
    assert not wrong


def test_nothing_knows_the_front() -> None:
    """`sparsepool` is for code from outside; it uses the other two."""
    wrong = [
        (name, imported)
        for package in ("loader", "pool")
        for name, path in modules(package)
        for imported in imports(path)
        if root(imported) == "sparsepool"
    ]
    assert not wrong


def test_the_front_uses_no_process_but_the_supervisor() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("sparsepool")
        for imported in imports(path)
        if imported.startswith(tuple(f"pool.{role}" for role in ROLES if role != "supervisor"))
    ]
    assert not wrong


def test_no_role_imports_another() -> None:
    wrong = []
    for role in ROLES:
        others = tuple(f"pool.{other}" for other in ROLES if other != role)
        wrong += [
            (name, imported)
            for name, path in modules(f"pool/{role}")
            for imported in imports(path)
            if imported.startswith(others)
        ]
    assert not wrong


def test_the_scheduler_is_pure() -> None:
    """They decide from events alone; what the simulation drives is what runs."""
    acting = ("torch", "zmq", "time", "os", "threading", "socket", "pool.protocol.channel", "pool.shm.memory")
    wrong = [
        (name, imported)
        for name, path in modules("pool/coordinator/scheduler")
        for imported in imports(path)
        if imported in acting or (imported.startswith("pool.coordinator.") and ".scheduler." not in imported)
    ]
    assert not wrong


def test_an_exchange_knows_no_role() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("pool/exchange")
        for imported in imports(path)
        if imported.startswith(tuple(f"pool.{role}" for role in ROLES))
    ]
    assert not wrong


def test_the_top_level_of_the_pool_holds_packages_and_what_everybody_uses() -> None:
    assert {path.stem for path in (ROOT / "pool").glob("*.py")} == TOP_LEVEL


def test_a_process_comes_to_be_without_knowing_roles() -> None:
    """The fork server and `roles` name theirs as text, and import them late."""
    wrong = [
        (name, imported)
        for name, path in modules("pool/process")
        for imported in imports(path)
        if imported.startswith(tuple(f"pool.{role}" for role in ROLES))
    ]
    assert not wrong


def test_what_happens_before_a_run_knows_nothing_of_watching_it() -> None:
    lower = ("pool.supervisor.prepare", "pool.supervisor.processes", "pool.supervisor.resources")
    wrong = [
        (name, imported)
        for name, path in modules("pool/supervisor/prepare")
        for imported in imports(path)
        if imported.startswith("pool.supervisor.") and not imported.startswith(lower)
    ]
    assert not wrong


def test_decisions_are_made_without_sockets_clocks_threads_or_torch() -> None:
    decide = [(name, path) for name, path in modules("pool") if name in DECIDE]
    assert len(decide) == len(DECIDE)
    wrong = [(name, imported) for name, path in decide for imported in imports(path) if root(imported) in EFFECTS]
    assert not wrong


@pytest.mark.parametrize("package", structure.PACKAGES)
def test_files_and_folders_know_one_another_without_circles(package: str) -> None:
    """Late imports count: a circle that one of them hides is a circle."""
    found = structure.modules(ROOT, package)
    assert structure.circles(structure.file_arrows(found)) == []
    assert structure.circles(structure.folder_arrows(found)) == []
    assert structure.two_way(structure.folder_arrows(found)) == []


@pytest.mark.parametrize("package", structure.PACKAGES)
def test_a_late_import_says_its_reason(package: str) -> None:
    """`# late: REASON` on its line or above its block; `# late imports: REASON` in a module that has one for all."""
    late = structure.late_imports(structure.modules(ROOT, package))
    assert [f"{name}:{each.line}: {each.module}" for name, each in late if not each.has_reason] == []


def test_the_runtime_knows_no_chess() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("pool")
        if not name.startswith("pool.tasks.chess")
        for imported in imports(path)
        if imported.startswith(("pool.tasks.chess", "chess", "loader.chess", "loader.formats"))
    ]
    assert not wrong


def test_who_trains_is_named_by_the_registry_alone() -> None:
    """A task is found by its name, and so are its commands."""
    tasks = list(TASKS.bundled)
    assert tasks
    for task in tasks:
        home = TASKS.bundled[task]
        wrong = [
            (name, imported)
            for name, path in modules("pool")
            if not name.startswith(f"{home}.")
            for imported in imports(path)
            if imported == home or imported.startswith(f"{home}.")
        ]
        assert not wrong


def test_settings_know_no_role_and_nothing_that_runs() -> None:
    rooms = (*ROLES, "protocol", "shm", "buckets", "nn", "optim", "telemetry", "commands")
    wrong = [
        (name, imported)
        for name, path in modules("pool/config")
        for imported in imports(path)
        if imported.startswith(("torch", *(f"pool.{room}" for room in rooms)))
    ]
    assert not wrong


def test_what_both_programs_share_knows_neither() -> None:
    for room, allowed in (
        ("loader/command_line", ("loader.command_line", "loader.errors", "loader.exit_codes")),
        ("loader/plugins", ("loader.plugins", "loader.errors")),
    ):
        wrong = [
            (name, imported)
            for name, path in modules(room)
            for imported in imports(path)
            if imported.startswith(("loader", "pool")) and not imported.startswith(allowed)
        ]
        assert not wrong


def places(words: str) -> set[str]:
    """Modules whose text has them."""
    found = (pair for package in ("loader", "pool") for pair in modules(package))
    return {name for name, path in found if words in path.read_text(encoding="utf-8")}


def test_there_is_one_command_line_and_one_way_to_find_code_of_the_users() -> None:
    assert places("typer.Typer(") == {"loader.command_line.program"}
    assert places("\nEXIT_") == {"loader.exit_codes"}
    assert places("allow_import_from_current_folder(") == {"loader.plugins.modules", "loader.plugins.registry"}


def test_commands_print_json_in_one_way() -> None:
    """It writes what a strict reader takes: null for a number that is not finite."""
    commands = ("loader.cli.", "loader.chess.cli.", "pool.commands.", "pool.tasks.chess.networks.")
    assert not [name for name in places("json.dumps(") if name.startswith(commands)]


def test_our_own_code_imports_names_from_where_they_lie() -> None:
    """The names that packages declare are for code from outside: through them there would be circles."""
    wrong = []
    for package in ("loader", "pool", "sparsepool"):
        for name, path in modules(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module in ("loader", "pool", "sparsepool"):
                    wrong += [(name, alias.name) for alias in node.names if alias.name[0].isupper()]
    assert not wrong


def test_python_chess_is_needed_for_self_play_alone() -> None:
    """It is an extra, `sparsepool[generate]`."""
    users = {
        name
        for package in ("loader", "pool")
        for name, path in modules(package)
        for imported in imports(path)
        if imported.split(".")[0] == "chess"
    }
    assert users
    assert {name for name in users if not name.startswith("loader.chess.engines.")} == set()


# Folders of C++ and what each may include, its own files apart; the order is from the bottom up. `bind` folders and
# files are the only ones that see Python, and nothing includes them but one another.
NATIVE = {
    "loader/native/common": set(),
    "loader/native/random": {"loader/native/common"},
    "loader/native/batch": {"loader/native/common"},
    "loader/native/stream": {"loader/native/common", "loader/native/random"},
    "loader/native/compression": {"loader/native/common", "loader/native/stream"},
    "loader/native/lines": {"loader/native/common", "loader/native/stream", "loader/native/compression"},
    "loader/chess/native": {
        "loader/native/common",
        "loader/native/lines",
        "loader/native/random",
        "loader/native/batch",
        "loader/native/stream",
        "loader/native/compression",
    },
    "loader/rows/native": {
        "loader/native/common",
        "loader/native/lines",
        "loader/native/batch",
        "loader/native/stream",
        "loader/native/compression",
    },
    "loader/chess/formats": {
        "loader/native/common",
        "loader/native/stream",
        "loader/native/compression",
        "loader/native/lines",
        "loader/chess/native",
    },
    "loader/rows/formats": {
        "loader/native/common",
        "loader/native/lines",
        "loader/native/stream",
        "loader/native/compression",
        "loader/rows/native",
    },
    "pool/kernels": set(),  # rules.cuh, which the CUDA kernels include too
    "pool/kernels/cpu": {"loader/native/common", "pool/kernels"},
    "pool/tasks": {"loader/native/common", "pool/kernels/cpu"},
}
ROOTS = {"loader": ("loader/native", "loader"), "pool": ("pool/kernels/cpu", "pool", "loader/native")}  # of includes


def native_files() -> Iterator[Path]:
    for package in ("loader", "pool"):
        for suffix in ("*.h", "*.cpp"):
            yield from sorted((ROOT / package).rglob(suffix))


def native_folder(path: Path) -> str | None:
    """The folder of NATIVE that a file belongs to; none for those of the module itself (loader/native/bind)."""
    name = path.relative_to(ROOT).as_posix()
    if name.startswith("pool/kernels/cpu/bind/"):
        return None
    return max((folder for folder in NATIVE if name.startswith(f"{folder}/")), key=len, default=None)


def is_binding(path: Path) -> bool:
    return path.parent.name == "bind" or path.name == "bind.cpp"


def includes(path: Path) -> Iterator[Path]:
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
        if name.endswith(".inc"):  # written by CMake
            continue
        roots = ROOTS[path.relative_to(ROOT).parts[0]]
        yield next(ROOT / root / name for root in roots if (ROOT / root / name).exists())


def test_includes_point_down() -> None:
    wrong = []
    for path in native_files():
        own = native_folder(path)
        for included in includes(path):
            folder = native_folder(included)
            if is_binding(path) or own is None or folder == own:
                continue
            if folder not in NATIVE[own]:
                wrong.append((path, included))
    assert not wrong


def test_a_format_and_a_task_see_no_other() -> None:
    for parent in ("loader/chess/formats", "loader/rows/formats", "pool/tasks"):
        for path in native_files():
            if not path.is_relative_to(ROOT / parent):
                continue
            own = path.relative_to(ROOT / parent).parts[0]
            others = [file for file in includes(path) if file.is_relative_to(ROOT / parent / own) is False]
            assert not [file for file in others if file.is_relative_to(ROOT / parent)], path


def test_only_bindings_see_python() -> None:
    for path in native_files():
        if is_binding(path):
            continue
        text = path.read_text(encoding="utf-8")
        assert "nanobind" not in text.replace("(nanobind", ""), path
        assert not any(is_binding(included) for included in includes(path)), path


def test_a_header_of_bindings_brings_the_casters_of_what_it_names() -> None:
    """A file that includes it, and no caster itself, would raise std::bad_cast where the type goes to Python."""
    for path in native_files():
        text = path.read_text()
        if path.suffix != ".h" or not is_binding(path) or "nanobind" not in text:
            continue
        for name in ("string", "string_view", "optional", "vector", "pair", "tuple", "map", "shared_ptr", "array"):
            if re.search(rf"std::{name}\b", text):
                assert f"nanobind/stl/{name}.h" in text, f"{path.relative_to(ROOT)}: std::{name}"


def test_a_header_is_included_by_some_file() -> None:
    included = {file for path in native_files() for file in includes(path)}
    assert {path for path in native_files() if path.suffix == ".h"} - included == set()


def test_the_generic_loader_imports_no_family() -> None:
    """Commands, formats and streams find one by its name: what is of any data knows neither chess nor rows."""
    generic = ("cli", "command_line", "files", "formats", "plugins", "section", "stream")
    rooms = [(name, path) for name, path in modules("loader") if name.split(".")[1] in generic]
    assert {name.split(".")[1] for name, _ in rooms} == set(generic)
    families = tuple(FAMILIES.values())
    wrong = [
        (name, imported)
        for name, path in rooms
        for imported in imports(path)
        if imported == "chess" or imported.startswith(families)
    ]
    assert wrong == []
    named = {name for name, path in rooms if any(f'"{family}' in path.read_text("utf-8") for family in families)}
    assert named == {"loader.formats.families", "loader.stream.sources"}


def test_streams_and_files_know_no_format() -> None:
    generic = ("files", "plugins", "section", "stream")
    wrong = [
        (name, imported)
        for name, path in modules("loader")
        if name.split(".")[1] in generic
        for imported in imports(path)
        if imported.startswith("loader.formats")
    ]
    assert wrong == []


def test_every_family_has_what_the_program_asks_for() -> None:
    """They are found by their names, where a type checker does not look."""
    for name, family in families().items():
        assert [part for part in Family.__annotations__ if not hasattr(family, part)] == [], name
        assert find_interface_problem(family.make_tools(1), FileTools, "tools") == "", name
    assert sum(family.READS_PIPES for family in families().values()) == 1


NAMED = re.compile(r"(?<![\w/.-])((?:loader|pool|tests|docs|benchmarks)/[\w/-]+\.(?:py|h|cpp|md|toml))\b")


def test_files_that_comments_and_pages_name_exist() -> None:
    """`NAME` stands for any name."""
    texts = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *native_files()]
    texts += [path for package in ("loader", "pool", "benchmarks") for _, path in modules(package)]
    named = {(path.relative_to(ROOT), name) for path in texts for name in NAMED.findall(path.read_text("utf-8"))}
    assert len(named) > 100
    assert [(path, name) for path, name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def test_no_pickle_anywhere() -> None:
    """I7."""
    wrong = []
    for package in ("loader", "pool", "sparsepool"):
        for name, path in modules(package):
            wrong += [(name, imported) for imported in imports(path) if imported in ("pickle", "shelve", "dill")]
            text = path.read_text(encoding="utf-8")
            wrong += [(name, word) for word in ("torch.save", "allow_pickle=True") if word in text]
            if "torch.load(" in text:
                calls = [ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
                loads = [call for call in calls if call.startswith("torch.load(")]
                wrong += [(name, call) for call in loads if "weights_only=True" not in call]
    assert not wrong


def test_who_need_not_know_torch_does_not_import_it() -> None:
    """It costs a second at every start."""
    code = f"import importlib, sys\nfor module in {TORCH_FREE}:\n    importlib.import_module(module)\n"
    code += "    if 'torch' in sys.modules: sys.exit(module)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
