// SPDX-License-Identifier: Apache-2.0
#include "node/node_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/machine_boot.h"
#include "base/print.h"
#include "gateway/executor/executor_config.h"
#include "node/host_program.h"
#include "scheduler/job.h"

namespace spillway::node {
namespace {

using nlohmann::json;
using scheduler::HostInstance;
using scheduler::HostPhase;
using scheduler::Step;
using scheduler::WantedInstance;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kTalkEvery = 500ms;
constexpr auto kTalkEveryWhileEnding = 10ms;
constexpr auto kAskAgain = 200ms;
constexpr auto kActFor = 1s;  // less than the controller's silent_after: each step writes durably
// An executor waits 10 s itself for a device that hangs.
constexpr auto kKillAfter = 15s;
constexpr auto kGiveUpAfter = 20s;
constexpr std::chrono::milliseconds kKillAgain = 1s, kLongestPause = 1min;  // of what does not end
constexpr auto kMayEndItself = 1s;
constexpr int kNothingLeft = -1;  // of another boot of the machine
// Of a program, whose deepest value is a model's list of layers. What is read by recursion has a stack to
// fill.
constexpr int kMaxProgramDepth = 8;

// Discarded: the text is no JSON, or deeper.
json ProgramOf(const std::string& text) {
  bool is_too_deep = false;
  json program = json::parse(
      text,
      [&](int depth, json::parse_event_t, const json&) {
        is_too_deep = is_too_deep || depth > kMaxProgramDepth;
        return !is_too_deep;
      },
      false);
  return is_too_deep ? json(json::value_t::discarded) : program;
}

std::string WhatRuns(const Record& record) {
  const std::string& program = record.has.wanted.model.host_program;
  return program.empty() ? "its executor" : "its program " + program;
}

// Of an instance that was ending.
HostPhase PhaseOnceEnded(const Record& record) {
  return record.why.empty() ? HostPhase::kSlice : HostPhase::kFailed;
}

}  // namespace

Result<std::string> ExecutorFile(const NodeConfig& config, const WantedInstance& instance,
                                 const std::optional<SliceDevice>& device) {
  const json program = ProgramOf(instance.model.program);
  if (!program.is_object() || !program.contains("models"))
    return Fail(ErrorCode::kBadInput, "its program: expected an object with models");
  const scheduler::SlicePlace& place = instance.place;
  const double share = place.profile ? ShapeOf(*place.profile).compute / 7.0
                                     : static_cast<double>(place.milli) / scheduler::kWholeGpu;
  const auto speed = config.gflop_per_s.find(place.gpu);
  if (speed == config.gflop_per_s.end())
    return Fail(ErrorCode::kBadInput, fmt::format("GPU {} does not exist", place.gpu));
  json slice{{"name", "s"}, {"gflop_per_s", speed->second * share}};
  if (program.contains("cells")) slice["cells"] = program["cells"];
  if (device) {
    slice["device"] = device->device;
    slice["sm_percent"] = device->sm_percent;
  }
  // Hosts of a test share a machine, and so what executors take for their host: the GPU's name has both.
  json text{{"name", fmt::format("instance-{}", instance.instance)},
            {"gateway", config.gateway},
            {"gpus", {{{"name", config.name + "." + place.gpu}, {"slices", {slice}}}}}};
  // No more of it: engine, files and addresses are this host's to say.
  for (const char* key : {"cell", "models"})
    if (program.contains(key)) text[key] = program[key];
  if (device) text["engine"] = "cuda";
  if (!config.token_file.empty()) text["token_file"] = config.token_file;
  return text.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<std::unique_ptr<NodeAgent>> NodeAgent::Open(NodeConfig config, std::unique_ptr<Slices> slices,
                                                   std::string executor) {
  auto book = InstanceBook::Open(config.state);
  if (!book) return tl::make_unexpected(book.error());
  auto records = book->Read();
  if (!records) return tl::make_unexpected(records.error());
  std::unique_ptr<NodeAgent> agent(
      new NodeAgent(std::move(config), std::move(slices), std::move(executor), std::move(*book)));
  for (auto& [id, record] : *records) agent->TakeUp(std::move(record));
  return agent;
}

NodeAgent::NodeAgent(NodeConfig config, std::unique_ptr<Slices> slices, std::string executor,
                     InstanceBook book)
    : config_(std::move(config)),
      slices_(std::move(slices)),
      executor_(std::move(executor)),
      book_(std::move(book)),
      controller_(config_.controller) {}

// What a program before this one left: running executors are this one's now.
void NodeAgent::TakeUp(Record record) {
  const uint64_t id = record.has.wanted.instance;
  if (!record.slice_refused) slices_->Restore(record.has.wanted);
  auto child = Child::Find(record.process);
  Record& kept = records_[id] = std::move(record);
  if (child) {
    spdlog::info("instance {}: runs, process {}", id, kept.process.pid);
    children_.emplace(id, std::move(*child));
    if (kept.has.phase == HostPhase::kEnding) End(kept);
    // Killed between the executor's beginning and the word of it.
    if (kept.has.phase == HostPhase::kSlice) kept.has.phase = HostPhase::kRunning;
  } else if (kept.has.phase == HostPhase::kRunning) {
    HasEnded(kept, WhatRuns(kept) + " exited while no node agent was running", 0);
  } else if (kept.has.phase == HostPhase::kEnding || kept.process.pid != 0) {
    HasEnded(kept, kept.why, 0);  // or it is begun anew, beside nothing of the one before
  }
  Write(kept);
}

// Its main process has; of what that began something may be left, which keeps the slice until it is gone.
// `session`: that process, if it ended just now.
void NodeAgent::HasEnded(Record& record, const std::string& why, int session) {
  record.why = why;
  record.has.phase = HostPhase::kEnding;
  const bool is_of_this_boot = record.process.boot == base::BootId();
  left_behind_[record.has.wanted.instance] = {is_of_this_boot ? session : kNothingLeft, {}, kKillAgain};
}

void NodeAgent::EndLeftBehind() {
  const auto until = Clock::now() + kActFor;
  for (auto at = left_behind_.begin(); at != left_behind_.end() && Clock::now() < until;) {
    auto& [session, again, pause] = at->second;
    Record& record = records_.at(at->first);
    if (Clock::now() < again) {
      ++at;
      continue;
    }
    const size_t left = session == kNothingLeft ? 0 : Child::KillMarked(book_.MarkOf(at->first), session);
    if (left > 0) {
      spdlog::warn("instance {}: {} processes that it started do not exit", at->first, left);
      again = Clock::now() + pause;
      pause = std::min(2 * pause, kLongestPause);
      ++at;
      continue;
    }
    record.process = {};
    record.has.phase = PhaseOnceEnded(record);
    if (record.has.phase == HostPhase::kFailed) {
      spdlog::warn("instance {}: {}", at->first, record.why);
      untold_.insert(at->first);
    }
    Write(record);
    at = left_behind_.erase(at);
  }
}

void NodeAgent::Run(int stop_fd) {
  pollfd stop{stop_fd, POLLIN, 0};
  while (poll(&stop, 1, 0) == 0) {
    See();
    const bool is_done = Act();
    auto wait = IsEnding() ? kTalkEveryWhileEnding : kTalkEvery;
    if (!is_done || !untold_.empty()) wait = 0ms;
    if (!Talk(wait)) poll(&stop, 1, static_cast<int>(kAskAgain / 1ms));
  }
  EndAll();
}

void NodeAgent::See() {
  for (auto at = children_.begin(); at != children_.end();) {
    const auto how = at->second.Ended();
    const uint64_t id = at->first;
    Record& record = records_.at(id);
    if (!how) {
      book_.BoundLog(id);
      if (const auto due = end_at_.find(id); due != end_at_.end() && Clock::now() >= due->second) {
        end_at_.erase(due);
        Terminate(id);
      }
      const auto told = killed_at_.find(id);
      if (told != killed_at_.end() && Clock::now() - told->second > kKillAfter) at->second.Signal(SIGKILL);
      ++at;
      continue;
    }
    const int session = at->second.id().pid;
    at = children_.erase(at);
    const auto told = killed_at_.find(id);
    const bool is_killed = told != killed_at_.end() && Clock::now() - told->second > kKillAfter;
    const bool is_as_told = *how == "exit code 0" || *how == "signal 15" || *how == "it exited" || is_killed;
    killed_at_.erase(id);
    end_at_.erase(id);
    std::string why = record.why;
    if (record.has.phase != HostPhase::kEnding || (why.empty() && !is_as_told)) {
      const std::string word = book_.LastWord(id);
      why = fmt::format("{} exited: {}{}{}", WhatRuns(record), *how,
                        word.empty() ? "" : "; its last line: ", word);
    }
    HasEnded(record, why, session);
    Write(record);
  }
  EndLeftBehind();
}

bool NodeAgent::Act() {
  if (!orders_) return true;  // what the controller wants is not known yet
  for (const auto until = Clock::now() + kActFor;;) {
    std::vector<HostInstance> has;
    for (const auto& [id, record] : records_) has.push_back(record.has);
    const std::vector<Step> steps = Steps(orders_->wanted, has);
    bool is_stuck = steps.empty();
    for (const Step& step : steps) {
      is_stuck = !Take(step) || is_stuck;
      if (Clock::now() > until) return false;
    }
    if (is_stuck) return true;
  }
}

bool NodeAgent::Take(const Step& step) {
  const uint64_t id = step.instance.instance;
  switch (step.kind) {
    case Step::Kind::kMakeSlice:
      Make(step.instance);
      break;
    case Step::Kind::kStart:
      Begin(records_.at(id));
      break;
    case Step::Kind::kEnd:
      End(records_.at(id));
      break;
    case Step::Kind::kDropSlice:
      return DropSlice(id);
  }
  return true;
}

// A slice that stays keeps its instance, so that its place is given to nobody. What was refused may be there
// all the same, and be somebody else's.
bool NodeAgent::DropSlice(uint64_t id) {
  Record& record = records_.at(id);
  if (untold_.count(id) != 0) return false;
  const std::string mark = record.mark;
  if (!record.slice_refused)
    if (const auto gone = slices_->Drop(record.has.wanted, mark, Marks(record)); !gone) {
      if (record.why != gone.error().message) FailWith(record, gone.error().message);
      return false;
    }
  if (!record.why.empty()) book_.KeepLog(id, record.has.wanted.model.name);
  book_.Erase(id);
  records_.erase(id);
  spdlog::info("instance {}: gone", id);
  return true;
}

void NodeAgent::Make(const WantedInstance& instance) {
  Record& record = records_[instance.instance];
  record.has = {instance, HostPhase::kSlice};
  auto made = slices_->Make(instance, Marks(record));
  if (made) {
    record.mark = std::move(*made);
  } else {
    record.slice_refused = record.mark.empty();
    FailWith(record, made.error().message);
  }
  Write(record);
}

Slices::Remember NodeAgent::Marks(Record& record) {
  return [this, &record](const std::string& mark) {
    std::string before = std::exchange(record.mark, mark);
    // What the machine's end would lose is of no use after it.
    auto written = book_.Write(record, false);
    if (!written) record.mark = std::move(before);
    return written;
  };
}

// Of an executor its file is written.
Result<Child::Command> NodeAgent::CommandOf(const Record& record) const {
  const WantedInstance& wanted = record.has.wanted;
  const auto device = slices_->DeviceOf(wanted, record.mark);
  if (!device) return tl::make_unexpected(device.error());
  Child::Command command;
  if (!wanted.model.host_program.empty()) {
    auto words = WordsOf(config_, wanted.model);
    if (!words) return tl::make_unexpected(words.error());
    command.words = std::move(*words);
    command.environment = EnvironmentOf(config_, wanted, *device);
  } else {
    const std::string path = book_.ConfigOf(wanted.instance);
    const auto text = ExecutorFile(config_, wanted, *device);
    if (!text) return tl::make_unexpected(text.error());
    if (const auto good = gateway::ParseExecutorConfig(*text, path); !good)
      return tl::make_unexpected(good.error());
    if (const auto wrote = base::WriteFile(path, *text, {.mode = 0600, .is_durable = false}); !wrote)
      return tl::make_unexpected(wrote.error());
    command.words = {executor_, "-c", path};
  }
  command.environment.push_back(book_.MarkOf(wanted.instance));
  command.log = book_.LogOf(wanted.instance);
  return command;
}

void NodeAgent::Begin(Record& record) {
  const uint64_t id = record.has.wanted.instance;
  auto command = CommandOf(record);
  if (!command) return FailWith(record, command.error().message);
  const auto remember = [&](const ProcessId& process) {
    record.process = process;
    return book_.Write(record);
  };
  auto child = Child::Start(*command, remember);
  if (!child) {
    record.process = {};
    return FailWith(record, child.error().message);
  }
  record.has.phase = HostPhase::kRunning;
  spdlog::info("instance {}: model {} on GPU {}, process {}", id, record.has.wanted.model.name,
               record.has.wanted.place.gpu, record.process.pid);
  children_.emplace(id, std::move(*child));
  Write(record);
}

void NodeAgent::End(Record& record) {
  const uint64_t id = record.has.wanted.instance;
  record.has.phase = HostPhase::kEnding;
  // The gateway sees that a program is gone before its process is: what it ends with says more than a signal.
  if (!record.has.wanted.model.host_program.empty() && !is_leaving_)
    end_at_.emplace(id, Clock::now() + kMayEndItself);
  else
    Terminate(id);
  Write(record);
}

void NodeAgent::Terminate(uint64_t id) {
  killed_at_.emplace(id, Clock::now());
  const auto child = children_.find(id);
  if (child != children_.end()) child->second.Signal(SIGTERM);
}

void NodeAgent::FailWith(Record& record, const std::string& why) {
  record.has.phase = HostPhase::kFailed;
  record.why = why;
  spdlog::warn("instance {}: {}", record.has.wanted.instance, why);
  Write(record);
}

void NodeAgent::Write(const Record& record) {
  if (const auto written = book_.Write(record); !written) spdlog::error("{}", written.error().message);
}

bool NodeAgent::IsEnding() const {
  for (const auto& [id, record] : records_) {
    const auto left = left_behind_.find(id);
    const auto told = killed_at_.find(id);
    const bool hangs = (left != left_behind_.end() && left->second.pause > kKillAgain) ||
                       (told != killed_at_.end() && Clock::now() - told->second > kGiveUpAfter);
    if (record.has.phase == HostPhase::kEnding && !hangs) return true;
  }
  return false;
}

std::vector<scheduler::Gpu> NodeAgent::Gpus() {
  auto lost = slices_->Lost();
  std::vector<scheduler::Gpu> gpus = config_.gpus;
  for (scheduler::Gpu& gpu : gpus) {
    if (const auto why = lost.find(gpu.id); why != lost.end()) gpu.lost = why->second;
    const auto before = lost_.find(gpu.id);
    if (gpu.lost.empty() && before != lost_.end()) spdlog::info("GPU {} answers again", gpu.id);
    if (!gpu.lost.empty() && (before == lost_.end() || before->second != gpu.lost))
      spdlog::warn("GPU {} is lost: {}", gpu.id, gpu.lost);
  }
  lost_ = std::move(lost);
  return gpus;
}

// Tells what is here and hears what is to be. False: it was not heard.
bool NodeAgent::Talk(std::chrono::milliseconds wait) {
  scheduler::HostReport report{book_.identity(), Gpus(), {}, orders_ ? orders_->revision : 0, wait / 1ms};
  for (const auto& [name, words] : config_.programs) report.programs.insert(name);
  for (const auto& [id, record] : records_)
    report.held.push_back({id, record.has.phase == HostPhase::kFailed, record.slice_refused, record.why});
  const auto reply = controller_.Post("/v1/hosts/" + api::Client::Encode(config_.name), ToText(report));
  const auto answer = api::Client::Accept(reply, controller_.program());
  auto orders = answer ? scheduler::ParseHostOrders(*answer) : tl::make_unexpected(answer.error());
  if (!orders) {
    if (said_ != orders.error().message)
      spdlog::warn("{}{}; trying again", reply ? config_.controller.address + ": " : "",
                   base::Printable(orders.error().message));
    said_ = orders.error().message;
    return false;
  }
  std::erase_if(untold_, [&](uint64_t id) { return records_.at(id).has.phase == HostPhase::kFailed; });
  if (!orders_)
    spdlog::info("host {}: known to the controller, GPUs: {}", config_.name, config_.gpus.size());
  else if (!said_.empty())
    spdlog::info("the controller is back");
  said_.clear();
  orders_ = std::move(*orders);
  return true;
}

// Told to go: nothing of this host stays. The controller hears that the GPUs are gone, and then that all on
// them is.
void NodeAgent::EndAll() {
  config_.gpus.clear();
  Talk(0ms);
  is_leaving_ = true;
  untold_.clear();
  for (const auto& [id, at] : std::exchange(end_at_, {})) Terminate(id);
  orders_ = scheduler::HostOrders{orders_ ? orders_->revision : 0, {}};
  const auto until = Clock::now() + kGiveUpAfter;
  for (Act(); !records_.empty(); untold_.clear(), Act()) {
    // What hangs with its GPU was killed in vain by then, and slices are not taken back.
    const bool is_in_vain = std::all_of(children_.begin(), children_.end(), [&](const auto& entry) {
      const auto told = killed_at_.find(entry.first);
      return told != killed_at_.end() && Clock::now() - told->second > kGiveUpAfter;
    });
    if (Clock::now() > until && is_in_vain) break;
    std::vector<pollfd> ends;
    for (const auto& [id, child] : children_) ends.push_back({child.fd(), POLLIN, 0});
    poll(ends.data(), ends.size(), 100);
    See();
  }
  if (Talk(0ms)) Talk(0ms);
}

}  // namespace spillway::node
