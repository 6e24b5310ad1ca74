// SPDX-License-Identifier: Apache-2.0
// A testbed of the lab and the programs as a user runs them in it. One thread, the program's main one.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lab/testbed/testbed.h"

namespace spillway::e2e {

inline constexpr uint16_t kEchoPort = 7000;  // spillway-unit, TCP and UDP

struct Ran {
  int exit = -1;
  std::string out, err;
};

// Two services, "nat" and "dsr", of the same ports on the same units; no agents.
lab::TestbedSpec TwoModes(const std::string& name, int family, const std::vector<model::ServicePort>& ports);
lab::ServerSpec ServerOf(const std::string& name,
                         const std::vector<std::pair<std::string, spw_unit_kind>>& units,
                         lab::Workload runs = lab::Workload::kNone);

class Bed {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Bed>> Up(const lab::TestbedSpec& spec);

  const lab::Plan& plan() const { return testbed_->plan(); }
  const model::Config& config() const { return plan().config; }
  std::string vip(const std::string& service) const;
  // "http://[fd77::1]:80" and the like.
  std::string Url(const std::string& service, uint16_t port) const;

  // Starts spillway-unit on every unit, answering with the unit's label; waits for its ports. Again: nothing.
  // `more`: further words of its command.
  [[nodiscard]] Result<void> StartEchoes(const std::vector<std::string>& more = {});

  // Runs to its end, in the client's namespace or the given one. argv[0] as in PATH or absolute.
  Ran Run(const std::vector<std::string>& argv, const std::string& netns = "");
  Ran InClient(const std::vector<std::string>& argv) { return Run(argv, plan().client_netns); }
  // The CLI: {"drain", "lab/s1/cpu"} and so on.
  Ran Cli(std::vector<std::string> words);
  Ran Apply(const model::Config& config);
  void WritePoolFile(const std::string& text) const;

  nlohmann::json Show(const std::string& what);  // null if nobody answers
  nlohmann::json Unit(const std::string& server, const std::string& unit);
  uint64_t Counter(const std::string& name);

  lab::ProcessId daemon() const { return daemon_; }
  void Signal(int signal) const;
  [[nodiscard]] int AwaitExit();              // of spillwayd; 128 + signal if killed
  [[nodiscard]] Result<void> StartDaemon();   // until it answers
  [[nodiscard]] Result<void> LaunchDaemon();  // not waited for
  std::string DaemonLog() const;
  bool ApiAnswers() { return !Show("status").is_null(); }

  [[nodiscard]] Result<lab::ProcessId> StartIn(const std::string& netns, const std::vector<std::string>& argv,
                                               const std::string& log);

 private:
  explicit Bed(std::unique_ptr<lab::Testbed> testbed) : testbed_(std::move(testbed)) {}

  std::unique_ptr<lab::Testbed> testbed_;
  lab::ProcessId daemon_;
  int runs_ = 0;
  bool has_echoes_ = false;
};

// Testbeds by name, up from the first test that asks until Clear: they are dear to set up.
class SharedBeds {
 public:
  Bed* Get(const lab::TestbedSpec& spec);  // nullptr: see error()
  void Drop(const Bed* bed);               // the next Get makes it anew
  void Clear() { beds_.clear(); }
  const std::string& error() const { return error_; }

 private:
  std::map<std::string, std::unique_ptr<Bed>> beds_;
  std::string error_;
};

std::string ReadFile(const std::string& path);

}  // namespace spillway::e2e
