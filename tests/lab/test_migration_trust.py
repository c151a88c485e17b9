# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.migration_trust: hosts do not know each other's SSH before its run, like new
hosts."""

from __future__ import annotations

import re

import pytest
from test_fleet import Domain, changed, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: The key of the controller is still accepted. An administrator's lines stay, in a file without a
#: final end of line.
STRANGERS = """set -e
mkdir -p /root/kept && cp -a /root/.ssh /etc/ssh/ssh_known_hosts /root/kept/
rm -f /root/.ssh/id_* /root/.ssh/known_hosts /etc/ssh/ssh_known_hosts
{ echo '# by hand'; cat /root/.ssh/authorized_keys; } > /root/authorized && truncate -s -1 /root/authorized
cat /root/authorized > /root/.ssh/authorized_keys && grep -q drover /root/.ssh/authorized_keys"""
BACK = """[ -d /root/kept ] || exit 0
rm -rf /root/.ssh && cp -a /root/kept/.ssh /root/.ssh && cp -a /root/kept/ssh_known_hosts /etc/ssh/ && rm -rf /root/kept"""
FILES = (
    "cd /root/.ssh && cat authorized_keys known_hosts id_ed25519 id_ed25519.pub 2>/dev/null |"
    " sha256sum; ls -nd --time-style=full-iso . *"
)


@pytest.fixture
def strangers(fleet):
    """Return a fleet with hosts that do not know each other's SSH."""
    fleet.everywhere(STRANGERS)
    yield fleet
    fleet.everywhere(BACK)


def test_from_strangers_to_a_live_migration(strangers):
    fleet = strangers
    fleet.make("kvm1", Domain("web"))
    seen = said(fleet.playbook("discover"))
    for host, others in {"kvm1": "kvm2, kvm3", "kvm2": "kvm3, kvm1", "kvm3": "kvm1, kvm2"}.items():
        assert (
            f"{host} cannot reach {others}: no SSH key. Migrations from {host} to there will be"
            " refused; run the playbook" in seen
        ), seen

    # Check mode changes nothing and shows the differences.
    before = fleet.everywhere(FILES)
    done = fleet.playbook("migration_trust", "--check", "--diff")
    assert changed(done) > 0 and fleet.everywhere(FILES) == before
    assert "kvm1 cannot reach kvm2, kvm3: host key unknown or changed." in said(
        done
    ) and "an SSH key that would be made" in said(done)

    done = fleet.playbook("migration_trust", "--diff")
    assert "6 connections were tried as a migration makes them, and all work." in said(done)
    assert "PRIVATE KEY" not in done.stdout
    files = fleet.everywhere(FILES)
    assert len({each.split()[0] for each in files.values()}) == 3, "each host has a key of its own"
    for host, text in files.items():
        modes = {
            name: mode for mode, name in re.findall(r"^([-d]\S+) .* (\S+)$", text, re.MULTILINE)
        }
        assert (modes["."], modes["id_ed25519"], modes["authorized_keys"]) == (
            "drwx------",
            "-rw-------",
            "-rw-------",
        ), text
        lines = fleet.run(host, "cat /root/.ssh/authorized_keys").splitlines()
        assert (
            lines[0] == "# by hand"
            and len(lines) == 4
            and all(line.startswith("restrict ssh-ed25519 ") for line in lines[2:])
        )

    # A second run changes nothing.
    assert changed(fleet.playbook("migration_trust")) == 0 and fleet.everywhere(FILES) == files
    assert changed(fleet.playbook("migration_trust", "--check")) == 0
    assert "cannot reach" not in said(fleet.playbook("discover"))

    fleet.drain("kvm1")
    ((host, state),) = fleet.settled().values()
    assert host != "kvm1" and state == "running"

    # The others forget a host that lost its keys; discovery and the check find that.
    fleet.run("kvm2", "sed -i '/kvm3/d' /root/.ssh/known_hosts")
    assert "kvm2 cannot reach kvm3: host key unknown. Migrations from kvm2 to there" in said(
        fleet.playbook("discover")
    )
    fleet.run("kvm3", "sed -i '/migration_trust:kvm1$/d' /root/.ssh/authorized_keys")
    found = said(fleet.playbook("migration_trust", "--check"))
    assert "kvm1 cannot reach kvm3: its SSH refuses the key of root." in found
    assert "kvm2 cannot reach kvm3: host key unknown or changed." in found
    assert (
        changed(fleet.playbook("migration_trust")) == 2
        and fleet.everywhere(FILES).keys() == files.keys()
    )

    # Remove the lines of one host, then of all. An administrator's lines and the keys are still
    # there.
    fleet.playbook(
        "migration_trust", "-e", "drover_migration_trust_state=absent", "-e", "drover_host=kvm3"
    )
    assert "kvm3" not in fleet.run("kvm1", "cat /root/.ssh/authorized_keys /root/.ssh/known_hosts")
    fleet.playbook("migration_trust", "-e", "drover_migration_trust_state=absent")
    for host in fleet.hosts:
        assert fleet.run(
            host,
            "wc -l < /root/.ssh/authorized_keys; cat /root/.ssh/known_hosts; ls"
            " /root/.ssh/id_ed25519",
        ).split() == [
            "2",
            "/root/.ssh/id_ed25519",
        ]


