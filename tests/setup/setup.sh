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
#   setup.sh hosts      get what hosts of other kinds in the lab have: split daemons of libvirt, a newer QEMU, a guest with an agent
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
. tests/setup/environments.sh

# For the lab, for the tests' database, and for the environments, in this order.
PACKAGES="
    libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils
    ovmf swtpm swtpm-tools
    openssh-server openssh-client iproute2 mount util-linux procps tar
    postgresql pgbouncer locales libvirt-l10n
    python3 python3-venv python3-libvirt"
STORAGE="
    ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse ceph-common qemu-block-extra libvirt-daemon-driver-storage-rbd
    tgt libvirt-daemon-driver-storage-iscsi-direct
    nbdkit
    nfs-ganesha nfs-ganesha-vfs rpcbind
    glusterfs-server libvirt-daemon-driver-storage-gluster
    lvm2"
EVENTS="prometheus prometheus-node-exporter"
# Of these the packages that the release has. Since libvirt 11 the drivers have packages of their own; before they are parts of libvirt-daemon.
DRIVERS="
    libvirt-daemon-driver-storage libvirt-daemon-driver-nodedev libvirt-daemon-driver-secret
    libvirt-daemon-driver-network libvirt-daemon-driver-interface libvirt-daemon-driver-nwfilter
    libvirt-daemon-lock libvirt-daemon-plugin-lockd"
STORAGE_DRIVERS="libvirt-daemon-driver-storage-logical"
JAVA="openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless"
# Debian's. Ubuntu has Chromium as a snap only: there a chromium and a chromedriver of your own will do.
BROWSER="chromium chromium-driver"
# Only where the newest Python is not the system's: they build libvirt's binding for it.
BUILD="libvirt-dev pkg-config gcc libc6-dev"

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

# ---------------------------------------------------------------------------- packages

missing_packages() {
    for package; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            echo "$package"
        fi
    done | xargs
}

become_root() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || cannot "packages need root or sudo: $1"
    if ! sudo -n true 2>/dev/null; then
        [ -t 0 ] || cannot "sudo wants a password that nobody can type; packages needed: $1"
        sudo -v || cannot "sudo refused; packages needed: $1"
    fi
    root="sudo -n"
}

install_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        cannot "this is neither Debian nor Ubuntu: packages cannot be installed here."
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    become_root "$missing"
    say "installing Debian packages: $missing"
    # Only the programs are wanted: no service is to start now, or when the machine boots.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        policy=yes
        printf '#!/bin/sh\nexit 101\n' | $root tee /usr/sbin/policy-rc.d >/dev/null
        $root chmod 755 /usr/sbin/policy-rc.d
    fi
    update_lists
    enabled_units >"$units"
    # shellcheck disable=SC2086
    quietly $root env DEBIAN_FRONTEND=noninteractive apt-get -qy \
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing ||
        fail "apt-get could not install: $missing"
    # shellcheck disable=SC2046
    set -- $(enabled_units | comm -13 "$units" -)
    [ $# = 0 ] || $root systemctl -q disable "$@" 2>/dev/null || say "these would start when the machine boots: $*"
}

enabled_units() {
    if [ -d /run/systemd/system ]; then
        systemctl list-unit-files --state=enabled --no-legend | cut -d ' ' -f 1 | LC_ALL=C sort
    fi
}

# A package source that does not answer matters only if something then cannot be found.
update_lists() {
    [ -z "$updated" ] || return 0
    quietly $root apt-get -q update || say "apt-get update failed, trying with what apt knows"
    updated=yes
}

# Print those of the packages that this release has. (An installed one is known without lists.)
known() {
    for package; do
        if LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then echo "$package"; fi
    done
}

# The images of containers come without lists of packages.
step_packages() {
    # shellcheck disable=SC2086
    install_packages $PACKAGES
    if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then update_lists; fi
    # shellcheck disable=SC2046,SC2086
    install_packages $(known $DRIVERS)
}

