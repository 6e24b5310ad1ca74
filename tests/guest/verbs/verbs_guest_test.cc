// SPDX-License-Identifier: Apache-2.0
// Windows over RDMA verbs, between two processes over an RDMA device: rxe0 in the guest (tests/guest/run
// --rdma), or a real one by SPILLWAY_VERBS_ADDRESS. Lines "measured: ..." are figures.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dispatch/domain.h"
#include "dispatch/verbs_producer.h"
#include "dispatch/verbs_window.h"
#include "producers.h"

namespace spillway::dispatch {
namespace {

std::string Address() {
  const char* given = std::getenv("SPILLWAY_VERBS_ADDRESS");
  return given != nullptr ? given : "192.0.2.1";
}

class VerbsWindows : public testing::Test {
 protected:
  void SetUp() override {
    auto domain = Domain::Open("native", {});
    ASSERT_TRUE(domain) << domain.error().message;
    domain_ = std::move(*domain);
    queue_ = domain_->AddQueue(QueueOptions()).value();  // atomic
    PortOptions port;
    port.queues = {queue_};
    worker_ = domain_->AddPort(port).value();
  }
  void Listen(size_t producers = 8, uint32_t slots = 1024) {
    VerbsHostOptions options;
    options.producers = producers;
    options.window.slots = slots;
    Listen(options);
  }
  void Listen(VerbsHostOptions options) {
    options.address = Address();
    options.window.queue = queue_;
    auto host = VerbsHost::Listen(*domain_, options);
    ASSERT_TRUE(host) << host.error().message;
    host_ = std::move(*host);
  }

  // A new program, not a fork: what a process knows of RDMA devices does not survive one.
  pid_t Start(const std::vector<std::string>& job) {
    std::vector<std::string> words = {"/proc/self/exe", "--produce", fmt::format("{}", host_->Port())};
    words.insert(words.end(), job.begin(), job.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = -1;
    EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
    return child;
  }

  // Serves until `done` says so; false after a minute. What came is in users_, by flow.
  bool ServeUntil(const std::function<bool()>& done) {
    std::vector<Event> burst(64);
    const uint64_t deadline = Nanoseconds() + 60'000'000'000;
    for (uint64_t turn = 0; Nanoseconds() < deadline; turn++) {
      burst.resize(64);
      burst.resize(worker_->Dequeue(burst));
      const uint64_t now = burst.empty() ? 0 : Nanoseconds();
      for (const Event& event : burst) {
        users_[event.flow].push_back(event.user);
        if (timed_) latencies_.push_back(now - event.user);
      }
      if (!burst.empty() || turn % 64 != 0) continue;
      EXPECT_TRUE(host_->Serve(std::chrono::milliseconds(0)));
      if (done()) return true;
    }
    return false;
  }
  // Until the children have exited and their windows are empty; their statuses.
  std::vector<int> ServeAll(std::vector<pid_t> children) {
    std::vector<int> statuses(children.size(), -1);
    EXPECT_TRUE(ServeUntil([&] {
      bool all = true;
      for (size_t i = 0; i < children.size(); i++) {
        if (children[i] > 0 && waitpid(children[i], &statuses[i], WNOHANG) == children[i]) children[i] = 0;
        all = all && children[i] == 0;
      }
      return all && host_->Statistics().windows == 0;
    })) << "stuck";
    for (const pid_t child : children) {
      if (child <= 0) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    return statuses;
  }
  // Of a flow: 0, 1, 2 .. count - 1, each once and in order.
  void ExpectNumbered(uint32_t flow, uint64_t count) {
    const std::vector<uint64_t>& users = users_[flow];
    EXPECT_EQ(users.size(), count);
    for (uint64_t i = 0; i < users.size(); i++) ASSERT_EQ(users[i], i) << "flow " << flow;
  }

  std::unique_ptr<Domain> domain_;
  uint16_t queue_ = 0;
  std::unique_ptr<Port> worker_;
  std::unique_ptr<VerbsHost> host_;
  std::map<uint32_t, std::vector<uint64_t>> users_;
  bool timed_ = false;
  std::vector<uint64_t> latencies_;
};

TEST_F(VerbsWindows, EachEventArrivesOnceAndInOrder) {
  Listen();
  const auto statuses = ServeAll({Start({"measure", "20000", "1", "1"})});
  EXPECT_EQ(statuses, std::vector<int>{0});
  ExpectNumbered(1, 20000);
  EXPECT_EQ(host_->Statistics().events, 20000u);
}

TEST_F(VerbsWindows, InBurstsThatDoNotFitTheRing) {
  Listen();
  EXPECT_EQ(ServeAll({Start({"measure", "100000", "32", "1"})}), std::vector<int>{0});
  EXPECT_EQ(ServeAll({Start({"stream", "20000", "23", "2"})}), std::vector<int>{0});
  ExpectNumbered(1, 100000);
  ExpectNumbered(2, 20000);
}

TEST_F(VerbsWindows, SeveralProducersAtOnce) {
  Listen();
  const auto statuses =
      ServeAll({Start({"stream", "20000", "16", "1"}), Start({"stream", "20000", "16", "2"}),
                Start({"stream", "20000", "7", "3"})});
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0}));
  for (uint32_t flow = 1; flow <= 3; flow++) ExpectNumbered(flow, 20000);
  EXPECT_EQ(host_->Statistics().accepted, 3u);
  EXPECT_EQ(host_->Statistics().left, 3u);
}

TEST_F(VerbsWindows, LatencyOfOneEventAtATime) {
  Listen();
  timed_ = true;
  EXPECT_EQ(ServeAll({Start({"paced", "2000"})}), std::vector<int>{0});
  ASSERT_EQ(latencies_.size(), 2000u);
  std::sort(latencies_.begin(), latencies_.end());
  fmt::print("measured: latency of one event, enqueue to dequeue: p50 {:.1f} us, p99 {:.1f} us\n",
             static_cast<double>(latencies_[1000]) * 1e-3, static_cast<double>(latencies_[1980]) * 1e-3);
}

// The host admits the producer, then sleeps until that has exited: the events are there all the same.
TEST_F(VerbsWindows, TheHostSleepsWhileEventsAreEnqueued) {
  Listen(1, 65536);
  const pid_t child = Start({"stream", "50000", "16", "1"});
  ASSERT_TRUE(ServeUntil([&] { return host_->Statistics().accepted == 1; }));
  const size_t before = users_[1].size();
  const double cpu = CpuSeconds();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const double spent = CpuSeconds() - cpu;
  EXPECT_EQ(status, 0);
  fmt::print("measured: the host's CPU while {} events were enqueued: {:.0f} us\n", 50000 - before,
             spent * 1e6);
  ASSERT_TRUE(ServeUntil([&] { return host_->Statistics().windows == 0; }));
  ExpectNumbered(1, 50000);
}

TEST_F(VerbsWindows, RubbishCostsItsSenderAlone) {
  Listen();
  const auto statuses = ServeAll({Start({"stream", "20000", "16", "9"}), Start({"rubbish", "100"})});
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  ExpectNumbered(9, 20000);
  ExpectNumbered(1, 100);
  const VerbsHostStatistics seen = host_->Statistics();
  EXPECT_EQ(seen.cut, 1u);
  EXPECT_EQ(seen.bad_events, 1u);
  EXPECT_EQ(seen.last_closed, WindowClosed::kBadEvent);
}

TEST_F(VerbsWindows, EventsWithoutCreditsCostTheirSenderAlone) {
  Listen();
  const auto statuses = ServeAll({Start({"stream", "20000", "16", "9"}), Start({"unpaid"})});
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  ExpectNumbered(9, 20000);
  EXPECT_EQ(host_->Statistics().cut, 0u);
  EXPECT_LE(users_[0].size(), 3u * 1024) << "it overwrote its own";
}

TEST_F(VerbsWindows, NothingButTheRingCanBeWritten) {
  Listen();
  const auto statuses = ServeAll({Start({"stream", "20000", "16", "9"}), Start({"reach"})});
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  ExpectNumbered(9, 20000);
  EXPECT_EQ(host_->Statistics().events, 20000u);
}

TEST_F(VerbsWindows, AProducerThatDiesLosesWhatWasOnItsWay) {
  Listen();
  const auto statuses = ServeAll({Start({"stream", "20000", "16", "9"}), Start({"die", "5000"})});
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1])) << statuses[1];
  ExpectNumbered(9, 20000);
  const size_t came = users_[1].size();
  EXPECT_GE(came, 5000u) << "what had arrived is served";
  EXPECT_LE(came, 5050u);
  ExpectNumbered(1, came);
  EXPECT_EQ(host_->Statistics().left, 2u);
  // Its place is free again.
  EXPECT_EQ(ServeAll({Start({"stream", "100", "1", "4"})}), std::vector<int>{0});
  ExpectNumbered(4, 100);
}

