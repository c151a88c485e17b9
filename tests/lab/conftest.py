# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the lab tests: the lab itself, its Ansible, its hosts."""

from __future__ import annotations

import collections
import os
import pathlib
import subprocess
import sys
import typing

import pytest
import testinfra

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, os.fspath(HERE))

from lablib import control  # noqa: E402  pylint: disable=wrong-import-position
from lablib import layout as lab_layout

from ansible_collections.drover.compute.tests import deprecations, parts
from ansible_collections.drover.compute.tests.pages import tested

# The lab uses the Ansible of the environment that runs this pytest.
os.environ["DROVER_ENVIRONMENT"] = sys.prefix

if os.environ.get("PYTEST_XDIST_WORKER"):
    # With several workers at once, each has a lab.
    os.environ["DROVER_LAB"] = os.fspath(
        lab_layout.CHECKOUT / ".cache" / f"lab-{os.environ['PYTEST_XDIST_WORKER']}"
    )


class Lab:
    """A lab that is up, with the collection built and installed for its Ansible."""

    def __init__(self, layout: lab_layout.Layout) -> None:
        self.layout = layout
        self.hosts = [host.name for host in layout.hosts()]

    def command(self, *words: str, check: bool = True) -> str:
        """Run ``tests/lab/lab`` on this lab; return its output."""
        return run(
            [os.fspath(HERE / "lab"), "--folder", os.fspath(self.layout.folder), *words],
            check=check,
        ).stdout

    def host(self, name: str) -> testinfra.host.Host:
        """Return the host as pytest-testinfra sees it, over ssh."""
        return testinfra.get_host(f"ssh://{name}", ssh_config=os.fspath(self.layout.ssh_config))

    def environment(self, store_url: str | None = None) -> dict[str, str]:
        """Return Ansible's environment, with the store of a test if it has one."""
        environment = {
            **os.environ,
            "PATH": f"{lab_layout.programs()}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": os.fspath(self.layout.folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            # Tests search the output for sentences, so lines must not be folded.
            "COLUMNS": "1000",
            # Ansible buffers its output into a pipe; tests act on a line at once.
            "PYTHONUNBUFFERED": "1",
        }
        # The tests run the installed collection, so the checkout must not be on the search paths.
        for name in ("ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH"):
            environment.pop(name, None)
        if store_url:
            environment["DROVER_STORE_URL"] = store_url
        return environment

    def playbook(
        self,
        name: str,
        *words: str,
        store_url: str | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook by FQCN or file; words are added to the command line."""
        return run(["ansible-playbook", name, *words], self.environment(store_url), check)


def run(
    words: list[str],
    environment: dict[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command; if it fails, the test fails with its whole output."""
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if check and done.returncode:
        pytest.fail(
            f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}",
            pytrace=False,
        )
    return done


@pytest.fixture(scope="session", autouse=True)
def lab_is_possible() -> None:
    """Leave these tests out on a machine that cannot run the lab."""
    done = run([os.fspath(HERE / "lab"), "possible"], check=False)
    if done.returncode == 4:
        parts.leave_out("The tests in the lab", done.stderr.strip().removeprefix("lab: "))


@pytest.fixture(scope="session")
def lab() -> typing.Iterator[Lab]:
    """Yield the checkout's lab, and restore its state afterwards: up or down."""
    layout = lab_layout.Layout()
    try:
        control.ask(layout, "status")
        was_up = True
    except control.LabIsDown:
        was_up = False
    words = [os.fspath(HERE / "lab"), "--folder", os.fspath(layout.folder)]
    try:
        run([*words, "up"])
        running = Lab(layout)
        running.command("install")
        yield running
    finally:
        # Also if it has not come up, or a person has interrupted that.
        if not was_up:
            run([*words, "down"])


@pytest.fixture(scope="session", autouse=True)
def ansible_log(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the log of every Ansible of these tests."""
    file = tmp_path_factory.mktemp("ansible") / "ansible.log"
    os.environ["ANSIBLE_LOG_PATH"] = os.fspath(file)
    return file


@pytest.fixture(autouse=True)
def no_deprecation_warnings(ansible_log: pathlib.Path) -> typing.Iterator[None]:
    """Fail a test if Ansible gave a deprecation warning."""
    yield
    if ansible_log.exists():
        said = ansible_log.read_text(encoding="utf-8", errors="replace")
        ansible_log.unlink()
        deprecations.refuse(said)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Record the results of hosts of a release, on request."""
    release = os.environ.get("DROVER_LAB_RELEASE")
    if not release or not os.environ.get("DROVER_WRITE_EXPECTED"):
        return
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome, word in (
        ("passed", "passed"),
        ("failed", "failed"),
        ("error", "failed"),
        ("skipped", "skipped"),
    ):
        for report in terminalreporter.stats.get(outcome, []):
            counts[pathlib.Path(report.nodeid.partition("::")[0]).name][word] += 1
    tested.record(
        release,
        lab_layout.release_root(release),
        {name: dict(numbers) for name, numbers in counts.items()},
    )
