# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The Pythons of this machine, and libvirt's binding for one of them. setup.sh and core-versions.sh read this file, in the folder of
# the checkout.

# The Pythons of .venv: those of the newest ansible-core in requirements-dev.txt. Where there is none, an older one.
NEW_PYTHONS="3.12 3.14"
OLD_PYTHONS="3.10 3.11"
SYSTEM_PYTHON=/usr/bin/python3
# The versions of all packages, see pins.py.
CONSTRAINTS=tests/setup/constraints.txt

site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
has_libvirt() { "$1" -c 'import libvirt' 2>/dev/null; }

# version_and_path PYTHON FIRST LAST: of a Python that is of these versions and has what an environment needs. In a virtual environment
# it is the path of the Python below.
version_and_path() {
    "$1" -c '
import sys
first, last = (tuple(map(int, version.split("."))) for version in sys.argv[1:])
if not first <= sys.version_info[:2] <= last:
    sys.exit(1)
import ensurepip, sqlite3, ssl, venv
print("%d.%d" % sys.version_info[:2], sys._base_executable)' "$2" "$3" 2>/dev/null
}

# pythons FIRST LAST: the paths of the Pythons of these versions on this machine, the newest first. Of one version the system's is the
# first, because the distribution has libvirt's binding for it.
pythons() {
    {
        echo "$SYSTEM_PYTHON"
        find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -path '*/versions/3.*/bin/python3' 2>/dev/null | sort -rV
        seq -f 'python3.%.0f' "${1#3.}" "${2#3.}"
        echo python3
    } | while IFS= read -r candidate; do version_and_path "$candidate" "$1" "$2" </dev/null || :; done |
        sort -s -k 1,1rV | cut -d ' ' -f 2- | awk '!seen[$0]++'
}

# Set python to the first of the Pythons from $1 to $2; status 1: there is none.
find_python() {
    python=$(pythons "$1" "$2" | head -n 1)
    [ -n "$python" ]
}

# The system's Python where it is from $1 to $2, else the newest that is.
find_system_python() {
    python=$(version_and_path "$SYSTEM_PYTHON" "$1" "$2" | cut -d ' ' -f 2-)
    [ -n "$python" ] || find_python "$1" "$2"
}

# Whether libvirt's binding can be built for the Python $1.
can_build_libvirt() {
    command -v cc >/dev/null && pkg-config --exists libvirt 2>/dev/null &&
        [ -e "$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]
}

# add_libvirt ENVIRONMENT PYTHON [CONSTRAINTS]: give the environment the binding that its Python has, or build one. Libvirt's binding is made for
# all older versions of libvirt too; where the newest does not build, the one that is as old as the installed libvirt may.
add_libvirt() {
    if has_libvirt "$1/bin/python"; then return; fi
    if home=$("$2" -c 'import libvirt, os; print(os.path.dirname(libvirt.__file__))' 2>/dev/null); then
        # The binding, and nothing else of the other Python.
        ln -sf "$home"/libvirt*.py "$home"/libvirtmod*.so "$(site "$1")"
    else
        can_build_libvirt "$2" || return 1
        pip_install="$1/bin/python -m pip --disable-pip-version-check --quiet install"
        # Without isolation, for in that pip takes the newest setuptools.
        $pip_install ${3:+-c "$3"} setuptools &&
            { $pip_install ${3:+-c "$3"} --no-build-isolation libvirt-python ||
                $pip_install --no-build-isolation "libvirt-python==$(pkg-config --modversion libvirt)"; } || return 1
    fi
    has_libvirt "$1/bin/python"
}
