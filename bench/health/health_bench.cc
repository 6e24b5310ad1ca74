// SPDX-License-Identifier: Apache-2.0
#include "health_bench.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>

#include "base/system_error.h"
#include "floor.h"
#include "health/checker.h"

namespace spillway::bench {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};  // until every unit has passed

// One socket for all addresses and its port.
Result<std::pair<int, uint16_t>> OpenServer(int type) {
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t length = sizeof(at);
  const int on = 1, buffer = 8 << 20;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0)
    return FailSystem("socket");
  if (type == SOCK_STREAM && listen(fd, 4096) != 0) return FailSystem("listen");
  if (type == SOCK_DGRAM) {
    (void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
  }
  return std::pair(fd, ntohs(at.sin_port));
}

// Sends each datagram back with the bit that makes a DNS query a response, from the address that it came to.
[[noreturn]] void EchoForEver(int fd) {
  char data[512], control[128];
  sockaddr_storage from{};
  while (true) {
    iovec part{data, sizeof(data)};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(fd, &message, 0);
    if (got < 3) continue;
    data[2] = static_cast<char>(data[2] | 0x80);
    part.iov_len = static_cast<size_t>(got);
    (void)sendmsg(fd, &message, 0);  // the IP_PKTINFO that came names the address to send from
  }
}

// A process that answers, ended with this one.
class Echo {
 public:
  static Result<std::unique_ptr<Echo>> Start() {
    auto server = OpenServer(SOCK_DGRAM);
    if (!server) return tl::make_unexpected(server.error());
    const pid_t parent = getpid(), child = fork();
    if (child < 0) return FailSystem("fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      EchoForEver(server->first);
    }
    close(server->first);
    return std::unique_ptr<Echo>(new Echo(child, server->second));
  }
  ~Echo() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  uint16_t port() const { return port_; }

 private:
  Echo(pid_t child, uint16_t port) : child_(child), port_(port) {}
  const pid_t child_;
  const uint16_t port_;
};

model::Config ConfigOf(uint32_t units, const model::HealthCheck& check) {
  model::Config config;
  config.data_plane.interfaces = {"lo"};
  model::Pool pool{"p", {}, 0};
  for (uint32_t u = 0; u < units; u++) {
    if (u % 8 == 0) pool.servers.push_back({fmt::format("s{}", u / 8), "", std::nullopt, std::nullopt, {}});
    model::Unit unit;
    unit.name = fmt::format("u{}", u % 8);
    // From 127.1.0.0: nobody else's.
    unit.address =
        *model::Address::Parse(fmt::format("127.{}.{}.{}", 1 + u / 62500, u / 250 % 250, 1 + u % 250));
    pool.servers.back().units.push_back(unit);
  }
  config.pools.push_back(std::move(pool));
  model::Service service;
  service.name = "v";
  service.pool = "p";
  service.health = check;
  config.services.push_back(service);
  return config;
}

struct Count {
  uint64_t passed = 0, failed = 0, skipped = 0;
  size_t up = 0;
};

Count CountChecks(const health::Checker& checker) {
  Count count;
  for (const health::CheckView& view : checker.Views()) {
    count.passed += view.passed;
    count.failed += view.failed;
    count.skipped += view.skipped;
    count.up += view.state == health::CheckState::kUp;
  }
  return count;
}

struct Figures {
  double checks_per_s = 0, cpu_pct = 0, us_per_check = 0;
  double floor_us = 0;  // of one check, by MeasureFloor
};

// Right after the checks' own window, so that both have the same of whatever else the machine does.
Result<double> FloorUs(uint32_t units, const model::HealthCheck& check, std::chrono::seconds window) {
  FloorLoad load{check.kind, {}, milliseconds(check.interval_ms), window};
  const model::Config config = ConfigOf(units, check);
  for (const auto& server : config.pools.front().servers)
    for (const auto& unit : server.units) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(check.port);
      std::memcpy(&to.sin_addr, unit.address.bytes.data(), sizeof(to.sin_addr));
      std::memcpy(&load.units.emplace_back(), &to, sizeof(to));
    }
  return MeasureFloor(load).map(
      [](const Floor& floor) { return 1e6 * (floor.cpu_pct / 100) / floor.packets_per_s; });
}