step_storage() {
    # shellcheck disable=SC2046,SC2086
    install_packages $STORAGE $(known $STORAGE_DRIVERS)
}

# Each is made once; Ubuntu has no backports of Debian's, and the tests of what is missing are skipped.
step_hosts() {
    install_packages sudo
    for each in split_daemons:split-daemons newer_qemu:newer-qemu agent_guest:agent-guest; do
        [ -z "$(ls ".cache/${each#*:}" 2>/dev/null)" ] || continue
        say "making .cache/${each#*:}"
        quietly "tests/lab/${each%:*}.sh" || say "tests/lab/${each%:*}.sh failed: its tests are skipped"
    done
}

step_events() {
    # shellcheck disable=SC2046,SC2086
    install_packages $EVENTS $(known $JAVA | head -n 1)
}

step_browser() {
    if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then return; fi
    # shellcheck disable=SC2086
    install_packages $BROWSER
}

step_bare() { install_packages debootstrap; }

# ------------------------------------------------------------------------ environments

no_python() { fail "There is no Python 3.10 or later that can make a virtual environment; on Debian install python3 and python3-venv."; }

# make_env FOLDER PYTHON CONSTRAINTS FILE...: an environment with the requirements in the files. Its stamp has two lines: for whom it
# was made, and of what.
make_env() {
    folder=$1
    python=$2
    constraints=$3
    shift 3
    place="$python, $("$python" -V) in $(pwd)"
    stamp=$(printf '%s\n%s' "$place" "$(cat "$@" "$constraints" tests/setup/setup.sh tests/setup/environments.sh | cksum)")
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

# The Python of .venv: the newest, if libvirt's binding can be had for it.
choose_python() {
    # shellcheck disable=SC2086
    if ! find_python $NEW_PYTHONS; then
        find_python $OLD_PYTHONS || no_python
        # The distribution has the binding for its own.
        find_system_python $OLD_PYTHONS
        return
    fi
    if has_libvirt "$python" || { [ "$(head -n 1 .venv/.stamp 2>/dev/null)" = "$python, $("$python" -V) in $(pwd)" ] && has_libvirt .venv/bin/python; }; then
        return
    fi
    can_build_libvirt "$python" || install_to_build || :
    if ! can_build_libvirt "$python"; then
        use_system_python "libvirt's binding cannot be built for it without $BUILD and the headers of that Python"
    elif [ "$(cat "$not_built" 2>/dev/null)" = "$(build_of "$python")" ]; then
        use_system_python "libvirt's binding did not build for it"
    fi
}

# Not where it takes a password: there is another Python.
install_to_build() {
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 1
    # shellcheck disable=SC2086
    (log=$(mktemp) && trap tidy_up EXIT && install_packages $BUILD)
}

use_system_python() {
    newer=$("$python" -V)
    find_system_python "${OLD_PYTHONS% *}" "${NEW_PYTHONS#* }" || no_python
    say "$newer is not used, because $1: the environment gets the system's, $("$python" -V)"
}

# What a build of libvirt's binding that failed was of: it is not tried again before that changes.
not_built=.cache/libvirt-binding-not-built
build_of() { echo "$1, $("$1" -V), libvirt $(pkg-config --modversion libvirt), $(cksum <"$CONSTRAINTS")"; }

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
    .venv/bin/python -c '
import glob, sys, zipfile
folder, site, *wanted = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as archive:
    for name in archive.namelist():
        if name.startswith(tuple(f"ansible_collections/{collection}/" for collection in wanted)):
            archive.extract(name, site)' "$folder" "$site" $missing
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

[ $# -gt 0 ] || set -- packages env
for step; do
    case $step in
        packages | env | lint | storage | hosts | events | browser | bare | newest | pins) "step_$step" ;;
        *) fail "there is no step $step; the steps are packages, env, lint, storage, hosts, events, browser, bare, newest and pins." ;;
    esac
done
