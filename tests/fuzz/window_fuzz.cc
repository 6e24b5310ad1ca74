// SPDX-License-Identifier: Apache-2.0
// Memory that a remote producer shares with a dispatcher. As the host's: whatever stands in the slots and in
// the words beside them, events that are taken name what they may, a window is closed by the first that does
// not, and no more come than there are slots. As the producer's: whatever its host calls a window is none, or
// is used within its bounds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "dispatch/remote_producer.h"
#include "dispatch/window.h"

using namespace spillway::dispatch;

namespace {

constexpr uint16_t kQueue = 3;
constexpr size_t kBurst = 32;

// Stores of 8 bytes, each at a place of its own and followed by looks of the host's: 4 bytes of each are
// place, look, what lies there.
struct Step {
  uint16_t place;
  uint8_t priority;
  uint8_t most;
  uint64_t word;
};

void TakeAll(Window& window, uint8_t priority, size_t most) {
  Event events[kBurst];
  (void)window.Ready();
  (void)window.Ready(priority);
  if (window.Waiting(most) > most) std::abort();
  const size_t taken = window.Take(priority, events, most);
  if (taken > most) std::abort();
  for (size_t i = 0; i < taken; i++) {
    const bool is_asked = window.header().priorities == 1 || events[i].priority == priority;
    if (events[i].queue != kQueue || events[i].op != Op::kForward || !is_asked ||
        events[i].priority >= window.header().priorities)
      std::abort();
  }
  const WindowStatistics now = window.Statistics();
  if ((now.bad_events != 0) != (now.closed == WindowClosed::kBadEvent)) std::abort();
}

void AsHost(uint8_t shape, const uint8_t* bytes, size_t size) {
  const auto priorities = static_cast<uint16_t>(shape % kPriorities + 1);
  const auto window = Window::Create({.queue = kQueue,
                                      .rings = uint32_t{shape} / kPriorities % 3 + 1,
                                      .slots = 64,
                                      .priorities = priorities});
  if (!window) return;
  char* const memory = static_cast<char*>((*window)->memory());
  const size_t words = (*window)->header().bytes / sizeof(uint64_t);
  for (; size >= 12; bytes += 12, size -= 12) {
    Step step;
    std::memcpy(&step.place, bytes, 2);
    std::memcpy(&step.word, bytes + 4, 8);
    // Most of the window is header and slots that are not used: every second store is within the slots.
    size_t at = step.place / 2u % words;
    if (step.place % 2 != 0) at = kWindowRingsOffset / 8 + step.place / 2u % (words - kWindowRingsOffset / 8);
    std::memcpy(memory + at * 8, &step.word, sizeof(step.word));
    TakeAll(**window, bytes[2] % kPriorities, bytes[3] % (kBurst + 1));
  }
}

void AsProducer(uint8_t ring, const uint8_t* bytes, size_t size) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) return;
  // A file as long as it says, so that the fuzzer need not write all of a window.
  uint64_t says = 0;
  if (size >= sizeof(WindowHeader)) std::memcpy(&says, bytes + offsetof(WindowHeader, bytes), sizeof(says));
  const bool is_cut = ring >> 7 != 0;
  if (pwrite(fd, bytes, size, 0) != static_cast<ssize_t>(size) ||
      (!is_cut && says > size && says < 1 << 20 && ftruncate(fd, static_cast<off_t>(says)) != 0)) {
    close(fd);
    return;
  }
  if (const auto producer = RemoteProducer::Map(fd, ring % 128u)) {
    const Event events[3] = {};
    for (int i = 0; i < 40; i++)
      if ((*producer)->Enqueue(events) > 3) std::abort();
    (void)(*producer)->Closed();
  } else if (producer.error().message.empty()) {
    std::abort();
  }
  close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  if (bytes[0] % 2 == 0)
    AsHost(bytes[1], bytes + 2, size - 2);
  else
    AsProducer(bytes[1], bytes + 2, size - 2);
  return 0;
}