TEST_F(VerbsWindows, MoreThanTheHostTakesAreRefused) {
  Listen(1);
  const pid_t first = Start({"waits"});
  ASSERT_TRUE(ServeUntil([&] { return host_->Statistics().connected == 1; }));
  const pid_t second = Start({"connect"});
  int status = 0;
  EXPECT_TRUE(ServeUntil([&] { return waitpid(second, &status, WNOHANG) == second; }));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(host_->Statistics().refused, 1u);
  // And the first, when the host goes, is told.
  host_.reset();
  ASSERT_EQ(waitpid(first, &status, 0), first);
  EXPECT_EQ(status, 0);
}

TEST_F(VerbsWindows, WhoDoesNotKnowTheTokenIsRefused) {
  VerbsHostOptions options;
  options.token = "swordfish";
  Listen(options);
  EXPECT_EQ(ServeAll({Start({"connect"})}), std::vector<int>{W_EXITCODE(1, 0)}) << "without one";
  EXPECT_EQ(ServeAll({Start({"connect", "swordfis"})}), std::vector<int>{W_EXITCODE(1, 0)});
  EXPECT_EQ(host_->Statistics().refused, 2u);
  EXPECT_EQ(ServeAll({Start({"connect", "swordfish"})}), std::vector<int>{0});
  EXPECT_EQ(host_->Statistics().accepted, 1u);
}

TEST_F(VerbsWindows, NobodyListening) {
  const auto producer = VerbsProducer::Connect(Address(), 9);
  ASSERT_FALSE(producer);
  EXPECT_EQ(producer.error().message, fmt::format("RDMA host {} port 9: nobody listens there", Address()));
  EXPECT_EQ(producer.error().code, ErrorCode::kConflict);
}

}  // namespace
}  // namespace spillway::dispatch

int main(int argc, char** argv) {
  using namespace spillway::dispatch;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 3 && std::string(argv[1]) == "--produce") {
    const char* given = std::getenv("SPILLWAY_VERBS_ADDRESS");
    return Produce(given != nullptr ? given : "192.0.2.1", static_cast<uint16_t>(std::stoi(argv[2])),
                   {argv + 3, argv + argc});
  }
  testing::InitGoogleTest(&argc, argv);
  if (const auto device = spillway::rdma::OpenEventChannel(); !device) {
    fmt::print("skipped: {}\n", device.error().message);
    return 77;
  }
  return RUN_ALL_TESTS();
}
