// SPDX-License-Identifier: Apache-2.0
// A gateway to which executors come over an RDMA device: rxe0 in the guest (tests/guest/run --rdma), or a
// real one by SPILLWAY_VERBS_ADDRESS.
#pragma once

#include <spawn.h>

#include <cstdlib>
#include <random>
#include <string>

#include "gateway/executor/program_slice.h"
#include "tests/unit/gateway/gateway_bed.h"
#include "tests/unit/gateway/model_specs.h"

namespace spillway::gateway {

inline constexpr const char* kToken = "executors-token";

inline std::string DeviceAddress() {
  const char* given = std::getenv("SPILLWAY_VERBS_ADDRESS");
  return given != nullptr ? given : "192.0.2.1";
}

inline GatewayConfig RemoteConfig(const std::string& port = "0") {
  GatewayConfig config = GatewayBed::Config();
  config.most_request = 64 << 20;
  config.rdma.listen = DeviceAddress() + ":" + port;
  config.rdma.token = kToken;
  return config;
}

inline GatewayAddress AddressOf(const GatewayBed& bed) {
  return {std::string(kRdmaPrefix) + bed.rdma_address, kToken};
}

inline std::vector<std::byte> Pattern(size_t bytes, uint64_t seed = 0) {
  std::minstd_rand random(static_cast<uint32_t>(seed + 1));
  std::vector<std::byte> pattern(bytes);
  for (std::byte& byte : pattern) byte = static_cast<std::byte>(random() >> 8);
  return pattern;
}

// This program once more, to play another part at that address: a process that may die.
inline pid_t StartOther(const std::string& part, const std::string& address) {
  std::vector<std::string> words = {"/proc/self/exe", part, address};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
  return child;
}
// A client that dies with requests in its window over RDMA in hand.
int DoomedClient(const std::string& address);

class EchoExecutor {
 public:
  EchoExecutor(const GatewayAddress& gateway, uint32_t slices, uint32_t cells, uint64_t bytes,
               int64_t row_bytes)
      : engine_(MakeEmulatedEngine({Echo(row_bytes, static_cast<int64_t>(bytes) / row_bytes)}).value()),
        stop_(MakeEventFd().value()) {
    ExecutorOptions options;
    options.gateway = gateway;
    options.name = "far";
    for (uint32_t i = 0; i < slices; i++)
      options.slices.push_back({"s" + std::to_string(i), "gpu0", 1000, cells, bytes, bytes});
    executor_.emplace(options, *engine_);
    thread_ = std::thread([this] { EXPECT_TRUE(executor_->Run(stop_.get())); });
  }
  ~EchoExecutor() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t wrote = write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }

 private:
  std::unique_ptr<Engine> engine_;
  base::Fd stop_;
  std::optional<Executor> executor_;
  std::thread thread_;
};

inline void AwaitExecutors(GatewayBed& bed, uint64_t count) {
  bed.Until([count](Server& server) { return server.counts().executors == count; });
}

// Rows of bytes, and as many back.
inline ModelCard ProgramModel(int64_t row_bytes = 8, int64_t rows = 4, int64_t output_bytes = 0) {
  ModelCard card;
  card.name = "program";
  card.inputs = {{"x", DataType::kU8, {-1, row_bytes}}};
  card.outputs = {{"y", DataType::kU8, {-1, output_bytes > 0 ? output_bytes : row_bytes}}};
  card.most_rows = rows;
  return card;
}

}  // namespace spillway::gateway
