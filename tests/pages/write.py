# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the pages up to date with the code.

    write.py              the output of pages, the lists of variables, playbooks and guides, the
    keys of definitions,
                          the options in the files of roles, the surveys of AWX
    write.py pictures     docs/pictures; this needs Chromium

In a page the output is the block of text after a line <!-- shown: NAME -->; the names are in
recorded.OUTPUTS.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import sys

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

from ansible_collections.drover.compute.tests.pages import (
    pictures,
    recorded,
    reference,
)  # noqa: E402
from ansible_collections.drover.compute.tests.unit.report import browser  # noqa: E402

SHOWN = re.compile(r"^<!-- shown: (.*?) -->\n```text\n(.*?)^```$", re.M | re.S)
PAGES = [reference.ROOT / "README.md", *sorted(reference.DOCS.glob("*.md"))]


def with_output(text: str) -> str:
    """Return the text of a page with the present output."""
    return SHOWN.sub(
        lambda block: (
            f"<!-- shown: {block.group(1)} -->\n```text\n"
            + "\n".join(recorded.output(block.group(1)))
            + "\n```"
        ),
        text,
    )


def main() -> None:
    if sys.argv[1:] == ["pictures"]:
        pictures.FOLDER.mkdir(exist_ok=True)
        _write(pictures.DRAIN, pictures.drain())
        with browser.running() as window:
            pictures.photograph(window)
        print(f"wrote {pictures.REPORT}")
        return
    for page in PAGES:
        _write(page, with_output(page.read_text(encoding="utf-8")))
    for page, text in reference.PAGES.items():
        page.parent.mkdir(exist_ok=True)
        _write(page, text())


def _write(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
