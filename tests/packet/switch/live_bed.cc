// SPDX-License-Identifier: Apache-2.0
#include "live_bed.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "checksums.h"
#include "switch/data_plane.h"

namespace spillway::switching {
namespace {

constexpr int kMaxServers = 40;

model::Server ServerOf(int number) {
  model::Server server;
  server.name = fmt::format("s{}", number);
  server.key.emplace();
  server.key->fill(static_cast<uint8_t>(number));
  server.key_file = "/nonexistent";
  for (int u = 1; u <= 2; u++) {
    model::Unit unit;
    unit.name = u == 1 ? "cpu" : "nic";
    unit.kind = u == 1 ? SPW_KIND_CPU : SPW_KIND_SMARTNIC;
    unit.capacity = u == 1 ? 6 : 1;
    unit.address = *model::Address::Parse(fmt::format("10.0.{}.{}", number, u));
    server.units.push_back(unit);
  }
  return server;
}

}  // namespace

void Shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

LiveBed& LiveBed::Get() {
  static LiveBed* bed = new LiveBed;  // its namespaces end with the process
  return *bed;
}

LiveBed::LiveBed() {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    throw std::runtime_error("these tests need root (CAP_SYS_ADMIN, CAP_BPF)");
  std::string name = testing::TempDir() + "/spillway-live-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = name;
  // In memory, so that nothing of it is left on disk however the process ends.
  if (mount("tmpfs", folder_.c_str(), "tmpfs", 0, nullptr) != 0) throw std::runtime_error("mount of a tmpfs");
  std::filesystem::create_directories(folder_ + "/bpf");
  std::string batch =
      "echo 1 > /proc/sys/net/ipv4/ip_forward && echo 1 > /proc/sys/net/ipv6/conf/all/forwarding &&";
  for (const char* end : {"swa", "swb"})
    batch += fmt::format(
        "ip link add {0} type veth peer name {0}x && ip link set {0} up && ip link set {0}x up &&"
        "ethtool -K {0}x tx off > /dev/null &&",
        end);
  batch += "ip addr add 10.0.255.254/16 dev swa && ip addr add 192.0.2.1/32 dev swa";
  for (int s = 1; s <= kMaxServers; s++)
    for (int u = 1; u <= 2; u++)
      batch += fmt::format(
          " && ip neigh add 10.0.{0}.{1} lladdr 02:cc:00:00:{0:02x}:{1:02x} dev swa nud permanent", s, u);
  Shell(batch);
}

Options LiveBed::OptionsOf(const std::string& instance) const {
  return {.instance = instance,
          .bpffs = folder_ + "/bpf",
          .run_dir = folder_ + "/run",
          .state_dir = folder_ + "/state"};
}

model::Config LiveBed::PoolOf(const std::vector<int>& servers, const std::string& interface) const {
  model::Config config;
  config.data_plane.interfaces = {interface};
  config.data_plane.flow_table_entries = 1 << 16;
  config.data_plane.report = model::ReportAddress{*model::Address::Parse("192.0.2.1")};
  config.pools.push_back({"p", {}, 0});
  for (const int number : servers) config.pools[0].servers.push_back(ServerOf(number));
  model::Service web;
  web.name = "web";
  web.vip = *model::Address::Parse("203.0.113.10");
  web.ports = {{model::Protocol::kTcp, 80}, {model::Protocol::kUdp, 80}};
  web.pool = "p";
  web.unit_policy = SPW_UNIT_WRR;
  config.services = {web};
  return config;
}

model::Config LiveBed::TwoServices() const {
  model::Config config = PoolOf({1, 2});
  config.pools.push_back({"q", PoolOf({3, 4}).pools[0].servers, 0});
  model::Service api = config.services[0];
  api.name = "api";
  api.vip = *model::Address::Parse("203.0.113.20");
  api.ports = {{model::Protocol::kTcp, 80}};
  api.pool = "q";
  config.services[0].ports = {{model::Protocol::kTcp, 80}};
  config.services.insert(config.services.begin(), api);
  return config;
}

AttachedProgram::AttachedProgram(const Options& options, const std::string& interface)
    : ifindex_(if_nametoindex(interface.c_str())) {
  const int link = bpf_obj_get((PinFolder(options) + "/link-" + interface).c_str());
  if (link < 0) return;
  bpf_link_info info{};
  uint32_t size = sizeof(info);
  if (bpf_obj_get_info_by_fd(link, &info, &size) == 0 && info.xdp.ifindex == ifindex_)
    fd_ = bpf_prog_get_fd_by_id(info.prog_id);
  close(link);
}

AttachedProgram::~AttachedProgram() {
  if (fd_ >= 0) close(fd_);
}

int AttachedProgram::Run(const Bytes& packet, Bytes* out) const {
  LIBBPF_OPTS(bpf_test_run_opts, options);
  xdp_md context{};
  uint8_t frame[2048];
  options.data_in = packet.data();
  options.data_size_in = static_cast<uint32_t>(packet.size());
  options.data_out = frame;
  options.data_size_out = sizeof(frame);
  context.data_end = static_cast<uint32_t>(packet.size());
  context.ingress_ifindex = ifindex_;
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  if (bpf_prog_test_run_opts(fd_, &options) != 0) return -1;
  if (out != nullptr) out->assign(frame, frame + options.data_size_out);
  return static_cast<int>(options.retval);
}

int AttachedProgram::RunLive(const Bytes& packet) const {
  LIBBPF_OPTS(bpf_test_run_opts, options);
  xdp_md context{};
  options.data_in = packet.data();
  options.data_size_in = static_cast<uint32_t>(packet.size());
  context.data_end = static_cast<uint32_t>(packet.size());
  context.ingress_ifindex = ifindex_;
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
  options.repeat = 1;
  return bpf_prog_test_run_opts(fd_, &options) == 0 ? 0 : -errno;
}

std::string AttachedProgram::UnitOf(const Bytes& packet) const {
  Bytes out;
  const int verdict = Run(packet, &out);
  if ((verdict != XDP_TX && verdict != XDP_REDIRECT) || out.size() < 34) return "";
  return fmt::format("{}.{}.{}.{}", out[30], out[31], out[32], out[33]);
}

void LiveSwitchTest::TearDown() {
  for (const char* instance : {"one", "two"}) {
    const auto removed = Switch::RemoveLeftovers(bed_.OptionsOf(instance));
    EXPECT_TRUE(removed) << removed.error().message;
  }
  for (const char* folder : {"/run", "/state"}) std::filesystem::remove_all(bed_.folder() + folder);
}

std::unique_ptr<Switch> LiveSwitchTest::Start(const model::Config& config, const std::string& instance) {
  auto started = Switch::Start(config, bed_.OptionsOf(instance));
  error_ = started ? "" : started.error().message;
  return started ? std::move(*started) : nullptr;
}

}  // namespace spillway::switching
