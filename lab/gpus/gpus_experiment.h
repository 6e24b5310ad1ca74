// SPDX-License-Identifier: Apache-2.0
// `spillway lab gpus`: the same jobs on real gateways and executors (emulated slices), under three policies,
// while requests are asked: for how long GPUs are on, and what moves do to requests.
#pragma once

#include <functional>
#include <string>

#include "lab/gpus/gpu_jobs.h"
#include "lab/testbed/host_network.h"
#include "report/document.h"
#include "report/html_page.h"

namespace spillway::lab {

struct GpusResult {
  report::Document document;
  report::HtmlPage page;
};

// Rows: policy (no-sharing, first-fit, spillway), jobs, network (namespaces, loopback), gpu_hours (as the
// file counts time), moves, moves_failed, gpus_most, requests, requests_lost, p99_ms_before_move,
// p99_ms_during_move (null: nothing moved). `programs`: the folder of the gateway, node agent and executor.
[[nodiscard]] Result<GpusResult> RunGpus(const GpuJobs& jobs, const std::string& programs,
                                         const std::string& folder, const HostNetwork& network,
                                         const std::function<void(double, const std::string&)>& progress);

}  // namespace spillway::lab
