// SPDX-License-Identifier: Apache-2.0
// Makes its host have what the controller wants: slices, and executors as child processes. These outlive it
// when it is killed, and are found again; when it is told to end, it ends them. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/client.h"
#include "node/child.h"
#include "node/instance_book.h"
#include "node/node_config.h"
#include "node/slices.h"
#include "scheduler/controller/host_message.h"

namespace spillway::node {

// executor.yaml of an instance: one slice of the share that its place has, on that device unless it is
// emulated, and of its program `cell`, `cells` and `models` alone. kBadInput: its program is none.
[[nodiscard]] Result<std::string> ExecutorFile(const NodeConfig& config,
                                               const scheduler::WantedInstance& instance,
                                               const std::optional<SliceDevice>& device = {});

class NodeAgent {
 public:
  // `executor`: the program. Takes up what its book says.
  [[nodiscard]] static Result<std::unique_ptr<NodeAgent>> Open(NodeConfig config,
                                                               std::unique_ptr<Slices> slices,
                                                               std::string executor);
  // Until `stop_fd` is readable; then ends what it began, and tells so.
  void Run(int stop_fd);

 private:
  NodeAgent(NodeConfig config, std::unique_ptr<Slices> slices, std::string executor, InstanceBook book);

  void TakeUp(Record record);
  void See();  // who has ended
  void HasEnded(Record& record, const std::string& why, int session);
  void EndLeftBehind();
  // False: more is to be done, but the controller should hear of this host first.
  bool Act();
  bool Take(const scheduler::Step& step);  // false: it is to be tried again
  bool DropSlice(uint64_t id);
  void Make(const scheduler::WantedInstance& instance);
  [[nodiscard]] Slices::Remember Marks(Record& record);
  [[nodiscard]] Result<Child::Command> CommandOf(const Record& record) const;
  void Begin(Record& record);
  void End(Record& record);
  void Terminate(uint64_t id);
  void FailWith(Record& record, const std::string& why);
  void Write(const Record& record);
  [[nodiscard]] std::vector<scheduler::Gpu> Gpus();  // as they are now
  bool Talk(std::chrono::milliseconds wait);
  void EndAll();
  [[nodiscard]] bool IsEnding() const;

  NodeConfig config_;
  std::unique_ptr<Slices> slices_;
  std::string executor_;
  InstanceBook book_;
  api::Client controller_;
  std::map<uint64_t, Record> records_;
  std::map<uint64_t, Child> children_;
  // Of those that are ending: when they are to be told by SIGTERM, and when they were.
  std::map<uint64_t, std::chrono::steady_clock::time_point> end_at_, killed_at_;
  bool is_leaving_ = false;
  struct LeftBehind {
    int session;
    std::chrono::steady_clock::time_point again;  // when it is next killed
    std::chrono::milliseconds pause;              // and how much later the time after that
  };
  std::set<uint64_t> untold_;                   // that have failed, of which the controller has not heard
  std::map<uint64_t, LeftBehind> left_behind_;  // by instances whose main process has ended
  std::optional<scheduler::HostOrders> orders_;
  std::string said_;                         // of the controller, last
  std::map<std::string, std::string> lost_;  // GPUs, and why, as was told last
};

}  // namespace spillway::node
