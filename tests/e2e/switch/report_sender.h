// SPDX-License-Identifier: Apache-2.0
// Load reports as an agent would send them, made by the test. One thread per sender.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "core/report.h"
#include "lab/testbed/plan.h"
#include "model/pool.h"

namespace spillway::e2e {

class ReportSender {
 public:
  // Sends from the client's namespace, with the key of the plan's server number `server`.
  [[nodiscard]] static Result<std::unique_ptr<ReportSender>> Open(const lab::Plan& plan, size_t server);
  ~ReportSender();
  ReportSender(const ReportSender&) = delete;
  ReportSender& operator=(const ReportSender&) = delete;

  // The next report in sequence for this unit of the server, under its key or, forged, another.
  spw_report_wire Make(uint8_t unit, bool busy, uint8_t level = 0, uint16_t queue = 0);
  // As Make, of one that fails; `why`: 0, SPW_REPORT_REFUSED or SPW_REPORT_ERRORS.
  spw_report_wire MakeFailing(uint8_t unit, uint8_t why = 0);
  spw_report_wire Forge(uint8_t unit, bool busy);
  // Its first `bytes`.
  bool Send(const spw_report_wire& wire, size_t bytes = sizeof(spw_report_wire));

 private:
  ReportSender() = default;
  spw_report_wire Sign(uint8_t unit, uint8_t flags, uint8_t level, uint16_t queue);

  int socket_ = -1;
  spw_siphash_key key_{};
  uint16_t server_ = 0;
  uint64_t boot_id_ = 0;
  uint32_t sequence_ = 0;
};

}  // namespace spillway::e2e
