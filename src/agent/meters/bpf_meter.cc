// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/bpf_meter.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "agent/meters/latency_meter.h"
#include "agent/meters/tc_hook.h"
#include "meter.skel.h"

namespace spillway::agent {

namespace {

int LogLibbpf(libbpf_print_level level, const char* format, va_list arguments) {
  char line[1024];
  const int length = vsnprintf(line, sizeof(line), format, arguments);
  if (level == LIBBPF_DEBUG || length <= 0) return length;
  if (std::strchr(line, '\n')) *std::strchr(line, '\n') = 0;
  spdlog::debug("{}", line);
  return length;
}

template <class T>
T* MapMemory(const bpf_map* map, size_t count) {
  void* at = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
  return at == MAP_FAILED ? nullptr : static_cast<T*>(at);
}

int OnNotice(void* context, void* data, size_t size) {
  if (size < sizeof(spw_meter_notice)) return 0;
  spw_meter_notice notice;
  std::memcpy(&notice, data, sizeof(notice));
  *static_cast<std::optional<spw_meter_notice>*>(context) = notice;
  return 0;
}

Error BpfError(const char* operation, int error) {
  return {ErrorCode::kUnavailable, fmt::format("BPF meter: {}: {}", operation, strerror(error))};
}

}  // namespace

Result<std::unique_ptr<BpfProgram>> BpfProgram::Load(const AgentConfig& config, const spw_seed& seed) {
  libbpf_set_print(LogLibbpf);
  std::unique_ptr<BpfProgram> program(new BpfProgram);
  program->skeleton_ = meter_bpf__open();
  if (!program->skeleton_) return tl::make_unexpected(BpfError("open", errno));
  meter_bpf* skeleton = program->skeleton_;
  const int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return tl::make_unexpected(BpfError("possible CPUs", -cpus));
  program->cpu_count_ = static_cast<size_t>(cpus);
  program->bucket_count_ = BucketCount(config.meter);
  bpf_map__set_max_entries(skeleton->maps.counts, static_cast<uint32_t>(cpus));
  bpf_map__set_max_entries(skeleton->maps.pending, static_cast<uint32_t>(program->bucket_count_));
  // Before load these are initial values; after it, the program's memory itself.
  Configure(config, seed, static_cast<uint32_t>(program->bucket_count_), &skeleton->bss->meter_config);
  if (const int error = meter_bpf__load(skeleton)) return tl::make_unexpected(BpfError("load", -error));
  program->buckets_ = MapMemory<spw_meter_bucket>(skeleton->maps.pending, program->bucket_count_);
  program->counts_ = MapMemory<spw_meter_counts>(skeleton->maps.counts, program->cpu_count_);
  if (!program->buckets_ || !program->counts_) return tl::make_unexpected(BpfError("mmap", errno));
  program->ring_ =
      ring_buffer__new(bpf_map__fd(skeleton->maps.notices), OnNotice, &program->last_notice_, nullptr);
  if (!program->ring_) return tl::make_unexpected(BpfError("ring buffer", errno));
  return program;
}

BpfProgram::~BpfProgram() {
  ring_buffer__free(ring_);
  if (buckets_) munmap(buckets_, bucket_count_ * sizeof(*buckets_));
  if (counts_) munmap(counts_, cpu_count_ * sizeof(*counts_));
  if (skeleton_) meter_bpf__destroy(skeleton_);
}

int BpfProgram::ingress_fd() const { return bpf_program__fd(skeleton_->progs.meter_ingress); }
int BpfProgram::egress_fd() const { return bpf_program__fd(skeleton_->progs.meter_egress); }
int BpfProgram::notices_fd() const { return ring_buffer__epoll_fd(ring_); }

std::optional<spw_meter_notice> BpfProgram::TakeNotices() {
  last_notice_.reset();
  ring_buffer__consume(ring_);
  return last_notice_;
}

MeterMemory BpfProgram::memory() const {
  return {&skeleton_->bss->meter_config, &skeleton_->bss->meter_shared, &skeleton_->bss->meter_clocks,
          std::span(counts_, cpu_count_), std::span(buckets_, bucket_count_)};
}

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

  Result<bool> KeepAttached() override {
    if (hook_.IsAttached()) return false;
    return Attach().map([] { return true; });
  }

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
