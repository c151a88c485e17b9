# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The packages, and the steps that install them. setup.sh reads this file.

# A hypervisor of the lab.
HYPERVISOR="
    libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils
    ovmf swtpm swtpm-tools
    openssh-server openssh-client iproute2 mount util-linux procps tar
    python3 python3-libvirt"
# For the lab, for the tests' database, and for the environments, in this order.
PACKAGES="$HYPERVISOR
    postgresql pgbouncer locales libvirt-l10n sshfs strace
    python3-venv"
STORAGE="
    ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse ceph-common qemu-block-extra libvirt-daemon-driver-storage-rbd
    tgt libvirt-daemon-driver-storage-iscsi-direct
    nbdkit
    nfs-ganesha nfs-ganesha-vfs rpcbind
    glusterfs-server libvirt-daemon-driver-storage-gluster
    lvm2"
# Hosts of the lab with another release than the machine's.
RELEASES="bullseye trixie sid noble"
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

# Each is made once; the tests of what is missing are skipped.
step_hosts() {
    # virtinst reads usb.ids, which it does not depend on.
    install_packages sudo virtinst usb.ids
    for each in split_daemons:split-daemons agent_guest:agent-guest; do
        [ -z "$(ls ".cache/${each#*:}" 2>/dev/null)" ] || continue
        say "making .cache/${each#*:}"
        quietly "tests/lab/${each%:*}.sh" || say "tests/lab/${each%:*}.sh failed: its tests are skipped"
    done
    # shellcheck disable=SC2086
    tests/lab/release_root.sh $RELEASES || say "tests/lab/release_root.sh failed: the tests of these releases are skipped"
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
