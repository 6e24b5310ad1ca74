// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/program_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace spillway::gateway {
namespace {

std::optional<uint32_t> IndexOf(const std::string& text) {
  uint32_t index = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, index);
  return error == std::errc() && rest == end ? std::optional(index) : std::nullopt;
}

// Of a list with commas; empty: it has fewer.
std::string EntryOf(std::string_view list, uint32_t number) {
  for (; number > 0; number--) {
    const size_t comma = list.find(',');
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
  return std::string(list.substr(0, list.find(',')));
}

// CUDA puts the fastest first, where it is not told otherwise: an index says which GPU only if all are alike.
bool OrderIsKnown(const GpuWishes& wishes, const std::vector<CudaDevice>& devices) {
  const CudaDevice* first = nullptr;
  for (const CudaDevice& device : devices) {
    if (device.is_instance()) continue;
    if (first == nullptr) first = &device;
    if (device.name != first->name) return wishes.by_bus;
  }
  return true;
}

}  // namespace

Result<std::string> ProgramGpu(const GpuWishes& wishes, const std::vector<CudaDevice>& devices) {
  const bool named = !wishes.named.empty();
  if (wishes.named == "none") return std::string();
  // Without NVIDIA's driver there is no GPU that others could share.
  if (devices.empty() && !named) return std::string();
  std::string device = wishes.named;
  if (!named) {
    device = wishes.visible ? EntryOf(*wishes.visible, wishes.ordinal) : std::to_string(wishes.ordinal);
    // As CUDA reads it: nothing, or what is no device, hides all.
    if (device.empty() || device == "-1") return std::string();
  }
  const auto index = IndexOf(device);
  if (index && !named && !OrderIsKnown(wishes, devices))
    return Fail(
        ErrorCode::kBadInput,
        "gpu: this machine has GPUs of several models, and their order in CUDA is not known: set gpu, "
        "$SPILLWAY_GPU or CUDA_DEVICE_ORDER=PCI_BUS_ID");
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const CudaDevice& one) {
    // CUDA takes the beginning of a uuid, too.
    return index ? !one.is_instance() && one.index == *index : one.uuid.starts_with(device);
  });
  if (found != devices.end()) return found->is_instance() ? found->gpu : found->uuid;
  return Fail(ErrorCode::kBadInput,
              fmt::format("gpu: expected none, an index as in nvidia-smi, GPU-UUID or MIG-UUID of this "
                          "machine, got {}",
                          device));
}

}  // namespace spillway::gateway
