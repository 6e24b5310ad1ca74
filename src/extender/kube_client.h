// SPDX-License-Identifier: Apache-2.0
// The API server of Kubernetes, as far as the extender needs it.
//
// Threading: any thread, several at a time; each call has a connection of its own or one that is kept.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/client.h"
#include "model/error.h"
#include "model/pool.h"

namespace spillway::extender {

class KubeClient {
 public:
  explicit KubeClient(const model::ExtenderConfig& config);
  virtual ~KubeClient();
  KubeClient(const KubeClient&) = delete;
  KubeClient& operator=(const KubeClient&) = delete;

  // An error is no answer at all, in one line; an answer of any status is a Reply.
  [[nodiscard]] virtual Result<api::Reply> Get(const std::string& target);
  [[nodiscard]] virtual Result<api::Reply> Post(const std::string& target, const std::string& body);

  // Calls with each item of a list. It comes in pages, of which one at a time is in memory: `take` keeps what
  // it needs. An answer other than 200 is an error, too, whatever was taken before it.
  [[nodiscard]] Result<void> List(const std::string& target,
                                  const std::function<void(const nlohmann::json& item)>& take);

  // "403: pods is forbidden ...": status and what a Status object of Kubernetes says.
  [[nodiscard]] static std::string Explain(const api::Reply& reply);

 private:
  Result<std::string> Token() const;
  Result<api::Reply> Perform(const std::string& target, const std::string* body);

  const std::string url_, token_file_, ca_file_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::vector<void*> idle_;  // CURL*; under mutex_
};

}  // namespace spillway::extender
