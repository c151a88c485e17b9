# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image for the jobs, as far as a test without a registry can make it: its build context, and
the packages installed from it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest
import yaml

from ansible_collections.drover.compute.tests.unit.awx import shipped

BUILDER = shutil.which(
    "ansible-builder",
    path=os.pathsep.join([os.path.dirname(sys.executable), str(shipped.ROOT / ".venv-lint/bin")]),
)
DEFINITION = yaml.safe_load((shipped.ROOT / "execution-environment.yml").read_text())


def lines(name):
    text_lines = [
        line.partition(";")[0].strip() for line in (shipped.ROOT / name).read_text().splitlines()
    ]
    return [line for line in text_lines if line and not line.startswith("#")]


def run(*words, **environment):
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_versions_are_those_of_the_files_that_set_them():
    galaxy = yaml.safe_load((shipped.ROOT / "galaxy.yml").read_text())
    ours, *others = DEFINITION["dependencies"]["galaxy"]["collections"]
    assert ours == {
        "name": f"collections/drover-compute-{galaxy['version']}.tar.gz",
        "type": "file",
    }
    assert {each["name"]: each["version"] for each in others} == galaxy["dependencies"]
    tested = lines("requirements-dev.txt") + lines("requirements-solver.txt")
    dependencies = DEFINITION["dependencies"]
    assert {
        *dependencies["python"],
        dependencies["ansible_core"]["package_pip"],
        dependencies["ansible_runner"]["package_pip"],
    } <= set(tested)


@pytest.mark.skipif(
    BUILDER is None,
    reason="ansible-builder is in .venv-lint, which tests/setup/setup.sh lint makes",
)
def test_image_gets_the_collections_and_their_packages(tmp_path, collections):
    (archive,) = collections.glob("drover-compute-*.tar.gz")
    (tmp_path / "build").mkdir()
    shutil.copy(archive, tmp_path / "build")
    shutil.copy(shipped.ROOT / "execution-environment.yml", tmp_path)
    context = tmp_path / "context"
    run(
        BUILDER,
        "create",
        "--file",
        tmp_path / "execution-environment.yml",
        "--context",
        context,
        "--output-filename",
        "Containerfile",
    )
    # The image is made like this, with community.general in place of Galaxy.
    target = tmp_path / "there" / "ansible_collections"
    target.mkdir(parents=True)
    (target / "community").symlink_to(
        pathlib.Path(sysconfig.get_path("purelib")) / "ansible_collections" / "community"
    )
    galaxy = pathlib.Path(sys.executable).parent / "ansible-galaxy"
    installed = tmp_path / "installed"
    subprocess.run(
        [galaxy, "collection", "install", "-r", "requirements.yml", "--offline", "-p", installed],
        cwd=context / "_build",
        check=True,
        capture_output=True,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(target.parent), "HOME": str(tmp_path)},
    )
    assert (installed / "ansible_collections/drover/compute/MANIFEST.json").is_file()
    # ansible-builder adds the requirements of the collections in the image to the definition's.
    run(
        BUILDER,
        "introspect",
        installed,
        "--write-pip",
        tmp_path / "pip.txt",
        "--write-bindep",
        tmp_path / "bindep.txt",
    )
    packages = [
        line.partition("#")[0].strip() for line in (tmp_path / "pip.txt").read_text().splitlines()
    ]
    assert set(lines("requirements.txt")) <= {line for line in packages if line}
    assert "openssh-clients" in (tmp_path / "bindep.txt").read_text()
    assert {"pyghmi>=1.6,<2", "highspy>=1.11,<2"} <= set(
        (context / "_build" / "requirements.txt").read_text().split()
    )
