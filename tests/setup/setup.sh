#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a machine ready for this checkout. Does nothing where there is nothing to do.
#
#   setup.sh packages   install what is missing of Debian's or Ubuntu's packages
#   setup.sh env        make .venv: Ansible, what the engine needs, the tests' tools
#   setup.sh lint       make .venv-lint: the linters
#   setup.sh storage    install the lab's storage: Ceph, iSCSI, NBD, NFS, GlusterFS, LVM
#   setup.sh hosts      get what hosts of other kinds in the lab have: split daemons of libvirt, roots of other releases, a guest with an agent
#   setup.sh events     install Java for ansible-rulebook, and Prometheus
#   setup.sh browser    install Chromium, for the tests of the report's page
#   setup.sh bare       install debootstrap, which makes the roots of bare_root.sh
#   setup.sh newest     make .cache/lint-newest: the linters in their newest versions
#   setup.sh pins       write the newest versions of all Python packages into constraints.txt and constraints-lint.txt
#
# Exit status: 0 ready, 1 something failed, 4 this machine is not one that packages can be
# installed on (not Debian-like, or no root).
set -eu
cd "$(dirname "$0")/../.."
for part in environments apt packages python venv newest; do . "tests/setup/$part.sh"; done

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }
cannot() { echo "setup: $*" >&2; exit 4; }

# Run a command without its output; if it fails, show the end of that.
quietly() {
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        return 1
    fi
}

tidy_up() {
    rm -f "$log" "$units"
    if [ -n "$policy" ]; then $root rm -f /usr/sbin/policy-rc.d; fi
}
log=$(mktemp)
units=$(mktemp)
policy=
updated=
root=
trap tidy_up EXIT
trap 'exit 1' HUP INT TERM

[ $# -gt 0 ] || set -- packages env
for step; do
    case $step in
        packages | env | lint | storage | hosts | events | browser | bare | newest | pins) "step_$step" ;;
        *) fail "there is no step $step; the steps are packages, env, lint, storage, hosts, events, browser, bare, newest and pins." ;;
    esac
done
