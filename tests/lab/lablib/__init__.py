# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab: real hypervisors on one machine, made only of Linux namespaces.

One process, the switch, owns the lab. It is the first process of a separate PID namespace, so when
it ends, the kernel ends everything in the lab with it: no process can be left. It also has its own
network namespace with the bridge of the hosts, and its own mounts.

Each host is a child of the switch in yet another set of namespaces, with its own root, sshd and
libvirtd. Its disks are folders under ``.lab/hosts``, so they outlive a power failure.

Nothing is made in the machine's own namespaces. The machine reaches the hosts over ssh because the
switch hands out sockets that it has connected inside the lab (see ``dial.py``).

========== ===================================================================================
layout     files and hosts of the lab, the way to become root, errors
files      files that ``up`` writes before the lab starts: keys, ssh_config, inventory, ansible.cfg
control    the client's end of the control socket
switch     the first process of the lab
host       the first process of a host
host_root  the root file system of a host
dial       ssh's ProxyCommand
bmc        Redfish and IPMI for every host, on request
========== ===================================================================================
"""
