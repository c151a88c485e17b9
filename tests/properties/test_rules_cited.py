# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule of Nova and Placement that the code names has a section in the docs, and each section
is named by the code.
"""

from __future__ import annotations

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
PAGES = {"docs/nova-rules.md": {*range(1, 10), 11, 12}, "docs/placement-rules.md": {10}}
RULE = re.compile(r"(?<![\w.-])N(?:1[0-2]|[1-9])(?:\.[1-9])?(?![\w-]|\.[0-9])")
HEADING = re.compile(r"^##+ (N\S+) \S", re.MULTILINE)
#: Names of notes that are not part of the repository, in two parts, so that this file does not
#: contain them.
ABSENT = [f"{name}_SEMANTICS" for name in ("NOVA", "NUMA_PCI")]
#: Folders that tools make.
BUILT = ("build", "collections")


def texts(*names):
    """Return {path: text} of files and of the content of folders of the repository, without this
    file."""
    by_path = {}
    for path in sorted(path for name in names for path in (ROOT / name, *(ROOT / name).rglob("*"))):
        parts = path.relative_to(ROOT).parts
        if not path.is_file() or path == HERE or {"__pycache__", "output"} & set(parts):
            continue
        try:
            by_path["/".join(parts)] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return by_path


def sections(page):
    return HEADING.findall((ROOT / page).read_text(encoding="utf-8"))


CODE = texts("plugins", "tests")
CITED = {rule: name for name, text in CODE.items() for rule in RULE.findall(text)}
SECTIONS = [rule for page in PAGES for rule in sections(page)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_its_own_rules_in_order(page):
    numbers = [[int(part) for part in rule[1:].split(".")] for rule in sections(page)]
    assert numbers == sorted(numbers)
    assert len(set(map(tuple, numbers))) == len(numbers) > 0
    assert {number[0] for number in numbers} <= PAGES[page]


@pytest.mark.parametrize("rule", sorted(CITED))
def test_a_rule_that_is_named_has_a_section(rule):
    assert rule in SECTIONS, CITED[rule]


@pytest.mark.parametrize("rule", SECTIONS)
def test_a_section_is_named_by_the_code(rule):
    assert rule in CITED


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_rules_that_there_are(page):
    assert set(RULE.findall((ROOT / page).read_text(encoding="utf-8"))) <= set(SECTIONS)


def test_nothing_outside_the_repository_is_cited():
    top = [
        path.name
        for path in ROOT.iterdir()
        if path.name not in BUILT and not path.name.startswith(".")
    ]
    found = texts(*top)
    assert "plugins/plugin_utils/_common/errors.py" in found
    assert [name for name, text in found.items() if any(each in text for each in ABSENT)] == []
