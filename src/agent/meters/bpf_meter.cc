// SPDX-License-Identifier: Apache-2.0
// The BPF source of the latency meter: the program attached to the unit's interface.
#include "agent/meters/bpf_program.h"
#include "agent/meters/latency_meter.h"
#include "agent/meters/tc_hook.h"

namespace spillway::agent {
namespace {

class BpfMeter final : public LatencyMeter {
 public:
  BpfMeter(const AgentConfig& config, int ifindex, InterfaceLock lock, std::unique_ptr<BpfProgram> program)
      : LatencyMeter(config),
        lock_(std::move(lock)),
        program_(std::move(program)),
        hook_(config.interface, ifindex) {
    memory_ = program_->memory();
  }
  Result<void> Attach() { return hook_.Attach(program_->ingress_fd(), program_->egress_fd()); }

  int fd() const override { return program_->notices_fd(); }
  Notice Drain() override { return program_->TakeNotices() ? Notice::kLook : Notice::kNone; }
  const char* name() const override { return "bpf"; }

 private:
  InterfaceLock lock_;  // first taken, last let go
  std::unique_ptr<BpfProgram> program_;
  TcHook hook_;
};

}  // namespace

Result<std::unique_ptr<LatencyMeter>> OpenBpfMeter(const AgentConfig& config, int ifindex) {
  auto lock = InterfaceLock::Take(config.interface, ifindex);
  if (!lock) return tl::make_unexpected(lock.error());
  auto program = BpfProgram::Load(config, RandomSeed());
  if (!program) return tl::make_unexpected(program.error());
  auto meter = std::make_unique<BpfMeter>(config, ifindex, std::move(*lock), std::move(*program));
  if (auto attached = meter->Attach(); !attached) return tl::make_unexpected(attached.error());
  return meter;
}

}  // namespace spillway::agent
