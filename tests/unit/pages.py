# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands and files that the pages show. Used by tests/properties/test_pages.py and
tests/lab/test_guides.py.
"""

from __future__ import annotations

import re

from ansible_collections.drover.compute.tests.unit import examples

ROOT = examples.ROOT
DOCS = ROOT / "docs"
README, FIRST_FLEET = ROOT / "README.md", DOCS / "first-fleet.md"
DRAIN, EVACUATE = DOCS / "drain.md", DOCS / "evacuate.md"
#: The pages with commands that run on hypervisors, one after the other; of README only the commands
#: of its first fleet.
GUIDES = (README, FIRST_FLEET, DRAIN, EVACUATE)


def section(page, heading):
    """Return the text of a page from a heading of the second level to the next."""
    return re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page.read_text(), re.M | re.S
    ).group(1)


def commands(text):
    """Return each whole command of the fenced console blocks and of indented lines."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", text, re.M | re.S)
    blocks += re.findall(r"^((?:    (?:ansible(?:-\w+)?|virsh) .*\n)+)", text, re.M)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"^\s*(\$ )?", "", line)
            line = re.sub(r"\s{2,}[A-Za-z#].*$", "", line) if not line.startswith("#") else ""
            for command in line.split(" && "):
                if command.strip() and not command.startswith("cd "):
                    yield re.sub(r"^([A-Z_]+=\S+ )+", "", command.strip())


def files(text):
    """Return the files that begin with their name as a comment: dict name -> content."""
    contents = {}
    for block in re.findall(r"^```\w+\n(.*?)^```", text, re.M | re.S):
        name = re.match(r"# (\S+\.(?:yml|cfg))\n", block)
        if name:
            contents[name.group(1)] = block
    return contents
