// SPDX-License-Identifier: Apache-2.0
// A gateway with a controller and the node agents of its GPU hosts, as processes of this machine: the gateway
// in the SmartNIC's network namespace and each agent in its host's, where they may have some, and the agents
// ask the controller by TCP; else all by UNIX sockets. Executors share memory with the gateway in either
// case. One at a time in a folder; what a killed run left there is ended first.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/client.h"
#include "base/fd.h"
#include "gateway/client.h"
#include "lab/gpus/gpu_jobs.h"
#include "lab/testbed/host_network.h"
#include "lab/testbed/process.h"

namespace spillway::lab {

class GpuBed {
 public:
  // `controller`: further keys of `controller:` in gateway.yaml. Errors: kConflict, another run has the
  // folder; kSystem, with the program's last words.
  // The network outlives it.
  [[nodiscard]] static Result<std::unique_ptr<GpuBed>> Up(const std::string& folder,
                                                          const std::string& programs, const GpuJobs& jobs,
                                                          const std::string& controller,
                                                          const HostNetwork& network);
  // Ends all, and removes the folder's content.
  ~GpuBed();
  GpuBed(const GpuBed&) = delete;
  GpuBed& operator=(const GpuBed&) = delete;

  // Of the SmartNIC, from the client's namespace.
  [[nodiscard]] Result<gateway::Client> Connect() const;
  // What the controller says of the fleet (docs/models.md).
  [[nodiscard]] Result<nlohmann::json> Fleet();
  [[nodiscard]] Result<void> Add(const std::string& model, double share);
  [[nodiscard]] Result<void> Remove(const std::string& model);

 private:
  GpuBed(std::string folder, base::Fd lock, const HostNetwork& network);
  [[nodiscard]] Result<void> Start(const std::string& programs, const GpuJobs& jobs,
                                   const std::string& controller);
  void EndNodes(std::vector<ProcessId> nodes);

  std::string folder_;
  base::Fd lock_;
  const HostNetwork& network_;
  api::Client client_;
  ProcessId gateway_;
  std::vector<ProcessId> nodes_;
};

}  // namespace spillway::lab
