"""Lists the words that identifiers are made of, each with its uses and the folders that use it.

    python -m tests.vocabulary [--uses] [--least FOLDERS] [WORD ...]

With WORD, lists the identifiers that have this word and where each is defined. An identifier counts where it is
defined: a class, function, argument, attribute or variable.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.structure import PACKAGES, code_files, room_of
from tests.support.paths import ROOT

# `HTTPServer` is HTTP and Server, `read_file` read and file.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def defined_identifiers(text: str) -> Iterator[tuple[str, int]]:
    """Yields each identifier that Python source defines, with its line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def words_of(identifier: str) -> list[str]:
    """Splits an identifier of any case into lower-case words."""
    return [word.lower() for word in WORD.findall(identifier)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--least", type=int, default=4, metavar="FOLDERS", help="words in at least so many folders")
    options = parser.parse_args()
    uses: Counter[str] = Counter()
    folders: dict[str, set[str]] = defaultdict(set)
    for path in (path for package in PACKAGES for path in code_files(ROOT, package) if path.suffix == ".py"):
        for identifier, line in defined_identifiers(path.read_text(encoding="utf-8")):
            for word in set(words_of(identifier)):
                uses[word] += 1
                folders[word].add(room_of(path, ROOT))
                if word in options.words:
                    print(f"{path.relative_to(ROOT)}:{line}: {identifier}")
    if not options.words:
        for word, number in uses.most_common():
            if len(folders[word]) >= options.least:
                print(f"{word:20} {number:5} in {len(folders[word]):2}: {', '.join(sorted(folders[word]))}")


if __name__ == "__main__":
    main()
