// SPDX-License-Identifier: Apache-2.0
// Whole switches (switch/switch.h) in namespaces of the test's own, with a BPF file system of their own: as
// spillwayd starts, stops and adopts them. Packets are given to the program that is attached. One per
// process, one thread.
//
//   swa, swb ...  veth ends that switches attach to; all units are behind swa, by permanent neighbours
//   pool `p`      s1: cpu 10.0.1.1, nic 10.0.1.2    s2: 10.0.2.1 ...
//   web           203.0.113.10 tcp/80 udp/80, nat
//   reports to 192.0.2.1:9870; key of server number n: 16 bytes of value n
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "bpf/switch.h"
#include "packet_builder.h"
#include "switch/switch.h"

namespace spillway::switching {

class LiveBed {
 public:
  static LiveBed& Get();  // throws when it cannot be made

  const std::string& folder() const { return folder_; }
  Options OptionsOf(const std::string& instance) const;
  // Servers by number, in this order.
  model::Config PoolOf(const std::vector<int>& servers, const std::string& interface = "swa") const;
  // TCP services `web` of pool `p`, servers 1 and 2, and before it `api` of pool `q`, servers 3 and 4.
  model::Config TwoServices() const;

 private:
  LiveBed();
  std::string folder_;
};

// The program attached to an instance's interface, found by its pins as a stranger would.
class AttachedProgram {
 public:
  AttachedProgram(const Options& options, const std::string& interface);
  ~AttachedProgram();
  AttachedProgram(const AttachedProgram&) = delete;
  AttachedProgram& operator=(const AttachedProgram&) = delete;

  bool found() const { return fd_ >= 0; }
  // Verdict; `out`: the frame as it leaves.
  int Run(const Bytes& packet, Bytes* out = nullptr) const;
  // Runs it for real, as the driver would: a redirect is carried out.
  int RunLive(const Bytes& packet) const;
  // Address of the unit that a packet to a nat service is sent to; "" if it is not.
  std::string UnitOf(const Bytes& packet) const;

 private:
  int fd_ = -1;
  uint32_t ifindex_ = 0;
};

class LiveSwitchTest : public testing::Test {
 protected:
  LiveSwitchTest() : bed_(LiveBed::Get()) {}
  void TearDown() override;  // removes what the instances left

  std::unique_ptr<Switch> Start(const model::Config& config, const std::string& instance = "one");
  // As a kill -9: maps, pins and programs stay.
  static void Kill(std::unique_ptr<Switch>& sw) { sw.reset(); }
  AttachedProgram Attached(const std::string& instance = "one", const std::string& interface = "swa") {
    return {bed_.OptionsOf(instance), interface};
  }

  LiveBed& bed_;
  std::string error_;  // of the last Start
};

void Shell(const std::string& command);  // throws unless it ends with 0

}  // namespace spillway::switching
