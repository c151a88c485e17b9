# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demands of the Ansible community package on a collection, one test for each demand.

The demands come from "Ansible community package collections requirements" and its checklist
(docs.ansible.com, 2024). Other tests have the rest: test_documentation.py (DOCUMENTATION, EXAMPLES,
RETURN, FQCNs), test_packaging.py (the archive, the supported versions of ansible-core),
tests/setup/lint.sh (sanity, galaxy-importer, antsibull), awx/test_execution_environment.py.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._common import errors
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.awx import fake_awx
from ansible_collections.drover.compute.tests.unit.store import fleets

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
CHANGELOG = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text())
FRAGMENTS = sorted((ROOT / "changelogs" / "fragments").glob("*.yml"))
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
ROLES = sorted(path.parents[1] for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"))
VERSION = re.compile(r"^\d+\.\d+\.\d+$")
# The oldest Python of a host for each ansible-core that is supported, from its support matrix.
OLDEST_TARGET = {"2.17": 7, "2.18": 8, "2.19": 8, "2.20": 9}
# The public files below plugin_utils: the base of a user's filters and weighers.
PUBLIC_UTILS = {"scheduler.py", "__init__.py"}


@functools.cache
def documentation(path):
    """Return the DOCUMENTATION of a module or plugin, and its RETURN."""
    text = path.read_text()
    if path.suffix == ".yml":
        parts = yaml.safe_load(text)
        return parts["DOCUMENTATION"], parts.get("RETURN") or {}
    blocks = dict(
        re.findall(r'^(DOCUMENTATION|RETURN) = r?"""(.*?)^"""', text, re.MULTILINE | re.DOTALL)
    )
    return yaml.safe_load(blocks["DOCUMENTATION"]), yaml.safe_load(blocks.get("RETURN", "{}")) or {}


def documented(*folders):
    """Return each file below plugins/ that has documentation, by its path."""
    paths = [
        path
        for folder in folders
        for path in sorted((ROOT / "plugins" / folder).glob("*"))
        if path.suffix in (".py", ".yml")
    ]
    return [path for path in paths if "DOCUMENTATION" in path.read_text()]


MODULES = documented("modules")
PUBLIC_MODULES = [path for path in MODULES if not path.stem.startswith("_")]
INFO_MODULES = [path for path in PUBLIC_MODULES if path.stem.endswith("_info")]
PLUGINS = documented("modules", "lookup", "filter", "inventory")


def name_of(path):
    return f"{path.parent.name}-{path.stem}"


def released():
    """Return every version with content that users may have, the next one too."""
    return {GALAXY["version"], *CHANGELOG["releases"]}


# --- README and the other files that people read --------------------------------------------------


def test_readme_says_where_to_talk():
    section = README.partition("\n## Communication\n")[2].partition("\n## ")[0]
    assert "https://forum.ansible.com/c/help/6" in section, "the forum's category Get Help"
    assert "tag `drover-compute`" in section, "the tag to use there"
    assert GALAXY["issues"] in section


def test_readme_names_code_of_conduct_versioning_and_licence():
    assert "[Code of Conduct](CODE_OF_CONDUCT.md)" in README
    assert (
        "https://docs.ansible.com/ansible/latest/community/code_of_conduct.html"
        in (ROOT / "CODE_OF_CONDUCT.md").read_text()
    )
    assert "[semantic versioning](https://semver.org/)" in README
    assert "GPL-3.0-or-later" in README


def test_readme_says_which_versions_are_supported_and_which_not():
    oldest = (
        yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["requires_ansible"]
        .removeprefix(">=")
        .removesuffix(".0")
    )
    assert f"ansible-core {oldest} and later" in README
    least_minor = int(
        yaml.safe_load((ROOT / "tests" / "config.yml").read_text())["modules"][
            "python_requires"
        ].removeprefix(">=3.")
    )
    assert f"Python 3.{least_minor} or later" in README
    # Pythons that a supported ansible-core still reaches on hosts, but that cannot run the modules.
    refused = sorted(
        {f"3.{minor}" for first in OLDEST_TARGET.values() for minor in range(first, least_minor)}
    )
    assert f"Not supported: hosts with Python {' or '.join(refused)}" in README
    for path in PUBLIC_MODULES:
        if "AnsibleModule(" in path.read_text():
            assert (
                "drover.compute.libvirt" in documentation(path)[0]["extends_documentation_fragment"]
            ), f"{path.name} has no word on Python"
    assert (
        f"Python 3.{least_minor} or later"
        in (ROOT / "plugins" / "doc_fragments" / "libvirt.py").read_text()
    )


def test_contributing_says_what_is_accepted():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert GALAXY["issues"] in text and "pull request" in text and "CODE_OF_CONDUCT.md" in text


def test_policy_of_releases_and_deprecation_is_told():
    assert "[Releases](docs/releases.md)" in README
    text = (ROOT / "docs" / "releases.md").read_text()
    assert "\n## Deprecation\n" in text and "https://semver.org/" in text


def test_site_has_guides_and_where_to_talk():
    folder = ROOT / "docs" / "docsite"
    for section in yaml.safe_load((folder / "extra-docs.yml").read_text())["sections"]:
        assert all((folder / "rst" / f"{page}.rst").is_file() for page in section["toctree"])
    links = yaml.safe_load((folder / "links.yml").read_text())
    assert [each["url"] for each in links["communication"]["forums"]] == [
        "https://forum.ansible.com/tag/drover-compute"
    ]
    assert f"https://github.com/{links['edit_on_github']['repository']}" == GALAXY["repository"]


# --- metadata -------------------------------------------------------------------------------------


def test_galaxy_yml_has_what_galaxy_wants():
    assert 0 < len(GALAXY["tags"]) <= 20 and all(
        re.match("^[a-z0-9]+$", tag) for tag in GALAXY["tags"]
    )
    assert VERSION.match(GALAXY["version"])
    assert GALAXY["license"] == ["GPL-3.0-or-later"]
    # "Full name <address> (URL) @handle", each part optional except the name.
    assert all(
        re.match(r"^[^<(@]+( <\S+@\S+>)?( \(https://\S+\))?( @[\w-]+)?$", author)
        for author in GALAXY["authors"]
    )
    for key in ("repository", "issues", "homepage", "documentation"):
        assert GALAXY[key].startswith("https://"), key


def test_every_dependency_has_a_lower_bound_of_a_stable_release():
    for name, wanted in GALAXY["dependencies"].items():
        assert re.match(r"^>=[1-9]\d*\.\d+\.\d+(,|$)", wanted), f"{name}: {wanted}"


def test_no_folder_of_plugins_that_ansible_does_not_know():
    folders = {
        "action",
        "doc_fragments",
        "filter",
        "inventory",
        "lookup",
        "module_utils",
        "modules",
        "plugin_utils",
    }
    assert {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir()} - {
        "__pycache__"
    } <= folders


def test_utilities_of_our_own_begin_with_an_underscore_and_say_so():
    for folder in ("module_utils", "plugin_utils"):
        names = {
            path.name
            for path in (ROOT / "plugins" / folder).iterdir()
            if path.name != "__pycache__"
        }
        assert {name for name in names if not name.startswith("_")} <= PUBLIC_UTILS
    assert (
        "Python code below `plugins/plugin_utils` and `plugins/module_utils`"
        in (ROOT / "docs" / "releases.md").read_text()
    )


def test_everything_is_under_the_licence():
    assert (ROOT / "LICENSES" / "GPL-3.0-or-later.txt").read_text() == (
        ROOT / "COPYING"
    ).read_text()
    files = [
        path
        for folder in ("plugins", "roles", "playbooks", "meta")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    ]
    files = [path for path in files if path.suffix in (".py", ".yml") and path.stat().st_size]
    assert len(files) > 500
    words = "SPDX-License-" + "Identifier: GPL-3.0-or-later"
    assert [str(path) for path in files if words not in path.read_text()] == []


def test_each_file_has_a_header_or_a_line_of_reuse_toml():
    """``reuse lint`` finds the same, and more."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("this is no git checkout")
    patterns = re.findall(r'^  "(.+)",$', (ROOT / "REUSE.toml").read_text(encoding="utf-8"), re.M)
    matches = [
        re.compile(
            re.escape(each)
            .replace(r"\*\*/", "(.*/)?")
            .replace(r"\*\*", ".*")
            .replace(r"\*", "[^/]*")
        )
        for each in patterns
    ]
    header = ("Copyright (c) ", "SPDX-License-" + "Identifier: GPL-3.0-or-later")
    without = [
        name
        for name in listed
        if (ROOT / name).is_file()
        and not name.startswith(("LICENSES/", "COPYING"))
        and not any(each.fullmatch(name) for each in matches)
        and not all(words in (ROOT / name).read_text(encoding="utf-8")[:2000] for words in header)
    ]
    assert without == []


def test_no_sanity_test_is_ignored():
    assert list((ROOT / "tests").rglob("ignore*.txt")) == []


# --- modules and plugins --------------------------------------------------------------------------


@pytest.mark.parametrize("path", PUBLIC_MODULES, ids=name_of)
def test_modules_that_only_read_are_named_info(path):
    document = documentation(path)[0]
    reads_only = (
        "drover.compute.attributes.info_module" in document["extends_documentation_fragment"]
    )
    assert reads_only == path.stem.endswith("_info")


@pytest.mark.parametrize("path", INFO_MODULES, ids=name_of)
def test_info_modules_only_read(path):
    action = ROOT / "plugins" / "action" / path.name
    source = (action if action.exists() else path).read_text()
    assert not re.search(r"\.(write|upgrade|execute_module)\(", source)


# States that a task brings about. A state that only shows something is an _info module instead.
BROUGHT_ABOUT = {
    "absent",
    "claimed",
    "confirmed",
    "disabled",
    "draining",
    "enabled",
    "exported",
    "healed",
    "imported",
    "judged",
    "maintenance",
    "moved",
    "next",
    "present",
    "rebooted",
    "released",
    "renamed",
    "replaced",
    "reshaped",
    "resized",
    "restarted",
    "restored",
    "reverted",
    "running",
    "stopped",
    "swapped",
    "swapped_back",
}


@pytest.mark.parametrize("path", PUBLIC_MODULES, ids=name_of)
def test_no_state_is_a_question(path):
    if path not in INFO_MODULES:
        assert (
            set((documentation(path)[0].get("options", {}).get("state") or {}).get("choices") or ())
            <= BROUGHT_ABOUT
        )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_name_fragments_in_full_and_say_what_check_mode_does(path):
    fragments = documentation(path)[0]["extends_documentation_fragment"]
    assert (
        all(each.startswith("drover.compute.") for each in fragments)
        and "drover.compute.attributes" in fragments
    )


def versions_in(value):
    """Yield each version_added within a piece of documentation."""
    if isinstance(value, dict):
        if isinstance(value.get("version_added"), str):
            yield value["version_added"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from versions_in(each)


@pytest.mark.parametrize("path", PLUGINS, ids=name_of)
def test_version_added_is_a_release_of_the_collection(path):
    versions = set(versions_in(list(documentation(path))))
    if path.stem.startswith("_"):
        assert versions == set(), "private: no release promises it"
    else:
        assert "version_added" in documentation(path)[0] and versions <= released()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_version_added_of_a_role_is_a_release_of_the_collection(role):
    entries = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    assert all("version_added" in entry for entry in entries.values())
    assert set(versions_in(entries)) <= released()


# --- the changelog --------------------------------------------------------------------------------


def number(version):
    return tuple(int(part) for part in version.split("."))


def test_galaxy_yml_has_the_version_of_the_newest_release_or_the_next_one():
    assert all(number(each) <= number(GALAXY["version"]) for each in CHANGELOG["releases"])
    assert ("There is no release yet" in (ROOT / "CHANGELOG.rst").read_text()) == (
        not CHANGELOG["releases"]
    )


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_fragments_have_no_macros_of_plugins(path):
    """The fragments become RST, which would show C(x) unchanged."""
    assert re.findall(r"\b(?:[A-Z]|RV|EV|HO)\([^)]*\)", path.read_text()) == []


def test_every_playbook_is_in_the_changelog():
    """Modules, plugins and roles are found by their version_added; playbooks have none."""
    listed = [
        each["name"]
        for release in CHANGELOG["releases"].values()
        for each in (release.get("objects") or {}).get("playbook", [])
    ]
    for path in FRAGMENTS:
        listed += [
            each["name"] for each in yaml.safe_load(path.read_text()).get("add object.playbook", [])
        ]
    assert sorted(listed) == PLAYBOOKS


def test_the_releases_list_what_they_have_added():
    """A plugin or role with the version_added of a release is in the section of a release."""
    listed = {
        kind: [
            each["name"]
            for release in CHANGELOG["releases"].values()
            for each in of_kind(release).get(kind, [])
        ]
        for kind in ("module", "lookup", "filter", "inventory", "role")
    }
    added = {
        kind: [
            path.stem
            for path in documented("modules" if kind == "module" else kind)
            if not path.stem.startswith("_")
            and documentation(path)[0]["version_added"] in CHANGELOG["releases"]
        ]
        for kind in ("module", "lookup", "filter", "inventory")
    }
    added["role"] = [
        role.name
        for role in ROLES
        if set(versions_in(yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())))
        & set(CHANGELOG["releases"])
    ]
    assert {kind: sorted(names) for kind, names in listed.items()} == {
        kind: sorted(names) for kind, names in added.items()
    }


def of_kind(release):
    """Return the new plugins and objects of a release: {kind: items}."""
    return {
        "module": release.get("modules") or [],
        **(release.get("plugins") or {}),
        **(release.get("objects") or {}),
    }


# --- only meta, plugins, roles and playbooks are needed -------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a folder of collections with ours as an archive has it, reduced to those four
    folders.
    """
    base = tmp_path_factory.mktemp("bare")
    galaxy = os.path.join(os.path.dirname(sys.executable), "ansible-galaxy")
    words = [galaxy, "collection", "build", str(ROOT), "--output-path", str(base)]
    subprocess.run(words, check=True, capture_output=True)
    collection = base / "ansible_collections" / "drover" / "compute"
    collection.mkdir(parents=True)
    subprocess.run(
        [
            "tar",
            "--extract",
            "--gzip",
            "--file",
            str(next(base.glob("*.tar.gz"))),
            "--directory",
            str(collection),
        ],
        check=True,
    )
    for path in collection.iterdir():
        if path.name not in ("meta", "plugins", "roles", "playbooks"):
            (shutil.rmtree if path.is_dir() else os.remove)(path)
    assert sorted(path.name for path in collection.iterdir()) == [
        "meta",
        "playbooks",
        "plugins",
        "roles",
    ]
    return base


@pytest.fixture
def fleet_url(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.open(url).upgrade()
    fleets.discover(url, fleets.host("kvm1", fleets.domain("web")), fleets.host("kvm2"))
    return url


def named(*names):
    return [f"drover.compute.{name}" for name in names]


def play(folder, bare, *words, **more):
    """Run ansible-playbook with the bare collection and no other one of ours; return (exit code,
    output)."""
    (folder / "ansible.cfg").write_text(
        "[defaults]\nlocalhost_warning = false\ninventory_unparsed_warning = false\n"
    )
    return ansible(
        folder, "playbook", *words, environment={"ANSIBLE_COLLECTIONS_PATH": str(bare), **more}
    )


def test_bare_every_playbook_can_be_read(bare, tmp_path):
    code, output = play(tmp_path, bare, "--syntax-check", "-i", "kvm1,", *named(*PLAYBOOKS))
    assert code == 0, output
    assert output.count(f"playbook: {bare}/ansible_collections/drover/compute/playbooks/") == len(
        PLAYBOOKS
    ), output


def test_bare_the_playbooks_that_need_no_hypervisor_run(bare, tmp_path, fleet_url):
    size = ["-e", "drover_vcpus=1", "-e", "drover_memory_mb=64"]
    of_each = {
        "hosts": [],
        "instances": [],
        "instance_show": ["-e", "drover_instance=web"],
        "schedule": size,
        "capacity": size,
        "rebalance": [],
        "report": ["-e", f"drover_report={tmp_path / 'fleet.html'}"],
        "audit": [],
        "host_disable": ["-e", "drover_host=kvm1"],
        "host_enable": ["-e", "drover_host=kvm1"],
    }
    for name, words in of_each.items():
        code, output = play(
            tmp_path, bare, "-e", f"drover_store_url={fleet_url}", *words, *named(name)
        )
        assert code == 0 and "failed=0" in output, output
    assert (tmp_path / "fleet.html").stat().st_size > 10_000


def test_bare_a_hypervisor_is_read(bare, tmp_path):
    """The modules for hypervisors run on libvirt's own driver for tests."""
    code, output = play(
        tmp_path,
        bare,
        "-i",
        str(ROOT / "inventory" / "test-driver.yml"),
        *named("discover"),
        "-e",
        f"drover_store_url=sqlite:///{tmp_path}/x.db",
    )
    assert code == 0 and "HOST" in output and "failed=0" in output, output


@pytest.mark.long
def test_bare_awx_is_set_up(bare, tmp_path):
    with fake_awx.running("hypervisors") as awx:
        code, output = play(
            tmp_path,
            bare,
            *named("awx_setup"),
            "-e",
            "drover_awx_store_url=postgresql://drover@db.example.com/drover",
            "-e",
            "drover_awx_image=registry.example.com/drover-ee:1",
            "-e",
            '{"drover_awx_hypervisors": {"kvm1": {}}, "drover_awx_credentials": ["hypervisors"]}',
            CONTROLLER_HOST=awx.url,
            CONTROLLER_OAUTH_TOKEN="token",
        )
        assert code == 0, output
        assert len(awx.objects["job_templates"]) > 20


def test_bare_a_missing_package_is_named_without_a_file_that_is_not_there(bare):
    code = f"from {errors.__name__} import require; require('numpy', None)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=bare,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(bare)},
    )
    assert done.stderr.splitlines()[-1].endswith("-m pip install numpy"), done.stderr


# --- CI -------------------------------------------------------------------------------------------


def test_ci_runs_each_version_for_each_change_and_each_week():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    # YAML 1.1 reads the key "on" as true.
    when = workflow[True]
    assert "pull_request" in when and re.match(r"^\d+ \d+ \* \* \d$", when["schedule"][0]["cron"])
    tested = re.search(
        r'^SUPPORTED="(.+)"$',
        (ROOT / "tests" / "setup" / "core-versions.sh").read_text(),
        re.MULTILINE,
    )
    versions = set(tested.group(1).split())
    assert {f"stable-{each}" for each in versions} | {"devel"} <= set(
        workflow["jobs"]["sanity"]["strategy"]["matrix"]["ansible-core"]
    )
    assert {
        each["ansible-core"] for each in workflow["jobs"]["unit"]["strategy"]["matrix"]["include"]
    } == versions
    # CI runs only targets that every developer can run.
    targets = re.findall(r"\bmake ([\w-]+)", str(workflow))
    makefile = (ROOT / "Makefile").read_text()
    assert targets and all(f"\n{target}:" in makefile for target in targets)
