# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last line of ``make demo`` and ``make test``: the system of the run, and the parts of the
tests that this machine could not run."""

from __future__ import annotations

import pathlib
import platform
import sys

from ansible.release import __version__

LEFT_OUT = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "left-out"


def system() -> str:
    """Return the name of the release."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (KeyError, OSError):
        return platform.platform()


def libvirt() -> str:
    """Return the version of libvirt's library, if there is one."""
    try:
        import libvirt as binding
    except ImportError:
        return ""
    major, rest = divmod(binding.getVersion(), 1000000)
    return f", libvirt {major}.{rest // 1000}.{rest % 1000}"


def main() -> None:
    what = " ".join(sys.argv[1:])
    line = (
        f"{what} on {system()}, ansible-core {__version__}, Python"
        f" {platform.python_version()}{libvirt()}: "
    )
    parts = (
        [each.rstrip(".") for each in LEFT_OUT.read_text(encoding="utf-8").splitlines()]
        if what == "make test" and LEFT_OUT.exists()
        else []
    )
    print(line + (f"passed. Not run on this machine: {'; '.join(parts)}" if parts else "passed."))


if __name__ == "__main__":
    main()
