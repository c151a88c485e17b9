#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Run Nova's own unit tests against our engine. They are read from Nova's package, and nothing of them is stored here.
#
# NOVA    the environment Nova is installed into, or is in already          [.venv-nova]
# Arguments are those of nova_tests/run.py.
set -eu
cd "$(dirname "$0")/../.."
NOVA=${NOVA:-.venv-nova}
[ -x "$NOVA/bin/nova-scheduler" ] || { python3 -m venv "$NOVA" && "$NOVA/bin/pip" install -q nova; }
# What Nova's tests import, and what our engine does.
"$NOVA/bin/python" -c 'import ddt, gabbi, openstack, oslotest, pymysql, requests_mock, testresources, testscenarios, wsgi_intercept, numpy, alembic' \
    2> /dev/null || "$NOVA/bin/pip" install -q ddt gabbi openstacksdk oslotest PyMySQL requests-mock testresources testscenarios wsgi-intercept \
    -r requirements.txt
exec "$NOVA/bin/python" tests/benchmarks/nova_tests/run.py "$@"
