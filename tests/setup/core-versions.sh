#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The unit tests with each ansible-core that is supported, and with the newest that PyPI has.
# The environments are .cache/core-VERSION. Needs .venv: setup.sh env makes it.
#
#   core-versions.sh                      all tests, with 2.17, 2.18, 2.19, 2.20 and newest
#   core-versions.sh 2.17                 all tests, with one
#   core-versions.sh --quick              what depends on ansible-core most, with each
#   core-versions.sh newest -- PATH...    what is named, in pytest's words
#   core-versions.sh --make newest        no test: only make the environment
#
# Exit status: 0 all passed, 1 something failed, 2 there is no .venv.
set -eu
cd "$(dirname "$0")/../.."

SUPPORTED="2.17 2.18 2.19 2.20 newest"
# These run on the Python of .venv; all later ones want another Python than Debian 12 has.
ON_OWN_PYTHON="2.17 2.18 2.19"
NEWER_WANTS="3, 12"
# Where Ansible's own types, options and templates reach our code: what broke with one version alone.
QUICK="tests/unit/filter tests/unit/lookup tests/unit/inventory"
# Without libvirt's binding.
NEEDS_LIBVIRT="tests/unit/modules tests/unit/module_utils tests/unit/awx/test_jobs.py tests/unit/test_examples.py
    tests/unit/test_hypervisors.py tests/unit/action/test_rolling_role.py"

say() { echo "core-versions: $*"; }
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
pip() { "$env/bin/python" -m pip --disable-pip-version-check --quiet install "$@"; }

# The newest Python of this machine that a newer ansible-core may run on.
find_python() {
    for python in python3.14 python3.13 python3.12 $(ls -rv "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 2>/dev/null) python3; do
        if "$python" -c "import sys, venv; sys.exit(sys.version_info < ($NEWER_WANTS))" 2>/dev/null; then return; fi
    done
    return 1
}

# The binding is the system's, for the system's Python; for another one it is built, where that can be done.
add_libvirt() {
    if [ "$(site "$env" | sed 's|.*/lib/||')" = "$(site .venv | sed 's|.*/lib/||')" ]; then
        for name in "$(site .venv)"/libvirt*.py "$(site .venv)"/libvirtmod*.so; do ln -sf "$name" "$(site "$env")"; done
    elif command -v cc >/dev/null && pkg-config --exists libvirt 2>/dev/null; then
        pip libvirt-python || say "libvirt-python cannot be built for $("$env/bin/python" -V)"
    fi
}

make_env() {
    rm -rf "$env"
    "$python" -m venv "$env"
    grep -v '^ansible-core' requirements-dev.txt >"$env/requirements.txt"
    pip -r requirements.txt -r requirements-solver.txt -r "$env/requirements.txt" "$core"
    # 10 MB of the 500 that PyPI has.
    ln -s "$(site .venv)/ansible_collections" "$(site "$env")"
    add_libvirt
    touch "$env/.ready"
}

[ -x .venv/bin/pytest ] || { say "no .venv: run tests/setup/setup.sh first" >&2; exit 2; }
versions= tests=tests/unit quick= only_make=
while [ $# -gt 0 ]; do
    case $1 in
        --quick) tests=$QUICK quick=yes ;;
        --make) only_make=yes ;;
        --) shift; tests=$*; break ;;
        *) versions="$versions $1" ;;
    esac
    shift
done
failed=
for version in ${versions:-$SUPPORTED}; do
    env=.cache/core-$version
    core="ansible-core==$version.*"
    [ "$version" != newest ] || core=ansible-core
    case " $ON_OWN_PYTHON " in
        *" $version "*) python=$(.venv/bin/python -c 'import sys; print(sys._base_executable)') ;;
        *) find_python || { say "there is no Python 3.12 or later here, so ansible-core $version is left out"; continue; } ;;
    esac
    [ -e "$env/.ready" ] || make_env
    # What is newest is so today.
    [ "$version" != newest ] || pip --upgrade ansible-core || say "PyPI does not answer: the newest is the one of the last time"
    "$env/bin/python" -c 'import sys; from ansible.release import __version__; print("ansible-core", __version__, "on Python", sys.version.split()[0])'
    [ -z "$only_make" ] || continue
    without=
    if ! "$env/bin/python" -c 'import libvirt' 2>/dev/null; then
        say "no libvirt binding for this Python (libvirt-dev, a C compiler and pkg-config make one): without $NEEDS_LIBVIRT"
        for path in $NEEDS_LIBVIRT; do without="$without --ignore=$path"; done
    fi
    # shellcheck disable=SC2086
    "$env/bin/pytest" -q -n 2 --dist worksteal ${quick:+-m "not long"} $without $tests || failed="$failed $version"
done
[ -z "$failed" ] || { say "failed with ansible-core$failed" >&2; exit 1; }
