// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/shm/window.h"

#include "base/fd.h"

namespace spillway::gateway {
namespace {

// Of a window that has ended. Without holes whoever keeps a descriptor would keep the memory.
struct Remains {
  Channel channel;
  std::shared_ptr<const SharedMemory> memory;

  Remains(Channel of, std::shared_ptr<const SharedMemory> bytes)
      : channel(std::move(of)), memory(std::move(bytes)) {}
  ~Remains() {
    FreePages(memory->fd());
    FreePages(channel.fd());
  }
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;
};

}  // namespace

Result<std::unique_ptr<ShmServedWindow>> ShmServedWindow::Create(uint64_t bytes, uint32_t slots) {
  auto submissions = MakeEventFd();
  auto completions = MakeDoorbell();
  if (!submissions) return tl::make_unexpected(submissions.error());
  if (!completions) return tl::make_unexpected(completions.error());
  auto memory = SharedMemory::Create("spillway-window", bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  auto channel = Channel::Create(slots, {std::move(*submissions), std::move(completions->ringer)});
  if (!channel) return tl::make_unexpected(channel.error());
  auto window = std::make_unique<ShmServedWindow>();
  window->channel_ = std::move(*channel);
  window->clients_end_ = std::move(completions->sleeper);
  window->memory_ = std::make_shared<SharedMemory>(std::move(*memory));
  return window;
}

std::shared_ptr<void> ShmServedWindow::TakeMemory() {
  return std::make_shared<Remains>(std::move(channel_), std::move(memory_));
}

Result<std::unique_ptr<ShmClientWindow>> ShmClientWindow::Map(std::vector<base::Fd> fds, uint64_t bytes,
                                                              uint32_t slots) {
  if (fds.size() != 4) return Fail(ErrorCode::kBadInput, "expected four descriptors of a window");
  // An eventfd, which older gateways sent, would never be hushed.
  if (const auto good = CheckRinger(fds[3]); !good) return tl::make_unexpected(good.error());
  auto channel = Channel::Map(std::move(fds[0]), slots, {std::move(fds[2]), std::move(fds[3])});
  if (!channel) return tl::make_unexpected(channel.error());
  auto memory = SharedMemory::Map(std::move(fds[1]), bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  auto window = std::make_unique<ShmClientWindow>();
  window->channel_ = std::move(*channel);
  window->memory_ = std::move(*memory);
  return window;
}

void ShmClientWindow::DoneWaiting(bool has_rung) {
  channel_.DoneWaitingForCompletions();
  if (has_rung) HushBell(channel_.bells().completions);
}

}  // namespace spillway::gateway
