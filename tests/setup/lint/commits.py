# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the subjects of commits: at most 72 characters.

Usage: commits.py CHECKOUT

Exit status: 0 all subjects are short, or the history cannot be read here and the output says so;
1 some are too long.
"""

from __future__ import annotations

import os
import subprocess
import sys

#: The last commit before the rule.
BASE = "ed63b8784b5aac089096287a1a089d9446e0e0f9"
LONGEST = 72


def git(checkout: str, *words: str) -> subprocess.CompletedProcess[str]:
    # A hook of git names its repository in the environment.
    environment = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    return subprocess.run(
        # The checkout may belong to another user, as in the containers of CI.
        ["git", "-c", f"safe.directory={os.path.realpath(checkout)}", "-C", checkout, *words],
        env=environment,
        capture_output=True,
        text=True,
    )


def too_long(log: str) -> list[str]:
    """Return the lines of a log, "hash subject", whose subject is too long."""
    return [line for line in log.splitlines() if len(line.partition(" ")[2]) > LONGEST]


def main(checkout: str, base: str = BASE) -> int:
    try:
        git_run = git(checkout, "rev-parse", "--quiet", "--verify", f"{base}^{{commit}}")
    except FileNotFoundError:
        print("left out: git is not installed")
        return 0
    if git_run.returncode:
        reason = git_run.stderr.strip() or f"the history here does not reach back to {base[:8]}"
        print(f"left out: {reason}")
        return 0
    log = git(checkout, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD")
    if log.returncode:
        print(f"left out: {log.stderr.strip()}")
        return 0
    long = too_long(log.stdout)
    for line in long:
        print(f"{line}: {len(line.partition(' ')[2])} characters, and {LONGEST} are allowed")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
