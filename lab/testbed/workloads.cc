// SPDX-License-Identifier: Apache-2.0
#include "workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace spillway::lab {
namespace {

constexpr int kHosts = 1000;
// What waits behind so many is too late by the lab's measure (ten times the unloaded latency); with more,
// a run would begin with what the last one left.
constexpr uint32_t kQueuePerWorker = 20;
// Likewise for emulated units, whose wait is known: twice the lab's measure.
constexpr double kLongestWait = 20;     // in latencies of a lone request
constexpr uint32_t kSocketQueue = 256;  // small datagrams in a receive buffer of 208 KiB, Linux's default
// For weights or vectors, generated under a small quota.
constexpr std::chrono::seconds kGenerating{180};

std::vector<std::string> Addresses(const model::Config& config, const UnitPlan& unit) {
  std::vector<std::string> all{unit.address.ToString()};
  for (const model::Service& service : config.services)
    if (service.mode == SPW_MODE_DSR_L2) all.push_back(service.vip.ToString());
  return all;
}

std::set<uint16_t> Ports(const TestbedSpec& spec) {
  std::set<uint16_t> ports;
  for (const ServiceSpec& service : spec.services)
    for (const model::ServicePort& port : service.ports) ports.insert(port.port);
  return ports;
}

std::string NsdConf(const UnitPlan& unit, const std::vector<std::string>& addresses, const Paths& paths) {
  std::string text = "server:\n";
  for (const std::string& a : addresses) text += fmt::format("  ip-address: {}\n", a);
  // No privileges to drop and no state to keep: it lives in namespaces and for minutes.
  text += fmt::format(
      "  port: 53\n  username: \"\"\n  database: \"\"\n  pidfile: \"\"\n  xfrdfile: \"{0}/{1}.xfrd\"\n"
      "  zonelistfile: \"{0}/{1}.zones\"\n  zonesdir: \"{0}\"\n  server-count: 1\n  rrl-ratelimit: 0\n"
      "remote-control:\n  control-enable: no\n"
      "zone:\n  name: example.org\n  zonefile: example.org.zone\n",
      paths.folder, unit.label);
  return text;
}

std::string KnotConf(const UnitPlan& unit, const std::vector<std::string>& addresses, const Paths& paths) {
  std::string text = fmt::format("server:\n  rundir: {}/{}.knot\n", paths.folder, unit.label);
  for (const std::string& a : addresses) text += fmt::format("  listen: {}@53\n", a);
  const KnotSigning& knot = unit.spec.knot;
  std::string sizes;
  if (knot.key_bits != 0) sizes = fmt::format("    ksk-size: {0}\n    zsk-size: {0}\n", knot.key_bits);
  text += fmt::format(
      "  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"
      "database:\n  storage: {0}/{1}.knot\n"
      "log:\n  - target: stderr\n    any: warning\n"
      "policy:\n  - id: lab\n    algorithm: {2}\n    single-type-signing: on\n{3}"
      "mod-onlinesign:\n  - id: lab\n    policy: lab\n"
      "zone:\n  - domain: example.org\n    storage: {0}\n    file: example.org.zone\n"
      "    zonefile-load: whole\n    module: mod-onlinesign/lab\n",
      paths.folder, unit.label, knot.algorithm, sizes);
  return text;
}

std::string NginxConf(const UnitPlan& unit, const std::vector<std::string>& addresses, uint16_t port,
                      const Paths& paths) {
  std::string listen;
  for (const std::string& a : addresses)
    listen += fmt::format("    listen {}:{}{};\n", a.find(':') == std::string::npos ? a : "[" + a + "]", port,
                          unit.spec.nginx.tls ? " ssl" : "");
  // Each connection pays for its handshake, as a new client's does.
  if (unit.spec.nginx.tls)
    listen += fmt::format(
        "    ssl_certificate {0}/{1};\n    ssl_certificate_key {0}/{2};\n    ssl_session_cache off;\n"
        "    ssl_session_tickets off;\n",
        paths.folder, kCertificateFile, kCertificateKey);
  return fmt::format(
      "daemon off;\nuser root;\nworker_processes 1;\npid {0}/{1}.nginx.pid;\nerror_log stderr warn;\n"
      "events {{ worker_connections 4096; }}\n"
      "http {{\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000;\n"
      "  client_body_temp_path {0}/{1}.nginx; proxy_temp_path {0}/{1}.nginx;\n"
      "  fastcgi_temp_path {0}/{1}.nginx; uwsgi_temp_path {0}/{1}.nginx; scgi_temp_path {0}/{1}.nginx;\n"
      "  server {{\n{2}    root {0}/www;\n    add_header X-Unit {1};\n"
      "    location = /unit {{ return 200 \"{1}\\n\"; }}\n  }}\n}}\n",
      paths.folder, unit.label, listen);
}

// Bodies of sizes a curl can name; not compressible to one packet, not random either.
std::string Body(size_t bytes) {
  std::string text;
  text.reserve(bytes);
  for (uint32_t x = 1; text.size() < bytes; x = x * 1664525u + 1013904223u)
    text.push_back(static_cast<char>('a' + (x >> 24) % 26));
  return text;
}

// Where spillway-unit and spillway-compute answer: at every service's port.
void AddEndpoints(const TestbedSpec& spec, const std::vector<std::string>& addresses, ProcessPlan& process) {
  for (const std::string& a : addresses)
    for (uint16_t port : Ports(spec))
      process.argv.insert(process.argv.end(),
                          {"--listen", a.find(':') == std::string::npos ? fmt::format("{}:{}", a, port)
                                                                        : fmt::format("[{}]:{}", a, port)});
  for (const ServiceSpec& service : spec.services)
    process.ready.ports.insert(process.ready.ports.end(), service.ports.begin(), service.ports.end());
}

void AddComputation(const UnitSpec& unit, std::vector<std::string>& argv) {
  const auto add = [&](std::initializer_list<std::string> words) {
    argv.insert(argv.end(), words.begin(), words.end());
  };
  if (unit.runs == Workload::kSynthetic) {
    add({"synthetic", "--gflop", fmt::format("{}", unit.synthetic.gflop)});
  } else if (unit.runs == Workload::kVgg16) {
    add({"vgg16", "--size", fmt::format("{}", unit.vgg16.size), "--precision", unit.vgg16.precision});
  } else {
    add({"knn", "--vectors", fmt::format("{}", unit.knn.vectors), "--dimensions",
         fmt::format("{}", unit.knn.dimensions), "--neighbours", fmt::format("{}", unit.knn.neighbours)});
  }
}

}  // namespace

