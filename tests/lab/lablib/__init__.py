# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab: real hypervisors on one machine, made of Linux namespaces and nothing else.

One process, the switch, owns the lab. It is the first process of a PID namespace of its own, so
when it ends, the kernel ends everything in the lab with it: nothing can be left running. It also
has its own network namespace with the bridge that the hosts are plugged into, and its own mounts.

Each host is a child of the switch in yet another set of namespaces, with its own root, sshd and
libvirtd. Its disks are folders under ``.lab/hosts``, so they outlive a power failure.

Nothing is made in the machine's own namespaces. The machine reaches the hosts over ssh because
the switch hands out sockets that it has connected inside the lab (see ``dial.py``).

========== ===================================================================================
layout     which files and hosts there are, how to become root, errors
files      what ``up`` writes before the lab starts: keys, ssh_config, inventory, ansible.cfg
control    the client's end of the control socket
switch     the first process of the lab
host       the first process of a host
host_root  the root file system of a host
dial       ssh's ProxyCommand
bmc        Redfish and IPMI for every host, on request
========== ===================================================================================
"""
