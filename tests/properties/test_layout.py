# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests are found by name: a test of one module is in tests/unit/PACKAGE/test_MODULE.py."""

from __future__ import annotations

import pathlib

TESTS = pathlib.Path(__file__).resolve().parents[1]
PLUGINS = TESTS.parent / "plugins"
#: They test no module of Python.
OTHER = {"awx"}


def modules_of(folder):
    """Return the names of the modules, and of the packages, that a folder of tests is about."""
    if folder.parts[0] == "module_utils":
        place = PLUGINS.joinpath("module_utils", *(f"_{each}" for each in folder.parts[1:]))
    elif (PLUGINS / folder).is_dir():
        place = PLUGINS / folder
    else:
        place = next(PLUGINS.rglob(f"_{folder}"), None) or next(PLUGINS.rglob(f"{folder}"))
    return {path.stem.lstrip("_") for path in place.rglob("*") if "__pycache__" not in path.parts}


def test_files_of_tests_have_the_names_of_modules():
    """A module with too many tests for one file has more, as test_MODULE_PART.py."""
    astray = []
    for path in sorted((TESTS / "unit").rglob("test_*.py")):
        folder = path.parent.relative_to(TESTS / "unit")
        if folder.parts and folder.parts[0] in OTHER:
            continue
        name = path.stem.removeprefix("test_")
        names = modules_of(folder) if folder.parts else ()
        if not any(name == each or name.startswith(f"{each}_") for each in names):
            astray.append(str(path.relative_to(TESTS)))
    assert not astray, "name them after a module, or put them into tests/properties"
