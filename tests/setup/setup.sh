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
#
# Exit status: 0 ready, 1 something failed, 4 this machine is not one that packages can be
# installed on (not Debian-like, or no root).
set -eu
cd "$(dirname "$0")/../.."

# For the lab, for the tests' database, and for the environments, in this order.
PACKAGES="
    libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils
    ovmf swtpm swtpm-tools
    openssh-server openssh-client iproute2 mount util-linux procps tar
    postgresql
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

# The system's Python comes with the libvirt binding. PyPI's would need a compiler.
find_python() {
    for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            return
        fi
    done
    fail "Python 3.10 or later is needed and there is none."
}

# make_env FOLDER FILE...: an environment with the requirements in the files. Its stamp has two
# lines: for whom it was made, and of what.
make_env() {
    folder=$1
    shift
    find_python
    place="$("$python" -V) in $(pwd)"
    stamp=$(printf '%s\n%s' "$place" "$(cat "$@" tests/setup/setup.sh | cksum)")
    [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "making $folder"
    # An environment does not survive another Python or another folder; other packages it does.
    if [ "$(head -n 1 "$folder/.stamp" 2>/dev/null)" != "$place" ]; then
        rm -rf "$folder"
        quietly "$python" -m venv "$folder" ||
            fail "$python cannot make a virtual environment; on Debian install python3-venv."
        echo "$place" >"$folder/.stamp"
    fi
    arguments=
    for file in "$@"; do arguments="$arguments -r $file"; done
    # shellcheck disable=SC2086
    quietly "$folder/bin/python" -m pip --disable-pip-version-check install $arguments ||
        fail "pip could not install what $* ask for into $folder."
}

step_env() {
    make_env .venv requirements.txt requirements-solver.txt requirements-dev.txt
    link_libvirt
    add_collections
    echo "$stamp" >.venv/.stamp
}

# Link the binding of the system's Python, and nothing else of it, into the environment.
link_libvirt() {
    .venv/bin/python -c 'import libvirt' 2>/dev/null && return
    home=$("$python" -c 'import libvirt, os; print(os.path.dirname(libvirt.__file__))' 2>/dev/null) ||
        fail "$python has no libvirt binding; on Debian install python3-libvirt."
    ln -sf "$home"/libvirt*.py "$home"/libvirtmod*.so "$(.venv/bin/python -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')"
    .venv/bin/python -c 'import libvirt' || fail "the libvirt binding in $home cannot be used."
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
        --only-binary :all: -d "$folder" 'ansible==12.*' || fail "pip could not get the collections$missing."
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

step_lint() {
    make_env .venv-lint tests/setup/requirements-lint.txt
    echo "$stamp" >.venv-lint/.stamp
}

[ $# -gt 0 ] || set -- packages env
for step; do
    case $step in
        packages | env | lint | storage | hosts | events | browser | bare) "step_$step" ;;
        *) fail "there is no step $step; the steps are packages, env, lint, storage, hosts, events, browser and bare." ;;
    esac
done
