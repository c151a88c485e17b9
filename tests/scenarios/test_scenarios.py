# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Golden scenarios: a fleet, commands with faults in them, and the expected journal.

Each folder has state.yml (hosts, instances), commands.yml and expected.yml. A value "$x" in the
commands takes, one after the other, each value of x in ``cross``: a case for each combination.
``only`` may leave out combinations. At every moment and after every command the harness checks the
rules of all scenarios: no instance is lost, none runs twice, no move begins without the store, and
room is held on the host of an instance or of its move, and on no other host. With
DROVER_WRITE_EXPECTED in the environment, expected.yml is written again; review the difference.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import shutil
import tempfile

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.scenarios.running import Scenario

HERE = pathlib.Path(__file__).parent
WRITE = bool(os.environ.get("DROVER_WRITE_EXPECTED"))
#: A folder in memory, because the store's file is synced at every step.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Indented(yaml.SafeDumper):
    """Lists in yamllint's form."""

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)


@functools.cache
def load(path):
    """Return the content of a file of YAML; it is read once."""
    return yaml.load(
        path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def filled(value, case):
    """Return a value of the commands with the parameters of a case."""
    if isinstance(value, dict):
        return {key: filled(each, case) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, case) for each in value]
    if isinstance(value, str) and value.startswith("$"):
        return case[value[1:]]
    return value


def cases_of(folder):
    """Return [(name of the case, commands)] of a scenario."""
    data = load(folder / "commands.yml")
    cross = data.get("cross") or {}
    cases = []
    for values in itertools.product(*cross.values()):
        case = dict(zip(cross, values))
        name = ", ".join(f"{key} {value}" for key, value in case.items()) or "only"
        cases.append((name, filled(data["commands"], case)))
    return cases


FOLDERS = sorted(path.parent for path in HERE.glob("*/commands.yml"))
ALL = [(folder, name, commands) for folder in FOLDERS for name, commands in cases_of(folder)]


@pytest.fixture(scope="session")
def memory():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def empty(memory):
    """Return the file of an empty store, for copies."""
    Store.open(f"sqlite:///{memory}/empty.db").upgrade()
    return memory / "empty.db"


@pytest.fixture(scope="session")
def store(memory):
    """Return one engine for all, because it keeps SQLAlchemy's compiled statements."""
    return Store.open(f"sqlite:///{memory}/store.db")


@pytest.fixture
def fresh(memory, empty, store, monkeypatch):
    """Return a function (folder) that returns the Scenario of a folder, with a store after a
    discovery of its fleet."""
    monkeypatch.setattr(Store, "open", lambda url: store)

    def make(folder):
        path, prepared = memory / "store.db", memory / f"{folder.name}.db"
        for each in memory.glob("store.db*"):
            each.unlink()
        shutil.copyfile(prepared if prepared.exists() else empty, path)
        scenario = Scenario(f"sqlite:///{path}", load(folder / "state.yml"), monkeypatch)
        if not prepared.exists():
            scenario.begin()
            shutil.copyfile(path, prepared)
        return scenario

    return make


@pytest.mark.parametrize(
    "folder, name, commands", ALL, ids=[f"{folder.name}: {name}" for folder, name, dummy in ALL]
)
def test_scenario(folder, name, commands, fresh, written):
    scenario = fresh(folder)
    for command in commands:
        scenario.do(command)
    lines = scenario.said + scenario.journal()
    if WRITE:
        written.setdefault(folder, {})[name] = lines
    else:
        assert lines == expected(folder).get(name)


@functools.cache
def expected(folder):
    """Return {name of a case: lines}."""
    return {
        name: group["journal"] for group in load(folder / "expected.yml") for name in group["cases"]
    }


def test_nothing_is_expected_of_cases_that_are_not_there():
    for folder in FOLDERS:
        assert WRITE or set(expected(folder)) == {name for name, dummy in cases_of(folder)}


@pytest.fixture(scope="session")
def written():
    """Collect {folder: {name of a case: lines}} and write it into expected.yml at the end; cases
    with equal lines share an entry."""
    found = {}
    yield found
    for folder, journals in found.items():
        groups = {}
        for name, lines in journals.items():
            groups.setdefault(tuple(lines), []).append(name)
        data = [{"cases": names, "journal": list(journal)} for journal, names in groups.items()]
        head = "\n".join((folder / "state.yml").read_text(encoding="utf-8").splitlines()[:4])
        text = yaml.dump(data, Dumper=Indented, width=120, sort_keys=False)
        (folder / "expected.yml").write_text(f"{head}\n{text}", encoding="utf-8")
