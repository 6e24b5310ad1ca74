// SPDX-License-Identifier: Apache-2.0
// Asks models through a gateway, one request after the other, around all that are to be asked, and in between
// those that are moving, and keeps what came of it. A thread of its own; the rest may be called by any.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gateway/client.h"

namespace spillway::lab {

struct RequestsSeen {
  uint64_t asked = 0, lost = 0;
  std::string first_loss;                         // why
  std::vector<double> quiet_ms, while_moving_ms;  // of those answered; the latter: their model was moving
};

class RequestLog {
 public:
  explicit RequestLog(gateway::Client client);
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // From now on these are asked, no others: no request is under way to another when this returns. A request
  // counts as moving if its model was when it began or is when it ends.
  void Ask(std::set<std::string> models, std::set<std::string> moving);
  // Ends it.
  [[nodiscard]] RequestsSeen Finish();

 private:
  void Loop();
  void AskOne(const std::string& model) SPILLWAY_REQUIRES(asking_);

  base::Mutex asking_;  // held for the length of a request
  gateway::Client client_ SPILLWAY_GUARDED_BY(asking_);
  std::map<std::string, gateway::ClientModel> known_ SPILLWAY_GUARDED_BY(asking_);
  std::set<std::string> models_ SPILLWAY_GUARDED_BY(asking_);
  std::set<std::string> moving_ SPILLWAY_GUARDED_BY(asking_);
  RequestsSeen seen_ SPILLWAY_GUARDED_BY(asking_);
  std::string last_ SPILLWAY_GUARDED_BY(asking_), last_moving_ SPILLWAY_GUARDED_BY(asking_);
  bool stop_ SPILLWAY_GUARDED_BY(asking_) = false;
  std::thread thread_;
};

}  // namespace spillway::lab
