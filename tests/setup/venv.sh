# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The environments of this checkout, .venv and .venv-lint. setup.sh reads this file.

# make_env FOLDER PYTHON CONSTRAINTS FILE...: an environment with the requirements in the files. Its stamp has two lines: for whom it
# was made, and of what.
make_env() {
    folder=$1
    python=$2
    constraints=$3
    shift 3
    place="$python, $("$python" -V) in $(pwd)"
    stamp=$(printf '%s\n%s' "$place" "$(cat "$@" "$constraints" tests/setup/venv.sh tests/setup/python.sh tests/setup/environments.sh | cksum)")
    [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "making $folder with $("$python" -V)"
    # An environment does not survive another Python or another folder; other packages it does.
    if [ "$(head -n 1 "$folder/.stamp" 2>/dev/null)" != "$place" ]; then
        rm -rf "$folder"
        quietly "$python" -m venv "$folder" ||
            fail "$python cannot make a virtual environment; on Debian install python3-venv."
        echo "$place" >"$folder/.stamp"
    fi
    arguments="-c $constraints"
    for file in "$@"; do arguments="$arguments -r $file"; done
    # shellcheck disable=SC2086
    quietly "$folder/bin/python" -m pip --disable-pip-version-check install $arguments ||
        fail "pip could not install what $* ask for into $folder."
}

step_env() {
    choose_python
    make_env .venv "$python" "$CONSTRAINTS" requirements.txt requirements-solver.txt requirements-dev.txt
    if ! quietly add_libvirt .venv "$python" "$CONSTRAINTS"; then
        can_build_libvirt "$python" || fail "$python has no libvirt binding; on Debian install python3-libvirt."
        [ "$(cat "$not_built" 2>/dev/null)" != "$(build_of "$python")" ] || fail "no libvirt binding can be had for $python."
        mkdir -p .cache
        build_of "$python" >"$not_built"
        step_env
        return
    fi
    add_collections
    echo "$stamp" >.venv/.stamp
}

# The collections that galaxy.yml and the playbook awx_setup name, from PyPI's "ansible", which holds all of Galaxy's usual ones:
# 10 MB of its 500. Every Ansible of the environment finds them there.
COLLECTIONS="community/general awx/awx"
add_collections() {
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    missing=
    for name in $COLLECTIONS; do
        [ -d "$site/ansible_collections/$name" ] || missing="$missing $name"
    done
    [ -n "$missing" ] || return 0
    folder=$(mktemp -d)
    quietly .venv/bin/python -m pip --disable-pip-version-check download --no-deps --ignore-requires-python \
        --only-binary :all: -d "$folder" ansible==12.3.0 || fail "pip could not get the collections$missing."
    # shellcheck disable=SC2086
    .venv/bin/python tests/setup/extract_collections.py "$folder"/*.whl "$site" $missing
    rm -rf "$folder"
}

# With the Python of .venv.
step_lint() {
    if [ -x .venv/bin/python ]; then
        python=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
    else
        choose_python
    fi
    make_env .venv-lint "$python" tests/setup/constraints-lint.txt tests/setup/requirements-lint.txt
    echo "$stamp" >.venv-lint/.stamp
}
