# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that ``lab up`` writes, as its user, before any process starts."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex

from .layout import SWITCH_ADDRESS, Host, Layout, run

#: Every host of the lab sees the whole machine. These values make the hosts look different, each
#: with room for at least eight instances of 1 vCPU and 64 MiB. (CPUs left, vCPUs per CPU, MiB of
#: memory left, availability zone), in turn.
SIZES = ((2, 4.0, 640, "a"), (1, 8.0, 512, "a"), (2, 6.0, 768, "b"))

SSH_CONFIG = """\
# Made by tests/lab/lab: `ssh -F {ssh_config} kvm1`
Host {names}
  User root
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
  ConnectTimeout 10
  ServerAliveInterval 5
  ServerAliveCountMax 4
  ProxyCommand {dial} %h
  ProxyUseFdpass yes
  ControlMaster auto
  ControlPersist 15m
  ControlPath {control_path}
"""

ANSIBLE_CFG = """\
# Made by tests/lab/lab: `ANSIBLE_CONFIG={folder}/ansible.cfg ansible-playbook drover.compute.discover`
[defaults]
home = {ansible}
local_tmp = {ansible}/tmp
inventory = {folder}/inventory.yml
collections_path = {folder}/collections
forks = 10
host_key_checking = True
callback_result_format = yaml
interpreter_python = /usr/bin/python3
retry_files_enabled = False
pipelining = True

[ssh_connection]
# The lab's ssh_config shares connections already, in a way that `lab down` can end.
ssh_args =
# The masters of a run go where a path is short enough.
control_path_dir = {run}
"""


def write_all(layout: Layout, hosts: list[Host]) -> None:
    """Make the lab's folder and its content, except for the folders of hosts."""
    for folder in (
        layout.run,
        layout.log,
        layout.keys,
        layout.ansible,
        layout.shared / "images",
        layout.shared / "instances",
    ):
        folder.mkdir(parents=True, exist_ok=True)
    layout.run.chmod(0o700)
    write_keys(layout, hosts)
    write_ssh_config(layout, hosts)
    write_inventory(layout, hosts)
    write(
        layout.folder / "ansible.cfg",
        ANSIBLE_CFG.format(folder=layout.folder, ansible=layout.ansible, run=layout.run),
    )
    image = layout.shared / "images" / "base.qcow2"
    if not image.exists():  # the lab's guests need no operating system: an empty disk is enough
        run("qemu-img", "create", "-q", "-f", "qcow2", image, "64M")
    layout.save(hosts)


def write(file: pathlib.Path, text: str) -> None:
    """Replace a file in one step, because other processes may read it."""
    new = file.with_name(file.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def write_keys(layout: Layout, hosts: list[Host]) -> None:
    host_lines = []
    for name in ["lab", *(host.name for host in hosts)]:
        if not (layout.keys / f"{name}.pub").exists():
            (layout.keys / name).unlink(missing_ok=True)
            run(
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                f"{name} of the drover lab",
                "-f",
                layout.keys / name,
            )
    for host in hosts:
        public = " ".join((layout.keys / f"{host.name}.pub").read_text("utf-8").split()[:2])
        host_lines.append(f"{','.join([host.name, *addresses(host, hosts)])} {public}\n")
    write(layout.known_hosts, "".join(host_lines))
    write(
        layout.hosts_file,
        "127.0.0.1 localhost\n"
        + "".join(
            f"{address} {host.name}\n" for host in hosts for address in addresses(host, hosts)
        )
        + f"{SWITCH_ADDRESS} switch\n",
    )


def addresses(host: Host, hosts: list[Host]) -> list[str]:
    """Return the addresses of a host's name. The IPv6 address is included only if some host has
    nothing but IPv6."""
    both = [host.address, host.address_6] if any(each.ipv6 for each in hosts) else [host.address]
    return list(dict.fromkeys(both))


def write_ssh_config(layout: Layout, hosts: list[Host]) -> None:
    control_path = layout.run / "%n-%r"
    # ssh makes the socket under a longer name first; a socket's path may have only 107 bytes.
    short_enough = len(os.fsencode(control_path)) < 80
    dial = shlex.join(
        [
            "/usr/bin/python3",
            "-ISE",
            os.fspath(pathlib.Path(__file__).with_name("dial.py")),
            os.fspath(layout.control),
        ]
    )
    write(
        layout.ssh_config,
        SSH_CONFIG.format(
            ssh_config=layout.ssh_config,
            names=" ".join(host.name for host in hosts),
            key=quoted(layout.keys / "lab"),
            known_hosts=quoted(layout.known_hosts),
            dial=dial.replace("%", "%%"),
            control_path=quoted(control_path) if short_enough else "none",
        ),
    )


def quoted(path: pathlib.Path) -> str:
    """Return a path in the form of ssh_config, which otherwise splits at blanks."""
    return f'"{path}"'


def machine_memory_mb() -> int:
    """Return the memory of the machine as libvirt reports it: the sum of its NUMA nodes, if the
    kernel has them.

    The sum is less than the real memory if memory was added after the boot.
    """
    nodes = pathlib.Path("/sys/devices/system/node").glob("node*/meminfo")
    sizes = [
        int(re.search(r"MemTotal:\s+(\d+) kB", node.read_text(encoding="ascii")).group(1))
        for node in nodes
    ]
    if sizes:
        return sum(sizes) // 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def write_inventory(layout: Layout, hosts: list[Host]) -> None:
    cpus, memory_mb = os.cpu_count() or 1, machine_memory_mb()
    members = {}
    for host in hosts:
        cpus_left, ratio, memory_left, zone = SIZES[(host.number - 1) % len(SIZES)]
        members[host.name] = {
            **({"ansible_user": host.user, "ansible_become": True} if host.sudo else {}),
            "drover_availability_zone": zone,
            "drover_reserved_host_cpus": max(0, cpus - cpus_left),
            "drover_cpu_allocation_ratio": ratio,
            "drover_reserved_host_memory_mb": max(0, memory_mb - memory_left),
            "drover_ram_allocation_ratio": 1.0,
        }
    group = {
        "hosts": members,
        "vars": {
            "ansible_user": "root",
            "ansible_ssh_common_args": f"-F {shlex.quote(os.fspath(layout.ssh_config))}",
            "ansible_python_interpreter": "/usr/bin/python3",
            "drover_cell": "lab",
            "drover_instances_path": "/srv/shared/instances",
        },
    }
    # JSON is YAML, so the lab needs no YAML library.
    text = "# Made by tests/lab/lab\n" + json.dumps({"hypervisors": group}, indent=2) + "\n"
    write(layout.folder / "inventory.yml", text)
