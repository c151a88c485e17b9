# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands, data and links of README, CONTRIBUTING, docs and the guides are true.

LEVELS gives the check of each command: RUN on a store with a small fleet, SYNTAX if it needs
hypervisors (tests/lab tests its effect there; tests/lab/test_guides.py runs the commands of the
guides one after the other), GUIDED if only that file checks it, EXISTS for targets of make and
files of tests, and SHOWN, with the reason, for commands of other programs. A command without a
level fails the test.
"""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex

import pytest
import yaml
from ansible.parsing.splitter import parse_kv

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import known_variables
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check
from ansible_collections.drover.compute.tests.pages import definitions
from ansible_collections.drover.compute.tests.unit import examples, pages

ROOT = examples.ROOT
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CODE_OF_CONDUCT.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
RUN, SYNTAX, GUIDED, EXISTS, SHOWN = "run", "syntax", "guided", "exists", "shown"
# The first match counts.
LEVELS = (
    (r"ansible-playbook .*drover\.compute\.(hosts|audit|capacity|schedule|instances)\b", RUN),
    (r"ansible-playbook .*drover\.compute\.report($| .*plan_drain)", RUN),
    (r"ansible-playbook .*drover\.compute\.rebalance\b(?!.*(apply|plan_file|store_url))", RUN),
    (
        r"ansible-playbook image\.yml$",
        SHOWN,
    ),  # the reader's play; checked with the files of the page
    (r"ansible-playbook ", SYNTAX),
    (r"ansible localhost -m drover\.compute\.lease\b", RUN),
    (r"ansible localhost -m drover\.compute\.store\b(?!.*(path=/|store_url))", RUN),
    (r"ansible -i inventory\.yml localhost ", RUN),
    (r"ansible \S+ -m ansible\.builtin\.", GUIDED),
    (r"ansible-inventory ", SHOWN),  # tests/unit/inventory has many
    (r"ansible(-doc)? ", SYNTAX),
    (r"ansible-rulebook ", SHOWN),  # tests/unit/events and tests/lab/test_self_healing.py
    (r"make ", EXISTS),
    (
        r"(\.venv/bin/(pytest|python)|tests/setup/lint\.sh|tests/benchmarks/\S+|python tests/\S+|"
        r"tests/lab/\S+|DROVER_LAB_RELEASE=\S+ \.venv/bin/pytest)",
        EXISTS,
    ),
    (
        r"(cp -r|ansible-builder|ansible-galaxy collection build) ",
        SHOWN,
    ),  # tests/unit has tests of the project and of the image for AWX
    (r"git (clone|diff) ", SHOWN),  # git's
    (
        r"(ansible-galaxy collection (install|build|download)|pip (install|download)) ",
        SHOWN,
    ),  # from the network; test_packaging installs
    (r"(systemctl|loginctl|ssh) ", SHOWN),  # systemd's, OpenSSH's
    (
        r"(createuser|createdb|export|\.|python3 -m venv|virsh|rbd) ",
        SHOWN,
    ),  # PostgreSQL's, the shell's, Python's, libvirt's, Ceph's
)

# Collections of others that are not on this machine: plays that use them are only parsed.
ELSEWHERE = ("infra.aap_configuration.", "community.libvirt.")


FOUND = sorted(
    {(page.name, command) for page in PAGES for command in pages.commands(page.read_text())}
)


def level(command):
    for pattern, found in LEVELS:
        if re.match(pattern, command):
            return found
    return pytest.fail(
        f"nothing is known of the command {command!r}: give it a level in LEVELS", pytrace=False
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a folder with the files that the pages name, and the URL of a store with a small
    fleet."""
    folder = tmp_path_factory.mktemp("pages")
    examples.inventory(folder)
    (folder / "policy.yml").write_text(
        pages.files((ROOT / "docs" / "scheduler.md").read_text())["policy.yml"]
    )
    (folder / "host_filters").mkdir()
    (folder / "host_filters" / "even_host_filter.py").write_text(
        re.search(
            r"```python\n(# host_filters/even_host_filter.py\n.*?)```",
            (ROOT / "docs" / "scheduler.md").read_text(),
            re.S,
        ).group(1)
    )
    (folder / "update.yml").write_text("[]\n")
    url = f"sqlite:///{folder / 'store.db'}"
    examples.fill(url)
    flavor = "name=small vcpus=1 memory_mb=512 disk_gb=5"
    examples.command(
        folder, "ansible", "localhost", "-m", "drover.compute.flavor", "-a", flavor, url=url
    )
    return folder, url


