// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/device_inputs.h"

#include <rdma/rdma_cma.h>

namespace spillway::gateway {
namespace {

class VerbsRegistration : public DeviceRegistration {
 public:
  explicit VerbsRegistration(rdma::Owned<ibv_mr> region) : region_(std::move(region)) {}
  [[nodiscard]] uint32_t remote_key() const override { return region_->rkey; }

 private:
  rdma::Owned<ibv_mr> region_;
};

class VerbsRegistrar : public DeviceRegistrar {
 public:
  explicit VerbsRegistrar(ibv_pd* domain) : domain_(domain) {}

  Result<std::unique_ptr<DeviceRegistration>> ByDmabuf(int dmabuf, std::span<std::byte> memory) override {
    return Taken(rdma::RegisterDmabuf(domain_, dmabuf, memory.data(), memory.size(), kAccess));
  }
  Result<std::unique_ptr<DeviceRegistration>> ByAddress(std::span<std::byte> memory) override {
    return Taken(rdma::Register(domain_, memory.data(), memory.size(), kAccess));
  }

 private:
  // Strict ordering, as on the host: writes of one connection are not to overtake one another.
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

  static Result<std::unique_ptr<DeviceRegistration>> Taken(Result<rdma::Owned<ibv_mr>> region) {
    if (!region) return tl::make_unexpected(region.error());
    return std::make_unique<VerbsRegistration>(std::move(*region));
  }

  ibv_pd* domain_;
};

}  // namespace

Result<std::unique_ptr<RdmaDeviceInputs>> RegisterInputs(std::unique_ptr<DeviceMemory> memory,
                                                         const sockaddr_storage& gateway,
                                                         std::chrono::steady_clock::time_point until) {
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto way = rdma::MakeId(channel->get());
  if (!way) return tl::make_unexpected(way.error());
  if (auto resolved = rdma::Resolve(channel->get(), way->get(), gateway, until); !resolved)
    return Fail(ErrorCode::kUnavailable, resolved.error().message);
  rdma::Owned<ibv_pd> domain(ibv_alloc_pd((*way)->verbs));
  if (domain == nullptr) return rdma::FailRdma("protection domain");
  VerbsRegistrar registrar(domain.get());
  auto registered = RegisterDeviceMemory(std::move(memory), registrar);
  if (!registered) return tl::make_unexpected(registered.error());
  return std::unique_ptr<RdmaDeviceInputs>(
      new RdmaDeviceInputs{std::move(*channel), std::move(*way), std::move(domain), std::move(*registered)});
}

}  // namespace spillway::gateway
