"""Terms with two definitions, and words that the glossary replaces."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.measures.checkout import Checkout, Module

_GLOSSARY: Final = "docs/glossary.md"
_BOLD: Final = re.compile(r"\*\*([^*]+)\*\*")
_PROSE: Final = {tokenize.COMMENT, tokenize.STRING}

#: idioms in which "turn" is no iteration
_OTHER_TURNS: Final = re.compile(
    r"\b(in|by|takes?|taking|took) turns?\b|\bturns?\b[^.]{0,40}?\binto\b"
    r"|\bturns? (off|on|out|around)\b"
)
#: by name of the row, the pattern in prose, and in identifiers split into parts
_WORDS: Final = {
    "turn, turns": re.compile(r"\bturns?\b"),
    "go round, goes round": re.compile(r"\b(go|goes|going|went)\s+round\b"),
    "chooser": re.compile(r"\bchoosers?\b"),
}
#: these words as parts of any text; most texts have none of them, and tokenising is slow
_ANY: Final = re.compile(
    r"(?<![a-z])turns?(?![a-z])|Turns?(?![a-z])|TURNS?(?![A-Z])"
    r"|(?i:(?:go|goes|going|went)[\W\d_]*round|chooser)"
)
#: modules of tests that name these words
_NAMING: Final = {"tests.bench.measures.wording", "tests.test_glossary"}
#: the section of the glossary that must list these words
_AVOIDED: Final = "\n## Words not used\n"
#: file names that say nothing about the contents
_FILES: Final = {
    "words", "spelled", "carried", "shared", "sharing", "outside", "members", "usage", "reliance",
    "written",
}  # fmt: skip
_FOUND: Final = "functions with a local variable `found`"
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def wording(checkout: Checkout) -> dict[str, Any]:
    """Terms that the glossary defines twice; counts of replaced words, by place."""
    kinds = ("comments and strings", "docs", "identifiers")
    names = [f"{word} ({kind})" for word in _WORDS for kind in kinds]
    counts: dict[str, Counter[str]] = {name: Counter() for name in [*names, _FOUND]}
    tests = [module for module in checkout.tests if module.name not in _NAMING]
    for module in (*checkout.modules.values(), *tests):
        for kind, word in _of(module):
            counts[f"{word} ({kind})"][module.path] += 1
    for module in checkout.modules.values():
        if (functions := _binding(module, "found")) > 0:
            counts[_FOUND][module.path] = functions
    for page in sorted((checkout.root / "docs").rglob("*.md")):
        for word in _in_prose(page.read_text().partition(_AVOIDED)[0]):
            counts[f"{word} (docs)"][str(page.relative_to(checkout.root))] += 1
    paths = [module.path for module in (*checkout.modules.values(), *checkout.tests)]
    files = sorted(p for p in paths if Path(p).stem.removeprefix("test_") in _FILES)
    return {
        "twice": _twice((checkout.root / _GLOSSARY).read_text()),
        "counts": {name: dict(places) for name, places in sorted(counts.items())},
        "files": files,
    }


def _twice(glossary: str) -> dict[str, list[str]]:
    """The terms set in bold, and so defined, more than once; with the lines of each."""
    lines: dict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(glossary.splitlines(), 1):
        for match in _BOLD.finditer(line):
            about = line[match.start() : match.start() + 90]
            lines[_singular(match[1].lower())].append(f"{_GLOSSARY}:{number} {about}")
    return {term: places for term, places in sorted(lines.items()) if len(places) > 1}


def _singular(term: str) -> str:
    return term.removesuffix("s") if not term.endswith("ss") else term


def _of(module: Module) -> Iterator[tuple[str, str]]:
    """The kind of place and the replaced word, for each such word in a module."""
    if not _ANY.search(module.text):
        return
    for token in module.tokens:
        if token.type == tokenize.NAME:
            parts = " ".join(_PARTS.findall(token.string)).lower()
            for word, pattern in _WORDS.items():
                if pattern.search(parts):
                    yield "identifiers", word
        elif token.type in _PROSE:
            for word in _in_prose(token.string):
                yield "comments and strings", word


def _in_prose(text: str) -> Iterator[str]:
    plain = _OTHER_TURNS.sub(" ", text.lower())
    for word, pattern in _WORDS.items():
        for _ in pattern.finditer(plain):
            yield word


def _binding(module: Module, name: str) -> int:
    """Number of functions that bind a local variable of this name."""
    functions: set[ast.AST] = set()
    if not re.search(rf"\b{name}\b", module.text):  # most lack the name, and parsing is slow
        return 0

    def visit(node: ast.AST, function: ast.AST | None) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            function = node
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
        if stored and function is not None:
            functions.add(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(module.tree, None)
    return len(functions)
