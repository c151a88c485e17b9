# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The newest versions of all Python packages: of the linters, and for the files of constraints. setup.sh reads this file.

# What is newest is so today: it looks for newer versions each time.
step_newest() {
    folder=.cache/lint-newest
    base=$(.cache/core-newest/bin/python -c 'import sys; print(sys._base_executable)')
    [ "$(readlink -f "$folder/bin/python")" = "$(readlink -f "$base")" ] || { rm -rf "$folder" && quietly "$base" -m venv "$folder"; }
    sed 's/==[^;]*//' tests/setup/requirements-lint.txt >"$folder/requirements.txt"
    quietly "$folder/bin/python" -m pip --disable-pip-version-check install --upgrade --upgrade-strategy eager -r "$folder/requirements.txt" ||
        fail "pip could not install the newest linters into $folder."
}

# report_of FIRST LAST REPORT WORD...: pip's report of what it would install for these words on a Python of these versions.
report_of() {
    find_system_python "$1" "$2" || fail "the versions of Python $1 to $2 need such a Python, and there is none."
    report=$3
    shift 3
    folder=$(mktemp -d)
    quietly "$python" -m venv "$folder" && quietly "$folder/bin/python" -m pip --disable-pip-version-check install \
        --dry-run --ignore-installed --report "$report" "$@" || fail "pip finds no versions for $*."
    rm -rf "$folder"
}

# pins FILE WORD...
pins() {
    file=$1
    shift
    reports=$(mktemp -d)
    say "looking for the newest versions for $file"
    report_of 3.11 3.11 "$reports/old" "$@"
    # shellcheck disable=SC2086
    report_of $NEW_PYTHONS "$reports/new" "$@"
    "$python" tests/setup/pins.py "$reports/old" "$reports/new" >"$reports/pins"
    cp "$reports/pins" "$file"
    rm -rf "$reports"
}

step_pins() {
    pins "$CONSTRAINTS" -r requirements.txt -r requirements-solver.txt -r requirements-dev.txt setuptools libvirt-python
    pins tests/setup/constraints-lint.txt -r tests/setup/requirements-lint.txt
}
