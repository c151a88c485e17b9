# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about Nova's tests: patterns of names below nova.tests.unit, with a sentence for each."""

from __future__ import annotations

#: Modules with tests, besides the modules of host filters and weighers, which are found.
MODULES = (
    "test_weights",
    "scheduler.test_host_filters",
    "scheduler.test_host_manager",
    "scheduler.test_request_filter",
    "scheduler.test_utils",
    "virt.test_hardware",
    "pci.test_stats",
    "pci.test_request",
)
#: The numbers for all tests of Nova 34.
NUMBERS = {"applicable": 525, "different on purpose": 12}

_FILTERS, _WEIGHTS = "scheduler.filters.", "scheduler.weights."

#: Tests of Nova's internals: logs, mocks of its private functions, its objects, its database, other
#: projects.
NOT_APPLICABLE = {
    _FILTERS + "test_json_filters.*happy_day": (
        "asks for $capabilities.*, which no HostState of Nova 34 has; the test sets it on a fake"
    ),
    _FILTERS + "test_numa_topology_filters.*_candidates": (
        "replaces the fit (nova.virt.hardware) by a mock and counts its calls"
    ),
    _FILTERS + "test_numa_topology_filters.*no_matching_candidate_left": (
        "replaces the fit (nova.virt.hardware) by a mock"
    ),
    _FILTERS + "test_numa_topology_filters.*pass_set_limit": (
        "the host passes here too; then it wants limits left in the HostState"
    ),
    _WEIGHTS + "test_weights_image_props.TestTargetCellCalled.*": (
        "counts calls to databases of cells"
    ),
    "test_weights.*debug_log_with_json_formatter": "log lines",
    "virt.test_hardware.CPUPinningCellTestCase.*bug_1889633": (
        "the cell is refused here too; then it wants a line in the log"
    ),
    "virt.test_hardware.CPURealtimeTestCase.*": "real-time vCPUs, which drover refuses",
    "pci.test_request.*from_config_cached": "counts calls of the JSON parser",
    "pci.test_request.*missing_ids*": "refused here too, in other words",
    "pci.test_request.*multispec_rejected_pci_in_placement": "refused here too, in other words",
    "pci.test_request.*from_flavor_affinity_policy": "replaces a private function by a mock",
    "scheduler.test_request_filter.*image_type_support_adds_trait": (
        "we require the trait too; the test then expects a line in the log"
    ),
    "scheduler.test_utils.*bad_std_resource_class": "a line in the log",
}

#: Tests that fail because our result differs on purpose. docs/benchmarks.md names each.
ON_PURPOSE = {
    "scheduler.test_utils.*request_spec_granular": (
        "resources1:MEMORY_MB=bogus is ignored in Nova; ours refuses the request"
    ),
    _FILTERS + "test_compute_capabilities_filters.*pass_cpu_info_with_backward_compatibility": (
        "cpu_info as a whole: Nova has JSON text, ours a structure"
    ),
    _FILTERS + "test_extra_specs_ops.*fails_with_op_eq3": (
        "the operator = without a number matches no host in Nova; ours refuses the request"
    ),
    _FILTERS + "test_json_filters.*empty_filters_pass": (
        "the query {} passes all hosts in Nova; ours refuses what is no list ([] passes)"
    ),
    _WEIGHTS + "test_weights_metrics.*host_with_agg": (
        "a metric without a ratio is ignored in Nova; ours refuses the policy"
    ),
    _WEIGHTS + "test_weights_metrics.*missing_ratio": (
        "a metric without a ratio is ignored in Nova; ours refuses the policy"
    ),
    _WEIGHTS + "test_weights_metrics.*wrong_ratio": (
        "a ratio that is no number is ignored in Nova; ours refuses the policy"
    ),
    "virt.test_hardware.EmulatorThreadsTestCase.*isolate_w_isolate_thread_alloc_usage": (
        "N11.5: a host is refused on which the claim of Nova would fail"
    ),
    "virt.test_hardware.CPUSetTestCase.*valid_syntax_works": "an empty CPU set is refused",
    "scheduler.test_utils.*missing_extra_specs_value": (
        "an amount that is no number is ignored in Nova; ours refuses the request"
    ),
    "scheduler.test_utils.*request_spec_with_extra_specs": (
        "malformed amounts and trait86:X=preferred are ignored in Nova; ours refuses the request"
    ),
    "scheduler.test_utils.*no_limit_based_on_hint_2": "unknown hints are refused",
}