def test_every_command_has_a_level():
    assert FOUND and all(level(command) for dummy, command in FOUND)


def test_what_only_the_lab_looks_at_is_in_a_guide():
    guided = {name for name, command in FOUND if level(command) == GUIDED}
    assert guided and guided <= {page.name for page in pages.GUIDES}


@pytest.mark.long
@pytest.mark.parametrize(
    "command", sorted({command for dummy, command in FOUND if level(command) == RUN})
)
def test_it_runs(prepared, command):
    folder, url = prepared
    words = shlex.split(command)
    if "-i" not in words:
        words[1:1] = ["-i", "inventory.yml"]
    if "state=imported" in command:
        (folder / "copy.db").unlink(missing_ok=True)
        url = f"sqlite:///{folder / 'copy.db'}"
        examples.command(
            folder,
            "ansible",
            "localhost",
            "-m",
            "drover.compute.store",
            "-a",
            "state=exported path=drover.sqlite",
            url=prepared[1],
        )
    done = examples.command(folder, *words, url=url)
    assert done.returncode == 0, done.stdout


def test_a_file_is_looked_for_where_the_command_is_given(prepared):
    """The page is not beside the collection's playbook."""
    folder, url = prepared
    (folder / "empty.yml").write_text("instances: []\n")
    words = (
        "ansible-playbook",
        "-i",
        "inventory.yml",
        "drover.compute.place",
        "-e",
        "drover_definitions=empty.yml",
    )
    done = examples.command(folder, *words, url=url)
    assert done.returncode == 0, done.stdout


def test_playbooks_pass_a_syntax_check(prepared):
    """Each playbook runs once; the variables that the pages give it exist."""
    folder, url = prepared
    known_names = known_variables.KNOWN
    seen = set()
    for page, command in FOUND:
        if not command.startswith("ansible-playbook ") or level(command) == SHOWN:
            continue
        words = shlex.split(command)
        (name,) = [word for word in words[1:] if word.startswith("drover.compute.")]
        given = set(re.findall(r"(drover_\w+)(?==|\")", command))
        assert given <= known_names, f"{page}: {command}: {given - known_names}"
        seen.add(name)
    for name in sorted(seen):
        assert (ROOT / "playbooks" / f"{name.rpartition('.')[2]}.yml").is_file(), name
    done = examples.command(
        folder, "ansible-playbook", "-i", "inventory.yml", "--syntax-check", *sorted(seen), url=url
    )
    assert done.returncode == 0, done.stdout


def test_values_of_several_words_reach_ansible_whole():
    """-e name='two words' gives only the first word: Ansible needs another pair of quotes around
    them."""
    for page, command in FOUND:
        words = shlex.split(command)
        for option, value in itertools.pairwise(words):
            if option == "-e" and not value.startswith(("{", "@")):
                assert "_raw_params" not in parse_kv(value), f"{page}: {command}"


@pytest.mark.parametrize(
    "command",
    sorted({c for d, c in FOUND if level(c) == SYNTAX and not c.startswith("ansible-playbook")}),
)
def test_its_module_or_plugin_exists(command):
    names = re.findall(r"drover\.compute\.(\w+)", command)
    assert names
    for name in names:
        assert any(key[1] == name for key in examples.WHERE), name


