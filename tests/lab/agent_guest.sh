#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a guest that has the agent of QEMU: a kernel and a file system in memory, of packages of this machine's release. They are unpacked into a
# folder, and installed nowhere. The guest mounts /dev/vda and writes to it all the time, without waiting for the disk.
#
# Usage: tests/lab/agent_guest.sh  (writes .cache/agent-guest in the checkout)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
out=$here/.cache/agent-guest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/packages" "$work/root" "$work/guest/modules" "$work/guest/bin"

kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p')
cd "$work/packages"
# shellcheck disable=SC2046
apt-get -q -o APT::Sandbox::User=root download "$kernel" busybox-static qemu-guest-agent \
    $(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances qemu-guest-agent |
        grep -E '^(lib|zlib)[a-z0-9.+-]*$' | grep -vE "debconf|perl")
for file in *.deb; do dpkg-deb -x "$file" "$work/root"; done

cd "$work/guest"
cp "$work/root/bin/busybox" bin/busybox
cp "$work/root/usr/sbin/qemu-ga" bin/qemu-ga
for name in virtio virtio_ring virtio_pci virtio_pci_legacy_dev virtio_pci_modern_dev virtio_blk virtio_console ext4 jbd2 mbcache crc16 crc32c_generic; do
    find "$work/root/lib/modules" -name "$name.ko" -exec cp {} modules \;
done
# What the agent loads, as its own loader finds it.
mkdir -p lib/x86_64-linux-gnu lib64
for folder in lib usr/lib; do
    [ ! -d "$work/root/$folder/x86_64-linux-gnu" ] || find "$work/root/$folder/x86_64-linux-gnu" -maxdepth 1 -name '*.so*' -exec cp -P {} lib/x86_64-linux-gnu \;
done
cp -L "$work/root/lib64/ld-linux-x86-64.so.2" lib64

cat > init <<'END'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /data /run /var/run /usr/bin /sbin
/bin/busybox --install -s /usr/bin
export PATH=/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
# In an order that is right after some rounds.
for round in 1 2 3 4; do for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done; done
until [ -b /dev/vda ]; do sleep 0.1; done
# It writes what it has to the disk each second.
echo 100 > /proc/sys/vm/dirty_writeback_centisecs
echo 100 > /proc/sys/vm/dirty_expire_centisecs
mount -t ext4 -o commit=1 /dev/vda /data && echo "agent guest: mounted"
for port in /sys/class/virtio-ports/*; do
    if [ "$(cat "$port/name")" = org.qemu.guest_agent.0 ]; then qemu-ga -d -m virtio-serial -p "/dev/${port##*/}" -t /run -l /run/log; fi
done
echo "agent guest: ready"
number=0
while :; do
    number=$((number + 1))
    echo "$number" > /data/number
    sleep 0.1
done
END
chmod 755 init bin/busybox bin/qemu-ga
rm -rf "$out"
mkdir -p "$out"
find . | bin/busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$out/initrd"
cp "$work/root/boot/vmlinuz-"* "$out/vmlinuz"
ls -l "$out"
