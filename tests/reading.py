"""Draws functions or docstrings at random, for a reader who has never seen them. `make read` prints a sheet.

    python -m tests.reading [--kind functions|docstrings|native] [--number N] [--seed S] [FOLDER ...]

The reader gives scores from 1 to 5, without the rest of the code:

functions, native: three scores. Names: standard, and they tell what they hold. Logic: easy to follow, and as simple as
it could be. Words: docstring and comments help at the first reading; 3 if there are none and none are needed.

docstrings: one score. 5: the first reading tells what the function does and what the words mean. 4: clear after a
moment. 3: the gist, but some words or references are unclear. 2: read twice, and the code is still needed. 1: it does
not tell what the function does.

What gets 3 or less is written anew, with all others of its kind in the same folder, and a new sheet is drawn.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.structure import NATIVE, PACKAGES, code_files
from tests.support.paths import ROOT

FEWEST_LINES, MOST_LINES = 8, 30
LONGEST_DOCSTRING = 400
# The first line of a function at the beginning of a line, or of a method that is defined in its class.
NATIVE_BEGIN = re.compile(
    r"(?: {4})?(?! |#|//|\}|:|(?:namespace|struct|class|enum|union|extern)\b)"
    r"(?!(?:for|while|if|else|switch|do|try|case|return)\b)"
    r"(?:\[\[\w+\]\] )?[^\[]*[)>a-z] \{"
)


def python_functions(path: Path) -> Iterator[str]:
    """Yields the functions of 9 to 30 lines."""
    text = path.read_text(encoding="utf-8")
    for function in _functions(text):
        assert function.end_lineno is not None
        lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
        if FEWEST_LINES < len(lines) <= MOST_LINES:
            yield "```python\n" + textwrap.dedent("\n".join(lines)) + "\n```"


def docstrings(path: Path) -> Iterator[str]:
    """Yields name, arguments and docstring of the functions that have a short one."""
    for function in _functions(path.read_text(encoding="utf-8")):
        text = ast.get_docstring(function)
        if text and len(text) < LONGEST_DOCSTRING:
            yield f"`{function.name}({', '.join(each.arg for each in function.args.args)})`\n\n{text}"


def native_functions(path: Path) -> Iterator[str]:
    """Yields the C++ functions of 8 to 30 lines with the comment above.

    A function goes from a line that begins one to the closing brace of the same indentation.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    for begin, line in enumerate(lines):
        if not NATIVE_BEGIN.fullmatch(line):
            continue
        indentation = line[: len(line) - len(line.lstrip())]
        rest = range(begin, min(begin + MOST_LINES, len(lines)))
        end = next((number for number in rest if lines[number] == indentation + "}"), None)
        if end is None or end - begin + 1 < FEWEST_LINES:
            continue
        while begin and lines[begin - 1].startswith(f"{indentation}//"):
            begin -= 1
        yield "```cpp\n" + textwrap.dedent("\n".join(lines[begin : end + 1])) + "\n```"


def _functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


KINDS: Mapping[str, tuple[Callable[[Path], Iterator[str]], Sequence[str]]] = {
    "functions": (python_functions, (".py",)),
    "docstrings": (docstrings, (".py",)),
    "native": (native_functions, NATIVE),
}


def draw_sheet(kind: str, number: int, seed: int, folders: Sequence[str], root: Path = ROOT) -> list[str]:
    """Returns at most `number` pieces of text, drawn from all files of the folders that git knows."""
    read, suffixes = KINDS[kind]
    paths = [path for folder in folders for path in code_files(root, folder) if path.suffix in suffixes]
    texts = [text for path in paths for text in read(path)]
    return random.Random(seed).sample(texts, min(number, len(texts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=PACKAGES, metavar="FOLDER", help="of the checkout")
    parser.add_argument("--kind", choices=KINDS, default="functions")
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for number, text in enumerate(draw_sheet(options.kind, options.number, options.seed, options.folders)):
        print(f"## {number}\n{text}\n")


if __name__ == "__main__":
    main()
