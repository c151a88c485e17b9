# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the pages that come from the code are current: output, lists of variables and
playbooks, pictures.

`make pages` and `make pictures` write them again.
"""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import known_variables
from ansible_collections.drover.compute.tests.pages import pictures, recorded, reference, write

NAMES = {
    page.name: [name for name, dummy in write.SHOWN.findall(page.read_text())]
    for page in write.PAGES
}


@pytest.mark.parametrize(
    "page, name", [(page, name) for page, names in NAMES.items() for name in names]
)
def test_output_is_what_the_command_prints(page, name):
    path = next(each for each in write.PAGES if each.name == page)
    shown = dict(write.SHOWN.findall(path.read_text()))[name].rstrip("\n").split("\n")
    assert shown == recorded.output(name), "make pages writes it anew"


def test_every_output_is_on_a_page_and_every_mark_has_an_output():
    assert {name for names in NAMES.values() for name in names} == set(recorded.OUTPUTS)
    for page in write.PAGES:
        assert page.read_text().count("<!-- shown: ") == len(NAMES[page.name]), page.name


@pytest.mark.parametrize("page", reference.PAGES, ids=lambda page: page.name)
def test_lists_are_those_of_the_code(page):
    assert page.read_text() == reference.PAGES[page](), "make pages writes it anew"


def test_every_variable_and_every_playbook_has_its_line():
    variables = (reference.DOCS / "variables.md").read_text()
    rows = set(re.findall(r"^\| `(drover_\w+)`", variables, re.M))
    assert rows == known_variables.KNOWN - reference.SET_BY_US
    assert not re.findall(r"^\| `drover_\w+`[^|]*\|\s*\|", variables, re.M), (
        "a variable without a description"
    )
    playbooks = set(re.findall(r"^## (.*)$", (reference.DOCS / "playbooks.md").read_text(), re.M))
    assert playbooks == {path.stem for path in (reference.ROOT / "playbooks").glob("*.yml")}


def test_commands_of_the_quick_reference_exist():
    page = (reference.DOCS / "quick-reference.md").read_text()
    commands = re.findall(r"`((?:ansible |drover\.compute\.|instance_)[^`]*)`", page)
    assert len(commands) > 25
    for command in commands:
        for name in re.findall(r"^(?:drover\.compute\.)?(\w+)", command):
            if name != "ansible":
                assert (reference.ROOT / "playbooks" / f"{name}.yml").is_file(), command
        for name in re.findall(r"-m drover\.compute\.(\w+)", command):
            assert (reference.ROOT / "plugins" / "modules" / f"{name}.py").is_file(), command
        assert set(re.findall(r"drover_\w+", command)) <= known_variables.KNOWN, command


def test_the_guides_of_the_documentation_site_are_files():
    folder = reference.DOCS / "docsite"
    links = re.findall(r"blob/main/docs/([\w-]+\.md)", (folder / "rst" / "guides.rst").read_text())
    assert set(links) == {page.name for page in reference.DOCS.glob("*.md")} - {"index.md"}
    for section in yaml.safe_load((folder / "extra-docs.yml").read_text())["sections"]:
        for name in section["toctree"]:
            assert (folder / "rst" / f"{name}.rst").is_file(), name


def test_pictures_are_of_now():
    assert pictures.DRAIN.read_text() == pictures.drain(), "make pictures draws it anew"
    assert pictures.checksum_of_picture() == pictures.checksum(), "make pictures takes it anew"
