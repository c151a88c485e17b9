# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive has the files that a user needs, and no other files of a checkout."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The files that may be at the top of the archive.
TOP = {
    "MANIFEST.json",
    "FILES.json",
    "README.md",
    "CHANGELOG.rst",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "COPYING",
    "REUSE.toml",
    "SECURITY.md",
    "LICENSES",
    "bindep.txt",
    "changelogs",
    "decision-environment.yml",
    "docs",
    "execution-environment.yml",
    "extensions",
    "inventory",
    "meta",
    "playbooks",
    "plugins",
    "requirements-solver.txt",
    "requirements.txt",
    "requirements.yml",
    "roles",
}
LITTER = (
    ".cache/x",
    ".lab/hosts/kvm1/disk.qcow2",
    ".venv/bin/python",
    ".venv-lint/pyvenv.cfg",
    ".pytest_cache/x",
    ".ansible/x",
    ".gitignore",
    ".importlinter",
    "collections/ansible_collections/x",
    "demo.log",
    "drover-compute-0.0.1.tar.gz",
    "importer_result.json",
    "plugins/modules/.host.py.swp",
    "plugins/modules/__pycache__/host.pyc",
    "roles/.x.yml",
    "changelogs/.plugin-cache.yaml",
    "tests/output/x",
    "Makefile",
    "conftest.py",
    "pyproject.toml",
    "requirements-dev.txt",
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return an archive that was built from a checkout full of other files."""
    base = tmp_path_factory.mktemp("packaging")
    checkout = base / "checkout"
    checkout.mkdir()
    for path in ROOT.iterdir():
        if path.name.startswith(".") or path.name == "tests":
            continue
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, checkout / path.name)
    for name in LITTER:
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("litter")
    # A lab leaves broken links, and a test run leaves a link to the checkout.
    (checkout / ".lab" / "dangling").symlink_to("/nonexistent")
    (checkout / ".cache" / "ansible_collections").symlink_to(checkout)
    subprocess.run(
        [
            os.path.join(os.path.dirname(sys.executable), "ansible-galaxy"),
            "collection",
            "build",
            str(checkout),
            "--output-path",
            str(base),
        ],
        check=True,
        capture_output=True,
    )
    return next(base.glob("drover-compute-*.tar.gz"))


@pytest.fixture(scope="module")
def members(archive):
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def test_archive_has_only_known_names_at_the_top(members):
    assert {name.split("/")[0] for name in members} <= TOP


def test_archive_has_no_litter(members):
    assert not members & set(LITTER)


def test_archive_is_small_and_has_nothing_for_developers_only(archive, members):
    assert archive.stat().st_size < 2 * 2**20
    assert not [
        name
        for name in members
        if name.startswith(("changelogs/fragments", "docs/docsite/site", "tests"))
    ]


def test_archive_has_what_a_user_needs(members):
    expected = {
        "README.md",
        "CHANGELOG.rst",
        "COPYING",
        "requirements.txt",
        "requirements-solver.txt",
        "meta/runtime.yml",
    }
    for folder in ("extensions", "inventory", "playbooks", "plugins", "roles"):
        expected |= {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file()
            and path.suffix in (".py", ".yml", ".j2", ".css", ".js", ".md", ".ini")
            and not any(
                part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts
            )
        }
    assert not expected - members


def test_execution_environment_names_files_that_exist(members):
    dependencies = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())[
        "dependencies"
    ]
    assert set(dependencies.values()) <= members


def test_every_ansible_core_that_is_allowed_is_tested():
    script = (ROOT / "tests" / "setup" / "core-versions.sh").read_text()
    versions = re.search(r'^SUPPORTED="([\d. ]+)"$', script, re.MULTILINE).group(1).split()
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert runtime["requires_ansible"] == f">={versions[0]}.0"
    releases = (ROOT / "tests" / "setup" / "core-environment.sh").read_text()
    pythons = dict(
        re.findall(r'^ +(2\.\d+)\) pythons="(\S+) \S+" release=2', releases, re.MULTILINE)
    )
    assert list(pythons) == versions
    older = [version for version, first in pythons.items() if first in ("3.10", "3.11")]
    newer = versions[len(older) :]
    pins = (ROOT / "tests" / "setup" / "constraints.txt").read_text()
    release = re.search(rf"release=({re.escape(versions[-1])}\.\d+)", releases).group(1)
    assert f'ansible-core=={release}; python_version >= "3.12"' in pins
    for page in ("README.md", "docs/support.md", "docs/install.md", "docs/dependencies.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert (
            f"{', '.join(older[:-1])} and {older[-1]} with Python 3.11" in text
            and f"{' and '.join(newer)} with Python 3.13" in text
        ), page
    for path in (ROOT / "roles").glob("*/meta/main.yml"):
        assert (
            yaml.safe_load(path.read_text())["galaxy_info"]["min_ansible_version"] == versions[0]
        ), path
