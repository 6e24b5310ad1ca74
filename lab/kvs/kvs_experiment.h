// SPDX-License-Identifier: Apache-2.0
// spillway lab kvs: what each front end sustains on this machine, and what the model of worker cores says
// beyond it (src/sim/worker_cores.h). Answers the reviewers of the DLB paper (ISCA 2025): work stealing
// beside hashing, the NIC's own CPU, variance down to none, a path without a SmartNIC.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/document.h"

namespace spillway::lab {

struct KvsOptions {
  int workers = 2;
  int rounds = 5;
  std::chrono::milliseconds duration{1000};  // of one run
  std::vector<int> scan_pct = {0, 1, 5, 10};
  std::vector<int> load_pct = {30, 40, 50, 60, 70, 80, 90};
  uint32_t repeat = 4'000;   // look-ups per GET: some 0.3 ms, so that the network stack weighs little
  uint32_t scan_times = 10;  // a SCAN takes so many times as long as a GET
  bool measure = true;       // on this machine
  bool namespaces = false;   // client, host and NIC in one each, for which root is needed; else on loopback
  bool model = true;
  // The model's costs: assumptions of the order that `spillway bench dispatch` shows; measure and set them.
  double dispatch_us = 0.06, steal_us = 0.3;
  bool quick = false;
};

using OnKvsProgress = std::function<void(double fraction, const std::string& message)>;

// Rows of part "kvs": scan_pct, front_end, network, load_pct (of what rss served when overloaded), rate_rps,
// p50_us, p99_us, answered_pct, nic_cores, client_behind_us: medians of the rounds. Part "model": cores, mix
// or scv, service_us, front_end, sustained_load (share of the cores at p99 <= 10 mean service times),
// over_rss. Ratios: kvs_dispatch_over_rss_scan_N (sustained rates), model_crossover_scv_...; 0: dispatch is
// ahead at every variance down to none, -1: at none up to 16. Errors: kSystem, also when an answer was wrong.
[[nodiscard]] Result<report::Document> RunKvs(const KvsOptions& options, const OnKvsProgress& on_progress);

[[nodiscard]] std::string KvsText(const report::Document& document);

}  // namespace spillway::lab
