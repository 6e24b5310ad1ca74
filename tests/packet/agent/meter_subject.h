// SPDX-License-Identifier: Apache-2.0
// The request meter as tests feed it: through meter.bpf.c (BPF_PROG_TEST_RUN), or through the AF_PACKET
// accounting.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <random>

#include "agent/meters/bpf_meter.h"
#include "agent/meters/packet_accounting.h"
#include "bpf/meter_backlog.h"
#include "packet.h"

namespace spillway::agent {

using test::Packet;
using namespace std::chrono_literals;

inline constexpr spw_seed kSeed = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11};

inline Time Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// One way to feed the meter.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void In(const std::vector<uint8_t>& frame) = 0;
  virtual void Out(const std::vector<uint8_t>& frame) = 0;
  virtual MeterMemory memory() = 0;
};

class BpfSubject : public Subject {
 public:
  explicit BpfSubject(const AgentConfig& config) {
    auto program = BpfProgram::Load(config, kSeed);
    if (program) program_ = std::move(*program);
    EXPECT_TRUE(program_) << program.error().message;
  }
  void In(const std::vector<uint8_t>& frame) override { Run(program_->ingress_fd(), frame); }
  void Out(const std::vector<uint8_t>& frame) override { Run(program_->egress_fd(), frame); }
  MeterMemory memory() override { return program_->memory(); }
  BpfProgram& program() { return *program_; }

 private:
  void Run(int fd, std::vector<uint8_t> frame) {
    std::vector<uint8_t> out(frame.size() + 256);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                .data_size_in = static_cast<uint32_t>(frame.size()),
                .data_size_out = static_cast<uint32_t>(out.size()));
    ASSERT_EQ(bpf_prog_test_run_opts(fd, &options), 0) << strerror(errno);
    // Goes on to the next filter, untouched.
    EXPECT_EQ(static_cast<int>(options.retval), -1);
    out.resize(options.data_size_out);
    EXPECT_EQ(out, frame);
  }
  std::unique_ptr<BpfProgram> program_;
};

class UserSubject : public Subject {
 public:
  explicit UserSubject(const AgentConfig& config) : accounting_(config, kSeed) {}
  void In(const std::vector<uint8_t>& frame) override { Feed(frame, SPW_METER_INGRESS); }
  void Out(const std::vector<uint8_t>& frame) override { Feed(frame, SPW_METER_EGRESS); }
  MeterMemory memory() override { return accounting_.memory(); }

 private:
  void Feed(const std::vector<uint8_t>& frame, spw_meter_direction direction) {
    // Exactly as large as the frame, so that a sanitizer sees a read beyond it.
    const size_t head = std::min<size_t>(frame.size(), 136);
    std::unique_ptr<uint8_t[]> buffer(new uint8_t[head + 2]);
    std::memcpy(buffer.get() + 2, frame.data(), head);
    accounting_.OnFrame({buffer.get() + 2, head}, static_cast<uint32_t>(frame.size()), direction, Now());
  }
  PacketAccounting accounting_;
};

inline AgentConfig Dns() {
  AgentConfig config;
  config.services = {{false, 53}, {true, 80}};
  config.meter.dns = true;
  config.meter.pending = 64;
  config.trigger.threshold = 100e6;
  return config;
}

enum class Kind { kBpf, kUser };

class MeterTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kBpf && geteuid() != 0) GTEST_SKIP() << "needs root: loads a BPF program";
    Start(Dns());
  }
  void Start(const AgentConfig& config) {
    if (GetParam() == Kind::kBpf)
      subject_ = std::make_unique<BpfSubject>(config);
    else
      subject_ = std::make_unique<UserSubject>(config);
  }
  void In(Packet& packet) { subject_->In(packet.Build()); }
  void Out(Packet& packet) { subject_->Out(packet.Build()); }
  MeterTotals Totals(Duration later = 0s) { return Collect(subject_->memory(), Now() + later); }
  spw_meter_counts Counts() { return Totals().counts; }

  void Query(uint16_t port, uint16_t id) {
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Udp(port, 53).Dns(id, false));
  }
  void Answer(uint16_t port, uint16_t id, uint8_t rcode = 0) {
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Udp(53, port).Dns(id, true, rcode));
  }
  // A request over TCP, and the first segment of its answer.
  void Exchange(const std::string& answer) {
    TcpIn("A", 100);
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, "A", 1).Text(answer));
  }
  void TcpIn(const std::string& flags, size_t bytes) {
    In(Packet().Ip4("10.1.0.1", "10.0.0.1").Tcp(40000, 80, flags).Payload(bytes));
  }
  void TcpOut(const std::string& flags, size_t bytes, uint32_t sequence = 1) {
    Out(Packet().Ip4("10.0.0.1", "10.1.0.1").Tcp(80, 40000, flags, sequence).Payload(bytes));
  }

  std::unique_ptr<Subject> subject_;
};

}  // namespace spillway::agent
