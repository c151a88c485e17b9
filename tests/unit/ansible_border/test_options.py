# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of the store's URL in real plays; its password is never shown."""

from __future__ import annotations

import json

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import options
from ansible_collections.drover.compute.tests.unit.action.running import play, run

SECRET = "s3cr3t"
MAKE = {"drover.compute.store": {}}


def stores(folder):
    return sorted(path.name for path in folder.glob("*.db"))


def url(name):
    # A relative path starts at the current folder.
    return f"sqlite:///{name}.db"


def test_each_source_gives_way_to_the_one_before(tmp_path):
    """argument > module_defaults > variable (templated) > environment > ansible.cfg > default."""
    group = {"module_defaults": {"group/drover.compute.all": {"store_url": url("group")}}}
    tasks = [
        {"block": [{"drover.compute.store": {"store_url": url("argument")}}, MAKE], **group},
        {
            "block": [MAKE],
            "vars": {"drover_store_url": "sqlite:///{{ part }}-{{ 1 + 1 }}.db", "part": "variable"},
        },
        {**MAKE, "vars": {"drover_store_url": ""}},
    ]
    cfg = f"[drover]\nstore_url = {url('cfg')}\n"
    code, output = play(tmp_path, tasks, cfg, {"DROVER_STORE_URL": url("environment")})
    assert code == 0, output
    assert stores(tmp_path) == ["argument.db", "environment.db", "group.db", "variable-2.db"]
    code, output = play(tmp_path, [MAKE], cfg)
    assert code == 0, output
    assert "cfg.db" in stores(tmp_path)


def test_ansible_cfg_and_its_comments(tmp_path, monkeypatch):
    cfg = tmp_path / "ansible.cfg"
    monkeypatch.setattr(options.C, "CONFIG_FILE", str(cfg))
    monkeypatch.delenv("DROVER_STORE_URL", raising=False)
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    # Ansible gives a percent sign no meaning, unlike other readers of such files.
    cfg.write_text("[drover]\n# ours\nstore_url = postgresql://u:a%40b%s@h/d ; the one\n")
    assert options.store_url({}, {}, None) == "postgresql://u:a%40b%s@h/d"
    for text in ("", "[defaults]\nforks = 5\n", "[drover]\nother = 1\n"):
        cfg.write_text(text)
        assert options.store_url({}, {}, None) == f"sqlite:///{tmp_path}/home/drover/store.db"


@pytest.mark.parametrize("check", [False, True])
def test_the_default_follows_ansible_home(tmp_path, monkeypatch, check):
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DROVER_STORE_URL", raising=False)
    assert options.default_store_url() == f"sqlite:///{tmp_path}/home/drover/store.db"
    assert run("store", check=check)["changed"] is True
    assert (tmp_path / "home").exists() is not check


def test_the_environment_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setenv("DROVER_STORE_URL", f"sqlite:///{tmp_path}/environment.db")
    run("store")
    run("store", {"drover_store_url": f"sqlite:///{tmp_path}/variable.db"})
    run(
        "store",
        {"drover_store_url": f"sqlite:///{tmp_path}/none.db"},
        store_url=f"sqlite:///{tmp_path}/argument.db",
    )
    assert stores(tmp_path) == ["argument.db", "environment.db", "variable.db"]


def test_no_play_shows_the_password(tmp_path):
    """Failures of all kinds, with Ansible's highest verbosity."""
    bad = [
        f"postgresql://user:{SECRET}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?user=u&password={SECRET}",
        f"postgresql://user:{SECRET}@host:port/db",
        f"postgresql://host:{SECRET}",
        f"nosuch://user:{SECRET}@host/db",
        f"mysql://user:{SECRET}@host/db",
    ]
    (tmp_path / "urls.json").write_text(json.dumps({"urls": bad}))
    tasks = [
        # The variables come from a file, because the user is responsible for the variables of a
        # play.
        {"ansible.builtin.include_vars": "urls.json", "no_log": True},
        *(
            {
                "drover.compute.store": {},
                "vars": {"drover_store_url": f"{{{{ urls[{number}] }}}}"},
                "ignore_errors": True,
            }
            for number in range(len(bad))
        ),
        {"drover.compute.host_info": {"store_url": "{{ urls[0] }}"}, "ignore_errors": True},
    ]
    code, output = play(tmp_path, tasks, options=["-vvvvv", "--diff"])
    assert code == 0, output
    assert output.count("The store ") >= 3
    assert output.count("drover_store_url") >= len(bad)
    assert SECRET not in output
