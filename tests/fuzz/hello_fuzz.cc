// SPDX-License-Identifier: Apache-2.0
// What a stranger says when he connects over RDMA, as the connection manager hands it on: too short is
// nothing, and what is taken has no byte beyond the last address and no window without bounds.
#include <cstdlib>
#include <cstring>

#include "dispatch/verbs_hello.h"
#include "gateway/transport/rdma/hello.h"
#include "rdma/connection.h"

using namespace spillway;

namespace {

template <class T>
std::optional<T> Hear(const rdma::Event& event) {
  const auto said = event.As<T>();
  if (said.has_value() != (event.bytes >= sizeof(T))) std::abort();
  if (said && std::memcmp(&*said, event.data.data(), sizeof(T)) != 0) std::abort();
  return said;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  uint64_t layout_bytes = 0;  // of the slice that was offered
  if (size < sizeof(layout_bytes)) return 0;
  std::memcpy(&layout_bytes, bytes, sizeof(layout_bytes));
  rdma::Event event;
  event.bytes = std::min(size - sizeof(layout_bytes), event.data.size());
  std::memcpy(event.data.data(), bytes + sizeof(layout_bytes), event.bytes);

  const auto slice = Hear<gateway::SliceHello>(event);
  for (const uint64_t address : {slice ? slice->inputs : 0, slice ? slice->host : 0})
    if (slice && gateway::IsUnderstood(*slice) && gateway::IsRoomAt(address, layout_bytes) &&
        address + layout_bytes < address)
      std::abort();
  const auto window = Hear<dispatch::VerbsHello>(event);
  if (window && dispatch::IsUnderstood(*window) && window->magic != dispatch::kWindowMagic) std::abort();
  const auto welcome = Hear<dispatch::VerbsWelcome>(event);
  if (welcome && dispatch::IsWindow(*welcome)) {
    const uint64_t taken = dispatch::WindowBytes(welcome->rings, welcome->slots);
    if (taken > (2u << 20) || welcome->address + taken < welcome->address) std::abort();
  }
  return 0;
}
