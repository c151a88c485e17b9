#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What depends on ansible-core, with each version of it that meta/runtime.yml allows and this Python can run.
# The environments are .cache/core-VERSION. Needs .venv: setup.sh env makes it.
#
#   core-versions.sh            all
#   core-versions.sh 2.17       one
set -eu
cd "$(dirname "$0")/../.."

# What goes through ansible-playbook and ansible-inventory: those that look into ansible-core know only one version of it.
TESTS="tests/unit/action/test_store_url.py tests/unit/awx/test_jobs.py tests/unit/inventory"
# Before 2.19 compose makes text of numbers, and ansible-inventory has no --flush-cache.
NOT="constructed_plugins_have or until_it_is_flushed"

site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

[ -x .venv/bin/pytest ] || { echo "core-versions: no .venv: run tests/setup/setup.sh first" >&2; exit 2; }
failed=
for version in ${*:-2.17 2.18 2.19}; do
    env=.cache/core-$version
    if [ ! -e "$env/.ready" ]; then
        "$(.venv/bin/python -c 'import sys; print(sys._base_executable)')" -m venv --clear "$env"
        grep -v '^ansible-core' requirements-dev.txt >"$env/requirements.txt"
        "$env/bin/python" -m pip --disable-pip-version-check --quiet install \
            -r requirements.txt -r "$env/requirements.txt" "ansible-core==$version.*"
        # Not from PyPI: the binding is the system's, and the collections are 10 MB of 500.
        for name in "$(site .venv)"/libvirt*.py "$(site .venv)"/libvirtmod*.so "$(site .venv)"/ansible_collections; do
            ln -s "$name" "$(site "$env")"
        done
        touch "$env/.ready"
    fi
    "$env/bin/python" -c 'from ansible.release import __version__; print("ansible-core", __version__)'
    # shellcheck disable=SC2086
    "$env/bin/pytest" -q -n 2 --dist loadfile -k "not ($NOT)" $TESTS || failed="$failed $version"
done
[ -z "$failed" ] || { echo "core-versions: failed with ansible-core$failed" >&2; exit 1; }