std::string ZoneText() {
  std::string text = "$TTL 3600\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\nns IN A 192.0.2.1\n";
  for (int i = 1; i <= kHosts; i++) text += fmt::format("h{} IN A 192.0.2.{}\n", i, i % 250 + 1);
  return text;
}

std::string QueryFileText() {
  std::string text;
  for (int i = 1; i <= kHosts; i++) text += fmt::format("h{}.example.org A\n", i);
  return text;
}

uint32_t QueueLimitOf(const UnitSpec& unit) {
  if (unit.runs == Workload::kEmulated) {
    const Emulated& e = unit.emulated;
    const auto longest = kLongestWait * static_cast<double>((e.service + e.latency).count());
    const auto service = static_cast<double>(std::max<int64_t>(1, e.service.count()));
    return e.workers + static_cast<uint32_t>(std::ceil(std::min(longest / service * e.workers, 1e6)));
  }
  if (Computes(unit.runs)) return WorkersOf(unit) * (1 + kQueuePerWorker);
  return kSocketQueue;
}

WorkloadPlan PlanWorkload(const TestbedSpec& spec, const model::Config& config, const UnitPlan& unit,
                          const Paths& paths) {
  WorkloadPlan plan;
  const std::vector<std::string> addresses = Addresses(config, unit);
  const std::string conf = fmt::format("{}/{}.conf", paths.folder, unit.label);
  ProcessPlan process{unit.label, unit.netns, {}, spec.cpus.units, unit.spec.quota, {}, {}};
  const std::vector<model::ServicePort> dns = {{model::Protocol::kUdp, 53}, {model::Protocol::kTcp, 53}};
  switch (unit.spec.runs) {
    case Workload::kNone:
      return plan;
    case Workload::kNsd:
      plan.files[conf] = NsdConf(unit, addresses, paths);
      plan.files[paths.folder + "/example.org.zone"] = ZoneText();
      process.argv = {"nsd", "-d", "-c", conf};
      process.ready.ports = dns;
      break;
    case Workload::kKnot:
      plan.files[conf] = KnotConf(unit, addresses, paths);
      plan.files[paths.folder + "/example.org.zone"] = ZoneText();
      plan.files[fmt::format("{}/{}.knot/README", paths.folder, unit.label)] = "knotd's own state\n";
      process.argv = {"knotd", "-c", conf};
      process.ready.ports = dns;
      break;
    case Workload::kNginx: {
      uint16_t port = 80;
      for (const ServiceSpec& service : spec.services)
        for (const model::ServicePort& p : service.ports)
          if (p.protocol == model::Protocol::kTcp) port = p.port;
      plan.files[conf] = NginxConf(unit, addresses, port, paths);
      plan.files[paths.folder + "/www/1k"] = Body(1024);
      plan.files[paths.folder + "/www/100k"] = Body(100 * 1024);
      plan.files[paths.folder + "/www/1m"] = Body(1024 * 1024);
      process.argv = {"nginx", "-c", conf};
      process.ready.ports = {{model::Protocol::kTcp, port}};
      break;
    }
    case Workload::kEmulated: {
      const Emulated& e = unit.spec.emulated;
      process.argv = {paths.programs + "/spillway-unit",
                      "--name",
                      unit.label.substr(0, 16),
                      "--workers",
                      fmt::format("{}", e.workers),
                      "--service",
                      fmt::format("{}us", e.service.count()),
                      "--cv",
                      fmt::format("{}", e.cv),
                      "--extra-latency",
                      fmt::format("{}us", e.latency.count()),
                      "--queue",
                      fmt::format("{}", QueueLimitOf(unit.spec) - e.workers)};
      AddEndpoints(spec, addresses, process);
      break;
    }
    case Workload::kSynthetic:
    case Workload::kVgg16:
    case Workload::kKnn:
      process.argv = {paths.programs + "/spillway-compute",
                      "--name",
                      unit.label.substr(0, 16),
                      "--workers",
                      fmt::format("{}", WorkersOf(unit.spec)),
                      "--queue",
                      fmt::format("{}", kQueuePerWorker * WorkersOf(unit.spec))};
      AddEndpoints(spec, addresses, process);
      AddComputation(unit.spec, process.argv);
      process.ready.patience = kGenerating;
      break;
  }
  plan.process = std::move(process);
  return plan;
}

}  // namespace spillway::lab
