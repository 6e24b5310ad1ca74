// SPDX-License-Identifier: Apache-2.0
// Two NVIDIA GPUs, one with MIG, by a library with NVML's names (fake_mig.cc).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/node_config.h"
#include "node/slices.h"

namespace spillway::node {

inline constexpr const char* kUuid = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa";
inline constexpr const char* kWholeUuid = "GPU-11111111-2222-3333-4444-555555555555";

inline std::string File(const std::string& gpus) {
  return "name: h\ncontroller: /run/c.sock\ngateway: /run/e.sock\nstate: state\ngpus:\n" + gpus;
}
inline const std::string kWhole = "  - {name: w, device: \"0\", gflop_per_s: 100}\n";
inline const std::string kCut =
    std::string("  - {name: c, device: ") + kUuid + ", gflop_per_s: 70, mig: true}\n";

inline scheduler::WantedInstance Wanted(uint64_t id, const std::string& gpu, int milli,
                                        std::optional<scheduler::Profile> profile = {}, int start = -1) {
  scheduler::WantedInstance wanted;
  wanted.instance = id;
  wanted.model.name = "m";
  wanted.model.program = R"({"models": [{"name": "m", "kind": "echo", "row_bytes": 8}]})";
  wanted.place = {"h", gpu, milli, profile, start};
  return wanted;
}

inline constexpr GpuWatchTimes kOften{.ask_again = std::chrono::milliseconds(1),
                                      .patience = std::chrono::seconds(60),
                                      .steady = std::chrono::milliseconds(0)};

class GpuSlicesTest : public testing::Test {
 protected:
  GpuSlicesTest() : library_(dlopen(FAKE_MIG, RTLD_NOW)) {
    config_ = *ParseNodeConfig(File(kWhole + kCut), "n.yaml");
    slices_ = std::move(*SlicesOf(config_, FAKE_MIG, kOften));
  }
  ~GpuSlicesTest() override {
    for (const auto& [one, mark] : made_) (void)slices_->Drop(one, mark, Forget);
    EXPECT_EQ(Instances(), 0u);
    dlclose(library_);
  }
  unsigned Instances() const {
    return reinterpret_cast<unsigned (*)()>(dlsym(library_, "FakeMig_Instances"))();
  }
  void FailOnce(const char* how) const {
    reinterpret_cast<void (*)(const char*)>(dlsym(library_, "FakeMig_Fail"))(how);
  }
  void Lose(unsigned gpu, bool is_lost) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Lose"))(gpu, is_lost);
  }
  unsigned Answers() const { return reinterpret_cast<unsigned (*)()>(dlsym(library_, "FakeMig_Answers"))(); }
  // To so many questions whether it is there.
  void AnswerUnknown(unsigned gpu, int times) const {
    reinterpret_cast<void (*)(unsigned, int)>(dlsym(library_, "FakeMig_AnswerUnknown"))(gpu, times);
  }
  void Hang(unsigned gpu, bool hangs) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Hang"))(gpu, hangs);
  }
  void SomebodyElseEndsAll() const { reinterpret_cast<void (*)()>(dlsym(library_, "FakeMig_EndAll"))(); }
  void SomebodyElseMakes3gAt(unsigned start, bool computes) const {
    reinterpret_cast<void (*)(unsigned, bool)>(dlsym(library_, "FakeMig_Make3gAt"))(start, computes);
  }
  // The marks that are kept, in order. The program is killed once so many are, or before the last of them.
  struct Killed {};
  Slices::Remember Kept(size_t kill_at = 100, bool is_before = false) {
    kept_.clear();
    return [this, kill_at, is_before](const std::string& mark) -> Result<void> {
      if (kept_.size() + 1 == kill_at && is_before) throw Killed();
      kept_.push_back(mark);
      if (kept_.size() == kill_at) throw Killed();
      return {};
    };
  }
  static Result<void> Forget(const std::string&) { return {}; }
  // The next program, of whose predecessor's marks the last was kept.
  std::unique_ptr<Slices> Restarted(const scheduler::WantedInstance& one) const {
    auto next = std::move(*SlicesOf(config_, FAKE_MIG));
    next->Restore(one);
    return next;
  }
  std::string LastKept() const { return kept_.empty() ? "" : kept_.back(); }
  Result<std::string> Make(const scheduler::WantedInstance& wanted) {
    auto made = slices_->Make(wanted, Forget);
    if (made) made_.emplace_back(wanted, *made);
    return made;
  }
  std::string MarkOf(const scheduler::WantedInstance& wanted) const {
    for (const auto& [one, mark] : made_)
      if (one.instance == wanted.instance) return mark;
    return "";
  }
  Result<void> Drop(const scheduler::WantedInstance& wanted) {
    return slices_->Drop(wanted, MarkOf(wanted), Forget);
  }
  Result<std::optional<SliceDevice>> DeviceOf(const scheduler::WantedInstance& wanted) {
    return slices_->DeviceOf(wanted, MarkOf(wanted));
  }

  void* library_;
  NodeConfig config_;
  std::unique_ptr<Slices> slices_;
  std::vector<std::pair<scheduler::WantedInstance, std::string>> made_;
  std::vector<std::string> kept_;
};

}  // namespace spillway::node