Result<Figures> Measure(uint32_t units, const model::HealthCheck& check, std::chrono::seconds window) {
  auto checker = health::Checker::Start(ConfigOf(units, check), [](const auto&, const auto&) {});
  if (!checker) return tl::make_unexpected(checker.error());
  const auto patience = steady_clock::now() + kPatience;
  while (CountChecks(**checker).up < units) {
    if (steady_clock::now() > patience) return Fail(ErrorCode::kSystem, "the units did not pass in time");
    std::this_thread::sleep_for(milliseconds(100));
  }
  const Count before = CountChecks(**checker);
  const double cpu_before = CpuSeconds();
  const auto began = steady_clock::now();
  std::this_thread::sleep_for(window);
  const double cpu_s = CpuSeconds() - cpu_before;
  const double wall_s = duration<double>(steady_clock::now() - began).count();
  const Count after = CountChecks(**checker);
  if (after.failed != 0 || after.skipped != 0)
    return Fail(ErrorCode::kSystem,
                fmt::format("{} checks failed and {} were skipped", after.failed, after.skipped));
  const double checks = double(after.passed - before.passed);
  Figures figures{checks / wall_s, 100 * cpu_s / wall_s, 1e6 * cpu_s / checks};
  checker->reset();  // its descriptors and ports are the floor's now
  const auto floor = FloorUs(units, check, window);
  if (!floor) return tl::make_unexpected(floor.error());
  figures.floor_us = *floor;
  return figures;
}

}  // namespace

Result<report::Document> RunHealthBench(const HealthBenchOptions& options,
                                        const std::function<void(double, const std::string&)>& progress) {
  auto echo = Echo::Start();
  if (!echo) return tl::make_unexpected(echo.error());
  const auto tcp = OpenServer(SOCK_STREAM);
  if (!tcp) return tl::make_unexpected(tcp.error());
  model::HealthCheck check;
  check.interval_ms = options.interval_ms;
  check.timeout_ms = 5'000;

  struct Row {
    model::CheckKind kind;
    uint32_t units;
    std::vector<Figures> rounds;
  };
  std::vector<Row> rows;
  for (const auto kind : {model::CheckKind::kTcp, model::CheckKind::kUdp, model::CheckKind::kDns})
    for (const uint32_t units : options.units) rows.push_back({kind, units, {}});
  double done = 0;
  for (int round = 0; round < options.rounds; round++)
    for (Row& row : rows) {
      progress(done / static_cast<double>(rows.size()) / options.rounds,
               fmt::format("{}, {} units", ToString(row.kind), row.units));
      check.kind = row.kind;
      check.port = row.kind == model::CheckKind::kTcp ? tcp->second : (*echo)->port();
      check.payload = row.kind == model::CheckKind::kUdp ? "ping" : "";
      check.query = row.kind == model::CheckKind::kDns ? "example.org" : "";
      const auto figures = Measure(row.units, check, options.window);
      if (!figures) {
        close(tcp->first);
        return Fail(figures.error().code,
                    fmt::format("{}, {} units: {}", ToString(row.kind), row.units, figures.error().message));
      }
      row.rounds.push_back(*figures);
      done++;
    }
  close(tcp->first);

  report::Document document("health");
  document.SetRounds(options.rounds);
  for (Row& row : rows) {
    std::sort(row.rounds.begin(), row.rounds.end(),
              [](const Figures& a, const Figures& b) { return a.us_per_check < b.us_per_check; });
    const Figures& median = row.rounds[row.rounds.size() / 2];
    document.AddRow({{"check", ToString(row.kind)},
                     {"units", row.units},
                     {"interval_ms", options.interval_ms},
                     {"checks_per_s", median.checks_per_s},
                     {"cpu_pct", median.cpu_pct},
                     {"floor_cpu_pct", median.floor_us * median.checks_per_s / 1e4},
                     {"check_us", median.us_per_check},
                     {"check_us_min", row.rounds.front().us_per_check},
                     {"check_us_max", row.rounds.back().us_per_check},
                     {"floor_us", median.floor_us}});
  }
  return document;
}

report::Table MakeHealthTable(const report::Document& document) {
  report::Table table({{"check", "CHECK"},
                       {"units", "UNITS"},
                       {"checks_per_s", "CHECKS/s", 0},
                       {"cpu_pct", "CPU [% of a core]", 1},
                       {"floor_cpu_pct", "KERNEL ALONE [%]", 1},
                       {"check_us", "PER CHECK [us]", 2},
                       {"check_us_min", "LEAST", 2},
                       {"check_us_max", "MOST", 2}});
  for (const auto& row : document.rows())
    table.AddRow({row.at("check").get<std::string>(), row.at("units").get<int64_t>(),
                  row.at("checks_per_s").get<double>(), row.at("cpu_pct").get<double>(),
                  row.at("floor_cpu_pct").get<double>(), row.at("check_us").get<double>(),
                  row.at("check_us_min").get<double>(), row.at("check_us_max").get<double>()});
  return table;
}

}  // namespace spillway::bench
