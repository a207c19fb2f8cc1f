"""Measures the structure of the house: its size, and what makes it hard to read. `make structure` prints it.

    python -m tests.structure [FOLDER]

FOLDER is a checkout, by default this one. tests/project/test_architecture.py uses the same functions.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("loader", "pool", "sparsepool")
NATIVE = (".cpp", ".h", ".cu", ".cuh")
MOST_ARGUMENTS = 8
REASON = re.compile(r"# late: \S")
MODULE_REASON = re.compile(r"^# late imports: \S", re.MULTILINE)
COMMAND = re.compile(r"^### (?:pool|loader) (\S+)", re.MULTILINE)
OPTION = re.compile(r"^\| `(--[a-z0-9-]+)", re.MULTILINE)

Arrows = Mapping[str, set[str]]


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    is_late: bool  # inside a function
    has_reason: bool


class Module:
    """One file of Python: its tree, imports and functions."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def imports(self) -> Sequence[Import]:
        """Every module that is imported; of `from a import b` also `a.b`, which may be a module."""
        return list(_imports(self.tree, self.text.splitlines(), bool(MODULE_REASON.search(self.text))))

    @cached_property
    def functions(self) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@cache
def modules(root: Path, package: str) -> Mapping[str, Module]:
    """Returns the package's modules by name; a package's own is `package.__init__`."""
    paths = sorted((root / package).rglob("*.py"))
    named = ((".".join(path.relative_to(root).with_suffix("").parts), path) for path in paths)
    return {name: Module(name, path) for name, path in named}


def _imports(tree: ast.Module, lines: Sequence[str], module_reason: bool) -> Iterator[Import]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {node for function in functions for node in ast.walk(function)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    end_of_last_reason = -1  # the line of an import whose reason also serves the import below it
    for node in sorted(nodes, key=lambda node: node.lineno):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        above = lines[first - 1].strip() if first else ""
        has_reason = module_reason or first - 1 == end_of_last_reason or above.startswith("# late: ")
        has_reason = has_reason or any(REASON.search(line) for line in lines[first : last + 1])
        if has_reason:
            end_of_last_reason = last
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
        for name in names:
            yield Import(name, node.lineno, node in late, has_reason)


def file_arrows(package: Mapping[str, Module]) -> Arrows:
    """Returns which modules each module imports, late ones too.

    The package's own `__init__` and `__main__` are left out: they are names for code from outside, and the command.
    """
    inner = {name: module for name, module in package.items() if name.count(".") > 1 or not name.endswith("__")}
    known = {name.removesuffix(".__init__"): name for name in inner}
    return {
        name: {known[each.module] for each in module.imports if each.module in known} - {name}
        for name, module in inner.items()
    }


def folder_arrows(package: Mapping[str, Module], depth: int = 0) -> Arrows:
    """Returns which folders each folder imports; `depth`: of folders below the package that count, 0 for all."""
    files = file_arrows(package)
    homes = {name: _folder(name, depth) for name in files}
    arrows: dict[str, set[str]] = {home: set() for home in homes.values()}
    for name, home in homes.items():
        arrows[home] |= {homes[other] for other in files[name]} - {home}
    return arrows


def _folder(module: str, depth: int) -> str:
    """A module beside the folders is a folder of its own."""
    parts = module.split(".")
    folder = parts[:-1] if len(parts) > 2 else parts
    return ".".join(folder[: depth + 1] if depth else folder)


def circles(arrows: Arrows) -> list[list[str]]:
    """Returns the sets of nodes that reach one another, each sorted (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            component = sorted(stack[place:])
            del stack[place:]
            if len(component) > 1:
                components.append(component)

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return components


def two_way(arrows: Arrows) -> list[tuple[str, str]]:
    """Returns the pairs that import each other."""
    return sorted((a, b) for a in arrows for b in arrows[a] if a < b and a in arrows.get(b, ()))


def upward(arrows: Arrows) -> list[tuple[str, str]]:
    """Returns arrows that point up when the nodes are put in an order from the bottom up: none without circles.

    The order is the greedy one of Eades, Lin and Smyth (1993): close to the fewest arrows that can point up.
    """
    bottom: list[str] = []
    top: list[str] = []
    left = {node: set(others) for node, others in arrows.items()}
    while left:
        inside = {node: others & left.keys() for node, others in left.items()}
        users = Counter(other for others in inside.values() for other in others)
        if lowest := sorted(node for node, others in inside.items() if not others):
            bottom.append(lowest[0])
            del left[lowest[0]]
        elif highest := sorted(node for node in left if not users[node]):
            top.insert(0, highest[0])
            del left[highest[0]]
        else:
            most_used = max(sorted(left), key=lambda node: users[node] - len(inside[node]))
            bottom.append(most_used)
            del left[most_used]
    floor = {node: number for number, node in enumerate([*bottom, *top])}
    return sorted((a, b) for a, others in arrows.items() for b in others if floor[b] > floor[a])


def late_imports(package: Mapping[str, Module]) -> list[tuple[str, Import]]:
    """Returns the imports inside functions with their modules' names, one import for each line."""
    return [
        (name, first)
        for name, module in package.items()
        for first in {each.line: each for each in reversed(module.imports) if each.is_late}.values()
    ]


def long_signatures(package: Mapping[str, Module]) -> list[str]:
    """Returns functions with more than MOST_ARGUMENTS arguments; commands apart, whose arguments are options."""
    return [
        f"{name}.{function.name}: {_arguments(function)}"
        for name, module in package.items()
        if ".cli." not in name and ".commands" not in name
        for function in module.functions
        if _arguments(function) > MOST_ARGUMENTS
    ]


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in every)


