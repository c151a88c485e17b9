# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docstrings, comments and pages have none of the words and openings that readers stumble over."""

from __future__ import annotations

import ast
import io
import pathlib
import re
import tokenize

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Each with the words to write in its place.
REFUSED = {
    r"anew": "again",
    r"meanwhile": "since then, at the same time",
    r"of then|of the moment": "the noun with its time: the hosts at the last discovery",
    r"the deed": "the step, the change",
    r"comes? to nothing": "fails, has no effect",
    r"what became of": "the result of",
    r"gone on with": "continued",
    r"those that|that which": "the noun: the hosts that",
    r"in vain": "without success",
    r"all the same": "still",
    r"is to be|are to be": "must, will",
    r"what is to": "the noun: the message, the next step",
    r"thereof|therein|hitherto|lest": "a noun with of, in, until now",
}
WORDS = re.compile(rf"(?<![\w-])({'|'.join(REFUSED)})(?![\w-])", re.I)
#: A sentence begins with its subject or with a verb.
OPENINGS = re.compile(r"^(Of|That of|Those|Whose|Anew|What|Which|Whether) (?!.*\?)")
QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"")


def of_python(source):
    """Yield the line and the text of each docstring and of each block of comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node)
    lines, text, first = source.splitlines(), [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].strip().startswith("#"):
            if first + len(text) != token.start[0]:
                yield first, " ".join(text)
                text, first = [], token.start[0]
            text.append(token.string.lstrip("#: "))
    yield first, " ".join(text)


def of_page(source):
    """Yield the line and the text of each paragraph outside of code, tables and headings."""
    code, text, first = False, [], 0
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            code = not code
        is_text = (
            line.strip() and not code and not line.lstrip().startswith(("|", "#", "<!--", "```"))
        )
        if text and (not is_text or line.lstrip().startswith(("- ", "* "))):
            yield first, " ".join(text)
            text = []
        if is_text:
            first = first if text else number
            text.append(line.strip().lstrip("-* "))


def of_yaml(source):
    """Yield the line and the text of each comment and of each name of a task."""
    for number, line in enumerate(source.splitlines(), 1):
        found = re.match(r"\s*(?:#|- name:) ?(.*)", line)
        if found:
            yield number, found.group(1)


READERS = {".py": of_python, ".md": of_page, ".yml": of_yaml}
FOLDERS = ("plugins", "tests", "roles", "playbooks", "extensions", "docs")


def faults(text):
    """Return the refused words and openings of a text."""
    text = QUOTED.sub("X", text)
    sentences = re.split(r"(?<=[.!?])\s+|\n\s*\n", text)
    return [found.group(1) for found in WORDS.finditer(text)] + [
        found.group(1) for each in sentences if (found := OPENINGS.match(" ".join(each.split())))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_text_has_a_refused_word(folder):
    files = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in READERS]
    assert files
    assert [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in files
        for line, text in READERS[path.suffix](path.read_text(encoding="utf-8"))
        for fault in faults(text)
    ] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_no_page_at_the_top_has_a_refused_word(page):
    texts = of_page((ROOT / page).read_text(encoding="utf-8"))
    assert [(line, fault) for line, text in texts for fault in faults(text)] == []


def test_refused_words_and_openings_are_found():
    assert faults("It plans Anew. Of these hosts one is down. The host of then.") == [
        "Anew",
        "of then",
        "Of",
    ]
    assert faults("``anew`` is a word. What is down? The renewal of thenar muscles.") == []
    source = '"""Add one.\n\nThose that fit."""\n# First\n# and the deed.\nx = 1\n'
    assert [fault for dummy, text in of_python(source) for fault in faults(text)] == [
        "Those that",
        "Those",
        "the deed",
    ]
    assert list(of_page("# Title\n\nOne\nline.\n- Item\n\n```text\nanew\n```\n")) == [
        (3, "One line."),
        (5, "Item"),
    ]
    assert list(of_yaml("a: 1  # no\n# Anew\n")) == [(2, "Anew")]