@pytest.mark.parametrize(
    "command", sorted({command for dummy, command in FOUND if level(command) == EXISTS})
)
def test_target_or_file_exists(command):
    words = shlex.split(re.sub(r"\s#.*", "", command))
    if words[0] == "make":
        for word in words[1:]:
            if "=" not in word:
                assert re.search(rf"^{re.escape(word)}:", (ROOT / "Makefile").read_text(), re.M), (
                    word
                )
        return
    for word in words:
        if word.startswith("tests/"):
            assert (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_exist(page):
    text = re.sub(r"`_\w+`|drover_\w*\*\w*|drover_\{.*?\}\w*", "", page.read_text())
    named = set(re.findall(r"(?<![/\w.])drover_[a-z0-9_]+(?![\w*-])", text))
    # The first is a variable of rulebooks.
    others = {
        "drover_eda_uri",
        "drover_owner",
        "drover_run",
        "drover_read",
        "drover_awx",
        "drover_notice",
    }
    # Metrics have the prefix too; test_metrics.py checks the names in the dashboard and the alerts.
    others |= set(
        re.findall(
            r"drover_[a-z_]+",
            (ROOT / "docs" / "metrics.md").read_text().partition("## The figures")[2],
        )
    )
    assert {
        name for name in named if not name.endswith("_")
    } - known_variables.KNOWN - others == set()


def yaml_blocks(page):
    return re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(), re.M | re.S)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if yaml_blocks(page)], ids=lambda page: page.name
)
def test_yaml(page, tmp_path):
    """The file parses; definitions are accepted; plays pass a syntax check, and tasks pass it in a
    play."""
    plays = []
    for block in yaml_blocks(page):
        data = yaml.safe_load(block)
        assert data is not None
        if isinstance(data, dict):
            # A user's own keys in a definitions file.
            data = {key: value for key, value in data.items() if not str(key).startswith("x-")}
        if isinstance(data, dict) and "plugin" not in data and set(data) <= set(check.WORDS):
            for section, items in data.items():
                getattr(check, section)(items or [], lambda item: page.name)
        elif isinstance(data, list) and all("hosts" in item for item in data):
            plays += [play for play in data if not any(name in block for name in ELSEWHERE)]
        elif isinstance(data, list) and all(any("." in key for key in item) for item in data):
            plays.append({"name": "Tasks", "hosts": "localhost", "tasks": data})
    if plays:
        examples.write_play(tmp_path, plays)
        examples.inventory(tmp_path)
        done = examples.command(
            tmp_path, "ansible-playbook", "-i", "inventory.yml", "--syntax-check", "example.yml"
        )
        assert done.returncode == 0, done.stdout


def test_every_definitions_file_names_its_schema_for_editors():
    blocks = [
        (page.name, block)
        for page in PAGES
        for block in yaml_blocks(page)
        if block.startswith("# fleet.yml\n")
    ]
    assert len(blocks) >= 4
    assert [name for name, block in blocks if block.splitlines()[1] != definitions.COMMENT] == []
    path = definitions.URL.rpartition("/main/")[2]
    assert (ROOT / path).is_file() and not {"docs", path} & set(
        yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.suffix == ".md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, dummy, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
            assert anchor in {
                re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads
            }, target


def test_the_index_has_every_page():
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name


def test_messages_of_the_troubleshooting_are_those_of_the_code():
    """Each message exists in the product, except the messages of databases and Ansible."""
    sources = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("roles/**/*.yml")]
    code = " ".join(re.sub(r"\"\s*\n\s*f?\"", "", path.read_text()) for path in sources)
    code = " ".join(code.split())
    page = pathlib.Path(ROOT / "docs" / "troubleshooting.md").read_text()
    messages = [
        words
        for row in re.findall(r"^\| (`.*?) \|", page, re.M)
        for words in re.findall(r"`([^`]+)`", row)
    ]
    assert len(messages) >= 25
    missing = [message for message in messages if message not in code]
    assert missing == ["cannot be used: connection failed"], "psycopg's own words, and no other"
