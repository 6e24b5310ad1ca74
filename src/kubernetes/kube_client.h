// SPDX-License-Identifier: Apache-2.0
// Calls to the Kubernetes API server, as far as the extender needs them.
//
// Threading: any thread, several at a time; each call has a connection of its own or one that is kept.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/client.h"
#include "base/error.h"
#include "base/http/session.h"
#include "base/mutex.h"
#include "kubernetes/config.h"

namespace spillway::kubernetes {

class KubeClient {
 public:
  explicit KubeClient(const ExtenderConfig& config);
  virtual ~KubeClient();
  KubeClient(const KubeClient&) = delete;
  KubeClient& operator=(const KubeClient&) = delete;

  // An error is no answer at all, in one line; an answer of any status is a Reply.
  [[nodiscard]] virtual Result<api::Reply> Get(const std::string& target);
  [[nodiscard]] virtual Result<api::Reply> Post(const std::string& target, const std::string& body);
  // A merge patch.
  [[nodiscard]] virtual Result<api::Reply> Patch(const std::string& target, const std::string& body);

  // Calls with each item of a list. It comes in pages, of which one at a time is in memory: `take` keeps what
  // it needs. An answer other than 200 is an error, too, whatever was taken before it.
  // The list's resourceVersion, from which it can be watched; empty: the server said none.
  [[nodiscard]] Result<std::string> List(const std::string& target,
                                         const std::function<void(const nlohmann::json& item)>& take);

  // Calls with each event of a watch as it comes, until the server ends it, `take` says false, or `stop`,
  // which is asked about once a second, says true. An error: it is no watch, or has failed.
  [[nodiscard]] virtual Result<void> Watch(const std::string& target,
                                           const std::function<bool(const nlohmann::json& event)>& take,
                                           const std::function<bool()>& stop);

  // From now on Get fails at once, and a list at its next page: whoever ends waits for one answer at most,
  // not for a server that has always one more. What is sent (Post, Patch) is done or not, and is let through.
  void End() { ended_ = true; }

  // "403: pods is forbidden ...": status and what a Status object of Kubernetes says.
  [[nodiscard]] static std::string Explain(const api::Reply& reply);

 private:
  Result<std::string> Token() const;
  Result<http::Request> RequestOf(const std::string& target, const std::string& type) const;
  std::unique_ptr<http::Session> TakeSession() SPILLWAY_EXCLUDES(mutex_);
  Result<api::Reply> Perform(const std::string& target, const std::string* body, bool patch = false);

  const std::string url_, token_file_, ca_file_;
  const std::chrono::milliseconds timeout_;
  std::atomic<bool> ended_{false};
  base::Mutex mutex_;
  std::vector<std::unique_ptr<http::Session>> idle_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::kubernetes