def test_keys_that_are_accepted_from_one_address_alone(strangers):
    """A migration works with the option from=, and the key does not work from another host."""
    fleet = strangers
    addresses = {name: fleet.run(name, "hostname -I").split()[0] for name in fleet.hosts}
    expression = (
        "{{ {"
        + ", ".join(f"'{name}': '{address}'" for name, address in addresses.items())
        + "}[inventory_hostname] }}"
    )
    (fleet.folder / "sources.yml").write_text(
        f'drover_migration_source: "{expression}"\n', encoding="utf-8"
    )
    fleet.playbook("migration_trust", "-e", f"@{fleet.folder}/sources.yml")
    assert f'restrict,from="{addresses["kvm1"]}" ssh-ed25519' in fleet.run(
        "kvm2", "cat /root/.ssh/authorized_keys"
    )
    fleet.make("kvm1", Domain("web"))
    fleet.playbook("discover")
    fleet.drain("kvm1")
    ((host, state),) = fleet.settled().values()
    assert host != "kvm1" and state == "running"
    stolen = fleet.run("kvm1", "cat /root/.ssh/id_ed25519")
    fleet.run("kvm3", f"umask 77; cat > /root/stolen <<'END'\n{stolen}\nEND")
    try:
        refused = fleet.lab.host("kvm3").run(
            "ssh -o BatchMode=yes -o IdentitiesOnly=yes -i /root/stolen root@kvm2 true || exit 1"
        )
    finally:
        fleet.run("kvm3", "rm /root/stolen")
    assert refused.rc == 1 and "Permission denied" in refused.stderr
    # The account gives no terminal.
    assert (
        "PTY allocation request failed"
        in fleet.lab.host("kvm1")
        .run("ssh -o BatchMode=yes -tt root@kvm2 tty < /dev/null || exit 1")
        .stderr
    )


def test_a_host_that_is_down_keeps_its_trust(strangers):
    fleet = strangers
    fleet.playbook("migration_trust")
    lines = fleet.run("kvm1", "cat /root/.ssh/authorized_keys /root/.ssh/known_hosts")
    fleet.lab.command("kill", "kvm3")
    try:
        done = fleet.playbook("migration_trust", check=False)
        assert (
            done.returncode == 4
            and "2 connections were tried as a migration makes them, and all work." in said(done)
        ), done.stdout
        assert (
            fleet.run("kvm1", "cat /root/.ssh/authorized_keys /root/.ssh/known_hosts") == lines
            and "kvm3" in lines
        )
    finally:
        fleet.lab.command("start", "kvm3")
