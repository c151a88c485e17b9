# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host filters and weighers of another collection, installed as users install it, in a real play:
the guide's example.
"""

from __future__ import annotations

import os
import pathlib
import re

import pytest
import yaml

from ansible_collections.drover.compute.tests.unit.action.running import ansible, play

GUIDE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "scheduler-nova.md"
GALAXY = {
    "namespace": "acme",
    "name": "filters",
    "version": "1.0.0",
    "readme": "README.md",
    "authors": ["Acme"],
}
NODES = [
    {
        "host": f"kvm{number}",
        "vcpus": 4,
        "memory_mb": 4096,
        "local_gb": 50,
        "stats": {"rack": str(rack)},
    }
    for number, rack in ((1, 3), (2, 5), (3, 7))
]


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    """Make a collections path with acme.filters as the guide has it."""
    source = tmp_path_factory.mktemp("source")
    blocks = re.findall(r"```python\n# (plugins/\S+)\n(.*?)```", GUIDE.read_text(), re.S)
    assert len(blocks) == 2
    for path, text in [*blocks, ("galaxy.yml", yaml.safe_dump(GALAXY)), ("README.md", "Acme.\n")]:
        source.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        source.joinpath(path).write_text(text)
    target = tmp_path_factory.mktemp("collections")
    words = ("collection", "install", str(source), "-p", str(target), "--offline")
    output = ansible(
        source, "galaxy", *words, environment={"ANSIBLE_GALAXY_CACHE_DIR": str(source / "cache")}
    )[1]
    assert (target / "ansible_collections/acme/filters/MANIFEST.json").exists(), output
    return f"{target}:{os.environ['ANSIBLE_COLLECTIONS_PATH']}"


def run(folder, collections, scheduler=None):
    (example,) = yaml.safe_load(
        re.search(r"```yaml\n(- name: Ask with.*?)```", GUIDE.read_text(), re.S)[1]
    )
    variables = {**example["vars"], "drover_store_url": f"sqlite:///{folder}/store.db"}
    if scheduler is not None:
        variables["drover_scheduler"] = scheduler
    tasks = [{"drover.compute.compute_node": {"nodes": NODES}}, *example["tasks"]]
    return play(
        folder, tasks, environment={"ANSIBLE_COLLECTIONS_PATH": collections}, vars=variables
    )


def test_the_guide_s_collection(tmp_path, collections):
    code, output = run(tmp_path, collections)
    assert code == 0, output
    # kvm3 is in rack 7: the host filter rejects it, and the weigher would prefer it.
    assert '"msg": "kvm2"' in output, output


def test_a_class_that_it_does_not_have(tmp_path, collections):
    code, output = run(tmp_path, collections, {"enabled_filters": ["acme.filters.ShelfFilter"]})
    assert code == 2, output
    assert "names 'acme.filters.ShelfFilter' under 'enabled_filters'" in " ".join(output.split()), (
        output
    )
    assert "Traceback" not in output
