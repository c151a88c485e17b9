# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--limit`` with each playbook: it has its effect, or fails with a sentence; no successful run
that did nothing."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._on_localhost import on_localhost
from ansible_collections.drover.compute.plugins.filter._some_host import some_host
from ansible_collections.drover.compute.tests.unit.action.running import ansible

PLAYBOOKS = sorted((pathlib.Path(__file__).resolve().parents[3] / "playbooks").glob("*.yml"))
#: Playbooks that read or stop the hosts of the limit.
OF_HOSTS = {"check", "discover", "image_cache_clean", "migration_abort"}
#: Playbooks that need all hypervisors.
OF_ALL_HOSTS = {"migration_trust"}
GROUPS = {"all": ["kvm1", "kvm2"], "hypervisors": ["kvm1", "kvm2"]}
WITH_LOCALHOST = {
    "all": ["kvm1", "localhost"],
    "controllers": ["localhost"],
    "hypervisors": ["kvm1"],
}


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_limit_without_localhost_is_refused(path, tmp_path):
    if path.stem in OF_HOSTS:
        assert any(
            "hypervisors" in play.get("hosts", "")
            for play in yaml.safe_load(path.read_text(encoding="utf-8"))
        )
        return
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm1: {}, kvm2: {}}}\n", encoding="utf-8"
    )
    words = (
        "-i",
        "hosts.yml",
        f"drover.compute.{path.stem}",
        "--limit",
        "kvm1",
        "-e",
        "drover_host=kvm1",
    )
    status, output = ansible(tmp_path, "playbook", *words)
    text = " ".join(output.split())
    assert status != 0 and "TASK" not in output, output
    if path.stem in OF_ALL_HOSTS:
        assert (
            "Nothing was done: --limit kvm1 leaves out kvm2, and this playbook needs every"
            " hypervisor."
            in text
            and "without --limit" in text
        )
    else:
        # The playbook that takes a limit (AWX, row 6).
        advice = (
            "Add it: --limit localhost,kvm1."
            if path.stem == "rolling_maintenance"
            else "Run it without --limit"
        )
        assert (
            "Nothing was done: --limit kvm1 leaves out localhost, where this playbook works."
            f" {advice}" in text
        )


@pytest.mark.parametrize(
    "limit, groups, works",
    [
        (None, GROUPS, True),
        ("", GROUPS, True),
        ("localhost", GROUPS, True),
        ("kvm1,localhost", GROUPS, True),
        ("kvm1:127.0.0.1", GROUPS, True),
        ("kvm1", GROUPS, False),
        # Ansible's own localhost is in no group.
        ("all", GROUPS, False),
        ("hypervisors,!kvm2", GROUPS, False),
        ("all", WITH_LOCALHOST, True),
        ("*", WITH_LOCALHOST, True),
        ("local*", WITH_LOCALHOST, True),
        ("controllers", WITH_LOCALHOST, True),
        ("hypervisors", WITH_LOCALHOST, False),
        ("all:!localhost", WITH_LOCALHOST, False),
        ("!kvm1", WITH_LOCALHOST, True),
        ("!kvm1", GROUPS, False),
    ],
)
def test_which_limits_have_localhost(limit, groups, works):
    if works:
        assert on_localhost(limit, groups) == "localhost"
    else:
        with pytest.raises(AnsibleFilterError, match="leaves out localhost"):
            on_localhost(limit, groups)


@pytest.mark.parametrize(
    "limit, later, works",
    [
        ("", "drover_placing", True),
        ("all,localhost", "drover_placing", True),
        ("localhost,drover_placing", "drover_placing", True),
        ("kvm1,localhost", "drover_placing", False),
        ("localhost", "drover_placing", False),
        ("kvm1,localhost", "kvm1", True),
        ("kvm2,localhost", "kvm1", False),
        ("localhost", "", True),
    ],
)
def test_f17_a_limit_that_leaves_out_a_later_play_is_refused_before_anything_is_done(
    limit, later, works
):
    """place claimed the room and built nothing."""
    if works:
        assert on_localhost(limit, GROUPS, later=later) == "localhost"
    else:
        with pytest.raises(
            AnsibleFilterError,
            match=f"Nothing was done: --limit {limit} leaves out {later}, on which",
        ):
            on_localhost(limit, GROUPS, later=later)


@pytest.mark.parametrize(
    "pattern, limit, sentence",
    [
        ("kvm1", "", None),
        ("kvm1,kvm2", "kvm2", None),
        (["kvm1", "kvm2"], None, None),
        ("hypervisors", "kvm1", None),
        ("localhost", "", None),
        ("kmv1", "", "the inventory has no host that matches kmv1 (did you mean kvm1?)."),
        (
            "hypervisor",
            "",
            "the inventory has no host that matches hypervisor (did you mean hypervisors?).",
        ),
        (
            "kvm1",
            "kvm2",
            "--limit kvm2 leaves out every host that matches kvm1. Run it without --limit.",
        ),
        (
            "hypervisors",
            "localhost",
            "--limit localhost leaves out every host that matches hypervisors.",
        ),
    ],
)
def test_a_play_that_must_have_hosts(pattern, limit, sentence):
    if sentence is None:
        assert some_host(pattern, limit, GROUPS) == pattern
    else:
        with pytest.raises(AnsibleFilterError) as caught:
            some_host(pattern, limit, GROUPS)
        assert f"Nothing was done: {sentence}" in str(caught.value)


@pytest.mark.parametrize(
    "words, sentence",
    [
        (
            ("migration_abort", "-e", "drover_host=kmv1"),
            "has no host that matches kmv1 (did you mean kvm1?)",
        ),
        (
            ("migration_abort", "-e", "drover_host=kvm1", "--limit", "kvm2"),
            "--limit kvm2 leaves out every host that matches kvm1.",
        ),
        (
            ("migration_trust", "-e", "drover_hypervisors=hypervisor"),
            "has no host that matches hypervisor (did you mean hypervisors?)",
        ),
        (
            ("rolling_maintenance", "-e", "drover_hypervisors=kvm"),
            "has no host that matches kvm. Correct the name",
        ),
        (
            ("evacuate", "-e", "drover_host=kvm1", "-e", "drover_hypervisors=hyperviors"),
            "has no host that matches hyperviors (did",
        ),
        (
            ("discover", "--limit", "db1"),
            "--limit db1 leaves out every host that matches hypervisors.",
        ),
    ],
)
def test_walk_f18_a_run_without_hosts_is_no_success(tmp_path, words, sentence):
    """``migration_abort -e drover_host=kmv1`` ended with success, and the moves of kvm1 continued.
    The group of migration_trust is walk F18."""
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm1: {}, kvm2: {}}}\nothers: {hosts: {db1: {}}}\n", encoding="utf-8"
    )
    name, *options = words
    status, output = ansible(
        tmp_path, "playbook", "-i", "hosts.yml", f"drover.compute.{name}", *options
    )
    assert status != 0 and sentence in " ".join(output.split()), output


@pytest.mark.parametrize("playbook", ["drain", "undrain"])
@pytest.mark.parametrize("pool", ['""', "null", "[]", "true"])
def test_an_empty_pool_is_no_drain_of_the_whole_host(playbook, pool, tmp_path):
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm1: {}, kvm2: {}}}\n", encoding="utf-8"
    )
    given = f'{{"drover_pool": {pool}, "drover_host": "kvm1"}}'
    status, output = ansible(
        tmp_path, "playbook", "-i", "hosts.yml", f"drover.compute.{playbook}", "-e", given
    )
    assert status != 0 and "it is not known if a storage pool or a whole host is meant" in " ".join(
        output.split()
    ), output
