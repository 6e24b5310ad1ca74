// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/shm/inlet.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>

#include "base/fd.h"

namespace spillway::gateway {

base::Fd CopyOf(const base::Fd& fd) { return base::Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

uint32_t ChannelSlots(uint32_t cells) { return std::bit_ceil(std::max(cells, 8U)); }

ShmInlet::ShmInlet(SharedSlice slice, base::Fd ringer)
    : SliceInlet(slice.offer, slice.key), slice_(std::move(slice)), ringer_(std::move(ringer)) {}

Result<std::unique_ptr<ShmInlet>> ShmInlet::Make(const SliceOffer& offer, const base::Fd& completions) {
  SharedSlice slice;
  slice.offer = offer;
  slice.key = RandomKey();
  auto bell = MakeDoorbell();
  if (!bell) return tl::make_unexpected(bell.error());
  auto channel = Channel::Create(ChannelSlots(offer.cells), {std::move(bell->sleeper), CopyOf(completions)});
  if (!channel) return tl::make_unexpected(channel.error());
  auto memory = SharedMemory::Create("spillway-slice", CellLayout(offer).Bytes());
  if (!memory) return tl::make_unexpected(memory.error());
  slice.channel = std::move(*channel);
  slice.memory = std::move(*memory);
  return std::make_unique<ShmInlet>(std::move(slice), std::move(bell->ringer));
}

// The ring has more slots than the slice has cells: it cannot be full but by the gateway's fault.
void ShmInlet::Complete(const Completion& completion, uint64_t) { slice_.channel.Complete(completion); }

void ShmInlet::DoneWaiting() {
  HushBell(slice_.channel.bells().submissions);  // also of a ring that came late
  slice_.channel.DoneWaitingForSubmissions();
}

}  // namespace spillway::gateway
