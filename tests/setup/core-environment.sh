# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The environment of one ansible-core. core-versions.sh reads this file, and sets $env.

pip() { "$env/bin/python" -m pip --disable-pip-version-check --quiet install "$@"; }

# The Pythons that an ansible-core runs on, and its last release.
release_of() {
    case $1 in
        2.17) pythons="3.10 3.12" release=2.17.14 ;;
        2.18) pythons="3.11 3.13" release=2.18.19 ;;
        2.19) pythons="3.11 3.13" release=2.19.14 ;;
        2.20) pythons="3.12 3.14" release=2.20.10 ;;
        2.21) pythons="3.12 3.14" release=2.21.5 ;;
        newest) pythons=$NEW_PYTHONS release= ;;
        *) say "there is no $1; there are oldest $SUPPORTED newest" >&2; exit 1 ;;
    esac
}

# Set python for the version $1. The distribution has libvirt's binding for the system's.
python_of() {
    release_of "$1"
    # shellcheck disable=SC2086
    if [ "$1" = newest ]; then find_python $pythons; else find_system_python $pythons; fi
}

# pip's words for what .venv has, but for ansible-core and the one of its needs that each series limits in its own way.
requirements() {
    grep -v '^ansible-core' requirements-dev.txt >"$env/requirements.txt"
    grep -v '^ansible-core\|^resolvelib' "$CONSTRAINTS" >"$env/constraints.txt"
    echo -r requirements.txt -r requirements-solver.txt -r "$env/requirements.txt" ${release:+-c "$env/constraints.txt"}
}

make_env() {
    rm -rf "$env"
    "$python" -m venv "$env"
    # shellcheck disable=SC2046
    pip $(requirements) "ansible-core${release:+==$release}"
    # 10 MB of the 500 that PyPI has.
    ln -s "$(site .venv)/ansible_collections" "$(site "$env")"
    add_libvirt "$env" "$python" ${release:+"$env/constraints.txt"} || say "libvirt-python cannot be built for $("$python" -V)"
}