def code_files(root: Path, folder: str) -> list[Path]:
    """Returns the files of code that git knows in a folder."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=root, capture_output=True, text=True, check=True)
    paths = [root / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in (".py", ".pyi", *NATIVE) and path.is_file()]


def room_of(path: Path, root: Path) -> str:
    """Returns the first two folders of a file of a checkout, as `pool/worker`."""
    return "/".join(path.relative_to(root).parts[:-1][:2])


def shared_names(packages: Sequence[Mapping[str, Module]]) -> list[str]:
    """Returns the names of public classes and type aliases that stand for something in more than one module."""
    homes: Counter[str] = Counter()
    for module in (module for package in packages for module in package.values()):
        homes.update({name for node in module.tree.body if (name := _defined_type(node)) and not name.startswith("_")})
    return sorted(name for name, count in homes.items() if count > 1)


def _defined_type(node: ast.stmt) -> str | None:
    """Returns the name of the class or type alias (an assigned name in CamelCase) that a statement defines."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        return name if re.fullmatch(r"_?([A-Z][a-z0-9]+)+", name) else None
    return None


def report(root: Path) -> None:
    report_sizes(root)
    report_imports(root)
    report_front(root)


def report_sizes(root: Path) -> None:
    """Prints files, folders and lines: in all, and of each room of the product."""
    row = "{:12}{:>8}{:>9}{:>8}{:>16}".format
    print(row("", "files", "folders", "lines", "under 50 lines"))
    files = {folder: code_files(root, folder) for folder in (*PACKAGES, "tests", "benchmarks")}
    product = [path for package in PACKAGES for path in files[package]]
    for title, paths in [*files.items(), ("product", product)]:
        lines = [path.read_text(encoding="utf-8").count("\n") for path in paths]
        folders = len({path.parent for path in paths})
        print(row(title, len(paths), folders, sum(lines), sum(count < 50 for count in lines)))
    rooms: Counter[str] = Counter()
    for path in product:
        rooms[room_of(path, root)] += path.read_text(encoding="utf-8").count("\n")
    print("\nlines by room:", ", ".join(f"{room} {lines}" for room, lines in rooms.most_common()), end="\n\n")


def report_imports(root: Path) -> None:
    """Prints circles, rooms, arrows between them, late imports and long signatures of each package."""
    row = "{:12}{:>8}{:>9}{:>7}{:>8}{:>5}{:>6}{:>16}{:>13}".format
    print(row("", "circles", "two-way", "rooms", "arrows", "up", "late", "without reason", "9 arguments"))
    for name in PACKAGES:
        package = modules(root, name)
        rooms = folder_arrows(package, depth=1)
        late = late_imports(package)
        counted: Sequence[Sized] = (
            circles(file_arrows(package)),
            two_way(folder_arrows(package)),
            rooms,
            [arrow for others in rooms.values() for arrow in others],
            upward(rooms),
            late,
            [each for _, each in late if not each.has_reason],
            long_signatures(package),
        )
        print(row(name, *map(len, counted)))


def report_front(root: Path) -> None:
    """Prints what a newcomer has to take in: commands, options, words, and type names that stand for two things."""
    commands = (root / "docs/reference/commands.md").read_text(encoding="utf-8")
    options = OPTION.findall(commands)
    pages = [
        root / "README.md",
        root / "CONTRIBUTING.md",
        root / "CHANGELOG.md",
        *sorted((root / "docs").rglob("*.md")),
    ]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    names = shared_names([modules(root, package) for package in PACKAGES])
    print(f"\n{len(COMMAND.findall(commands))} commands, {len(options)} options ({len(set(options))} different)")
    print(f"{len(pages)} pages, {words} words")
    print(f"{len(names)} names of types stand for several things: {', '.join(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the structure of the house.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="a checkout")
    report(parser.parse_args().folder)


if __name__ == "__main__":
    main()
