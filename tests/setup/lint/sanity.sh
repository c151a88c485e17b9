# shellcheck shell=bash
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The checks of ansible-test. lint.sh reads this file.

# What ansible-test takes for pip's installer is below the name of the version that it wants. $1: its environment.
provide_pip() {
    local pinned
    pinned=$("$1/bin/python" "$ROOT/tests/setup/lint/pip_pinned.py")
    mkdir -p "$HOME/.ansible/test/cache"
    cp "$ROOT/tests/setup/get_pip" "$HOME/.ansible/test/cache/get_pip_$pinned.py"
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# The copy $1 is for it alone: it writes into it. $2 is the environment of ansible-test, $3 the version of Python. The other words are ansible-test's.
ansible_test_sanity() {
    local copy=$1 env=$2 python=$3
    shift 3
    provide_pip "$env"
    cd "$WORK/$copy/ansible_collections/drover/compute"
    if compgen -G 'tests/sanity/ignore*' >/dev/null; then
        echo "tests/sanity holds an ignore file: repair what it hides"
        return 1
    fi
    PATH="$env/bin:$PATH" ansible-test sanity --local --python "$python" --color no "$@" 2>&1 |
        tee "$WORK/$copy.txt"
    if grep -q "All targets skipped" "$WORK/$copy.txt"; then
        echo "ansible-test saw no file at all"
        return 1
    fi
}

# Without the import of each plugin by itself, which takes as long as the rest: the unit tests import all of them, and the check newest does.
check_sanity() {
    ansible_test_sanity sanity "$VENV" "$(version_of "$VENV/bin/python")" --skip-test pylint --skip-test import
}

# All of it on the newest Python; what depends on the Python of a hypervisor with each other one that is here.
check_newest() {
    local folder
    ansible_test_sanity sanity "$VENV" "$(version_of "$VENV/bin/python")"
    for folder in "$PYENV_ROOT"/versions/3.{9,10,11,12,13,14}.*/bin; do
        [ -x "$folder/python3" ] || continue
        PATH="$folder:$PATH" ansible_test_sanity sanity "$VENV" "$(version_of "$folder/python3")" --test compile --test import
    done
}

# What ships. The tests themselves, which take as long again, are for check_newest.
check_pylint() {
    ansible_test_sanity pylint "$VENV" "$(version_of "$VENV/bin/python")" --test pylint plugins/
}
