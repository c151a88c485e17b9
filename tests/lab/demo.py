# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of ``make demo``, after the set-up of the machine and the start of the lab (see
demo.sh)."""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

from lablib.layout import CHECKOUT, Layout

HERE = pathlib.Path(__file__).parent


def heading(text: str) -> None:
    print(f"\n\033[1m== {text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def shown(path: pathlib.Path) -> str:
    """Return a path as a reader in the checkout would type it."""
    return os.path.relpath(path, CHECKOUT)


def command(*words: str) -> None:
    """Show a command and run it; if it fails, the demo fails."""
    print(f"$ {shlex.join(words)}", flush=True)
    status = subprocess.run(words, check=False).returncode
    if status:
        sys.exit(f"\ndemo: `{shlex.join(words)}` failed with exit status {status}.")


def playbook(name: str, *words: str) -> None:
    command("ansible-playbook", f"drover.compute.{name}", *words)


def placement(hosts: list[str]) -> dict[str, str]:
    """Return the host of each running instance, as the hypervisors themselves report it: {instance:
    host}."""
    running = {}
    for host in hosts:
        done = subprocess.run(
            [HERE / "lab", "exec", host, "virsh list --name"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"demo: virsh on {host} failed:\n{done.stdout}{done.stderr}")
        running.update(dict.fromkeys(done.stdout.split(), host))
    return running


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def use_ansible(config: pathlib.Path) -> None:
    os.environ["PATH"] = f"{CHECKOUT / '.venv' / 'bin'}:{os.environ['PATH']}"
    os.environ["ANSIBLE_CONFIG"] = os.fspath(config)
    os.chdir(CHECKOUT)


def with_lab(layout: Layout) -> None:
    began = time.monotonic()
    use_ansible(layout.folder / "ansible.cfg")
    hosts = [host.name for host in layout.hosts()]
    definitions = layout.folder / "demo.yml"
    if not definitions.exists():
        shutil.copy(HERE / "demo.yml", definitions)

    heading("Build the collection and install it")
    command(shown(HERE / "lab"), "install")
    heading("Discover: read every hypervisor into the store")
    playbook("discover")
    heading("The hosts")
    playbook("hosts")
    heading(f"Place the six instances that {shown(definitions)} defines")
    playbook("place", "-e", f"drover_definitions={definitions}")
    before = placement(hosts)
    host = collections.Counter(sorted(before.values())).most_common(1)[0][0]
    heading(f"Drain {host}, which has most of them: every instance moves while it runs")
    playbook("drain", "-e", f"drover_host={host}", "-e", "drover_reason=demo")
    after = placement(hosts)
    heading("The hosts again")
    playbook("hosts")
    heading(f"Undrain {host}: it takes instances again")
    playbook("undrain", "-e", f"drover_host={host}")

    heading(f"What happened (in {time.monotonic() - began:.0f} s)")
    table(
        [
            ("instance", "before", f"after {host} was drained"),
            *(
                (
                    name,
                    before[name],
                    after.get(name, "gone") + (" (moved)" * (before[name] != after.get(name))),
                )
                for name in sorted(before)
            ),
        ]
    )
    config = shown(layout.folder / "ansible.cfg")
    print(f"""
Look around:
  tests/lab/lab status
  tests/lab/lab ssh {host}            and there: virsh list --all
  . .venv/bin/activate; export ANSIBLE_CONFIG=$PWD/{config}
  ansible-playbook drover.compute.hosts
  ansible-doc drover.compute.host_info
The definitions, with the hosts written into them: {shown(definitions)}
Again, on the lab as it is: make demo
Take the lab down: make lab-down""")


def without_lab(folder: pathlib.Path) -> None:
    """Discover and schedule on libvirt's test driver, which needs neither root nor a daemon."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "ansible.cfg"
    config.write_text(
        f"[defaults]\nhome = {folder}/ansible\nlocal_tmp = {folder}/ansible/tmp\nremote_tmp ="
        f" {folder}/ansible/tmp\ninventory = {CHECKOUT}/inventory/test-driver.yml\ncollections_path"
        f" = {folder}/collections\ncallback_result_format = yaml\n",
        encoding="utf-8",
    )
    use_ansible(config)
    heading("Build the collection and install it")
    command(shown(HERE / "lab"), "--folder", os.fspath(folder), "install")
    heading("Discover: read libvirt's test driver into the store")
    playbook("discover")
    heading("Schedule: where would two instances go, and why?")
    command("ansible-playbook", shown(HERE / "demo-test-driver.yml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-lab", metavar="REASON")
    reason = parser.parse_args().without_lab
    if reason:
        print(f"demo: no lab on this machine, so this is libvirt's test driver only: {reason}")
        without_lab(CHECKOUT / ".cache" / "demo")
    else:
        with_lab(Layout())
    sys.stdout.flush()
    subprocess.run([sys.executable, CHECKOUT / "tests/setup/seen.py", "make demo"], check=True)


if __name__ == "__main__":
    main()
