# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of the fleet for Ansible's event engine: the observations of hypervisors become a few
events for people and rulebooks.

observations.py has the observations. host_events.py, instance_events.py and finding_events.py
decide about events (data in, data out, no clock). libvirt_connections.py and host_probe.py observe
the hosts, fleet_view.py reads the store, and watch.py connects all of them.
"""
