// SPDX-License-Identifier: Apache-2.0
#include "producers.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>

#include "dispatch/verbs_producer.h"

namespace spillway::dispatch {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{30};

int Complain(const Error& error) {
  fmt::print("producer: {}\n", error.message);
  return 1;
}

// All of them, unless the producer is cut off.
Result<void> PutAll(VerbsProducer& producer, uint64_t from, uint64_t to, size_t burst, uint32_t flow) {
  std::vector<Event> events(burst);
  const uint64_t deadline = Nanoseconds() + 60'000'000'000;
  for (uint64_t next = from; next < to;) {
    const size_t count = std::min<uint64_t>(burst, to - next);
    for (size_t i = 0; i < count; i++) {
      events[i].flow = flow;
      events[i].user = next + i;
    }
    const size_t taken = producer.Enqueue(std::span(events).first(count));
    next += taken;
    if (taken > 0) continue;
    if (auto status = producer.Status(); !status) return status;
    if (Nanoseconds() > deadline) return Fail(ErrorCode::kSystem, fmt::format("stuck at event {}", next));
  }
  return {};
}

int Stream(VerbsProducer& producer, uint64_t count, size_t burst, uint32_t flow, bool measured) {
  const uint64_t begin = Nanoseconds();
  const double cpu = CpuSeconds();
  if (auto put = PutAll(producer, 0, count, burst, flow); !put) return Complain(put.error());
  if (auto drained = producer.Drain(kPatience); !drained) return Complain(drained.error());
  if (!measured) return 0;
  const double took = static_cast<double>(Nanoseconds() - begin) * 1e-9;
  fmt::print("measured: burst {}: {:.0f} events/s, producer's CPU {:.1f} us per event\n", burst,
             static_cast<double>(count) / took, (CpuSeconds() - cpu) / static_cast<double>(count) * 1e6);
  return 0;
}

int Paced(VerbsProducer& producer, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    // Not by spinning: soft-RoCE's own work needs a processor.
    const timespec pause = {0, 500'000};
    nanosleep(&pause, nullptr);
    Event event;
    event.flow = static_cast<uint32_t>(i);
    do {
      event.user = Nanoseconds();
    } while (producer.Enqueue({&event, 1}) == 0);
  }
  const auto drained = producer.Drain(kPatience);
  return drained ? 0 : Complain(drained.error());
}

int Die(VerbsProducer& producer, uint64_t count) {
  if (auto put = PutAll(producer, 0, count, 8, 1); !put) return Complain(put.error());
  if (auto drained = producer.Drain(kPatience); !drained) return Complain(drained.error());
  (void)PutAll(producer, count, count + 50, 8, 1);
  return raise(SIGKILL);
}

// 0 when it is told that the window was closed for `wanted`.
int ExpectClosed(VerbsProducer& producer, WindowClosed wanted) {
  const Event good;
  const uint64_t deadline = Nanoseconds() + 20'000'000'000;
  while (producer.Status() && Nanoseconds() < deadline) (void)producer.Enqueue({&good, 1});
  const auto status = producer.Status();
  fmt::print("producer: {}\n", status ? "nothing is wrong" : status.error().message);
  return producer.Closed() == wanted && producer.Enqueue({&good, 1}) == 0 ? 0 : 1;
}

int Rubbish(VerbsProducer& producer, uint64_t count) {
  if (auto put = PutAll(producer, 0, count, 8, 1); !put) return Complain(put.error());
  Event bad;
  bad.priority = 200;
  while (producer.Enqueue({&bad, 1}) == 0) {
    if (auto status = producer.Status(); !status) return Complain(status.error());
  }
  return ExpectClosed(producer, WindowClosed::kBadEvent);
}

// Waits for the chain just posted; false: the connection broke.
bool Arrives(VerbsLink& link) {
  while (!link.Idle() && link.Broken().empty()) (void)link.Reap();
  return link.Broken().empty();
}

// Three laps, whatever is granted.
int Unpaid(std::unique_ptr<VerbsLink> link) {
  const WindowHeader& header = link->header();
  const int bits = std::countr_zero(header.slots);
  Slot* const slots = reinterpret_cast<Slot*>(link->memory() + kWindowRingsOffset);
  for (uint64_t lap = 0; lap < 3; lap++) {
    for (uint64_t i = 0; i < header.slots; i++)
      slots[i].meta.store(LapOf(lap << bits, bits) | uint64_t{header.queue} << 32);
    const VerbsLink::Transfer all = {VerbsLink::Kind::kWrite, kWindowRingsOffset,
                                     static_cast<uint32_t>(header.slots * sizeof(Slot))};
    if (!link->Post({&all, 1}, 1) || !Arrives(*link)) return 1;
  }
  return 0;
}

// One try per connection, as each ends it: the granted word, the header, behind the ring.
int Reach(const std::string& address, uint16_t port) {
  for (int attempt = 0; attempt < 3; attempt++) {
    auto link = VerbsLink::Connect(address, port, {.patience = kPatience});
    if (!link) return Complain(link.error());
    const std::array<uint64_t, 3> offsets = {offsetof(WindowWords, rings), 0, (*link)->header().bytes};
    const VerbsLink::Transfer beyond = {VerbsLink::Kind::kWrite, offsets[attempt], 16};
    if (!(*link)->Post({&beyond, 1}, 1)) return 1;
    if (Arrives(**link)) return 2;
    fmt::print("producer: {}\n", (*link)->Broken());
  }
  return 0;
}

int Waits(VerbsProducer& producer) {
  const uint64_t deadline = Nanoseconds() + 20'000'000'000;
  const Event event;
  if (producer.Enqueue({&event, 1}) != 1 && !producer.Status()) return 1;
  while (producer.Status() && Nanoseconds() < deadline) {
  }
  const auto status = producer.Status();
  fmt::print("producer: {}\n", status ? "nothing is wrong" : status.error().message);
  return status ? 2 : 0;
}

}  // namespace

uint64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

int Produce(const std::string& address, uint16_t port, const std::vector<std::string>& job) {
  const std::string& kind = job.at(0);
  const auto number = [&](size_t at) { return std::stoull(job.at(at)); };
  if (kind == "reach") return Reach(address, port);
  const std::string token = kind == "connect" && job.size() > 1 ? job[1] : "";
  auto link = VerbsLink::Connect(address, port, {.token = token, .patience = kPatience});
  if (!link) return Complain(link.error());
  if (kind == "unpaid") return Unpaid(std::move(*link));
  if (kind == "connect") return 0;
  VerbsProducer producer(std::move(*link));
  if (kind == "stream" || kind == "measure")
    return Stream(producer, number(1), number(2), static_cast<uint32_t>(number(3)), kind == "measure");
  if (kind == "paced") return Paced(producer, number(1));
  if (kind == "die") return Die(producer, number(1));
  if (kind == "rubbish") return Rubbish(producer, number(1));
  if (kind == "waits") return Waits(producer);
  fmt::print("producer: no job {}\n", kind);
  return 2;
}

}  // namespace spillway::dispatch
