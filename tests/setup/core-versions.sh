#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The unit tests with each ansible-core that is supported. "newest" is the newest that PyPI has, with the newest of all other packages;
# the others have the packages of .venv. The environments are .cache/core-VERSION. Needs .venv: setup.sh env makes it.
#
#   core-versions.sh                      all unit tests, with 2.17, 2.18, 2.19, 2.20 and 2.21
#   core-versions.sh 2.17                 all unit tests, with one
#   core-versions.sh oldest               with the oldest that a Python of this machine runs
#   core-versions.sh --quick              what depends on ansible-core most, with each
#   core-versions.sh --lab 2.17 2.21      the tests in the lab too
#   core-versions.sh newest -- PATH...    what is named, in pytest's words
#   core-versions.sh --make newest        no test: only make the environment
#
# Exit status: 0 all passed, 1 something failed, 2 there is no .venv.
set -eu
cd "$(dirname "$0")/../.."
. tests/setup/environments.sh
. tests/setup/core-environment.sh

SUPPORTED="2.17 2.18 2.19 2.20 2.21"
# Where Ansible's own types, options and templates reach our code: what broke with one version alone.
QUICK="tests/unit/filter tests/unit/lookup tests/unit/inventory tests/properties/lookups"
# Without libvirt's binding.
NEEDS_LIBVIRT="tests/unit/modules tests/unit/module_utils tests/properties/hosts tests/unit/awx/test_jobs.py tests/properties/test_examples.py
    tests/properties/test_hypervisors.py tests/unit/action/test_rolling_role.py"

say() { echo "core-versions: $*"; }

[ -x .venv/bin/pytest ] || { say "no .venv: run tests/setup/setup.sh first" >&2; exit 2; }
versions= tests='tests/unit tests/properties' quick= only_make= lab=
while [ $# -gt 0 ]; do
    case $1 in
        --quick) tests=$QUICK quick=yes ;;
        --lab) lab=yes ;;
        --make) only_make=yes ;;
        --) shift; tests=$*; break ;;
        oldest)
            for version in $SUPPORTED; do if python_of "$version"; then break; fi; done
            versions="$versions $version"
            ;;
        *) versions="$versions $1" ;;
    esac
    shift
done
failed=
for version in ${versions:-$SUPPORTED}; do
    env=.cache/core-$version
    python_of "$version" || { say "there is no Python from ${pythons% *} to ${pythons#* } here, so ansible-core $version is left out"; continue; }
    of="$python, $("$python" -V), ansible-core $release, $(cat requirements*.txt "$CONSTRAINTS" | cksum)"
    if [ "$(cat "$env/.ready" 2>/dev/null)" != "$of" ]; then
        make_env
        echo "$of" >"$env/.ready"
    elif [ "$version" = newest ]; then
        # What is newest is so today.
        # shellcheck disable=SC2046
        pip --upgrade --upgrade-strategy eager $(requirements) ansible-core || say "PyPI does not answer: the newest is the one of the last time"
    fi
    "$env/bin/python" -c 'import sys; from ansible.release import __version__; print("ansible-core", __version__, "on Python", sys.version.split()[0])'
    [ -z "$only_make" ] || continue
    without=
    if ! has_libvirt "$env/bin/python"; then
        say "no libvirt binding for this Python (libvirt-dev, a C compiler and pkg-config make one): without $NEEDS_LIBVIRT"
        for path in $NEEDS_LIBVIRT; do without="$without --ignore=$path"; done
    fi
    # shellcheck disable=SC2086
    "$env/bin/pytest" -q -n 2 --dist worksteal ${quick:+-m "not long" --one-in 4} $without $tests || failed="$failed $version"
    [ -z "$lab" ] || make --no-print-directory test-lab ENVIRONMENT="$env" || failed="$failed $version (lab)"
done
[ -z "$failed" ] || { say "failed with ansible-core$failed" >&2; exit 1; }
