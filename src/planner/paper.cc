// SPDX-License-Identifier: Apache-2.0
#include "planner/paper.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "planner/execution_time.h"
#include "planner/memory.h"
#include "planner/paper_rows.h"
#include "planner/price_ratio.h"
#include "planner/training_traffic.h"

namespace spillway::planner {
namespace {

constexpr double kPrintedRounding = 1e-9;

int DecimalsOf(const std::string& printed) {
  const size_t point = printed.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(printed.size() - point - 1);
}

double NumberOf(const std::string& printed) {
  double number = 0;
  std::from_chars(printed.data(), printed.data() + printed.size(), number);
  return number;
}

struct Interval {
  double low, high;
};

// What rounds to the printed digits.
Interval RoundsTo(const std::string& printed) {
  const double half = 0.5 * std::pow(10, -DecimalsOf(printed));
  return {NumberOf(printed) - half, NumberOf(printed) + half};
}

double Percent(double ratio) { return 100 * ratio; }
// What a saving of `ratio` times leaves off, in percent.
double Saved(double ratio) { return Percent(1 - 1 / ratio); }

// Table 2 of Lovelock, as printed: GB of the model per accelerator and per host (of 4 accelerators), mean
// and greatest memory in use.
struct TrainedOnHosts {
  const char* name;
  const char *per_accelerator, *per_host, *mean, *most;
};
constexpr std::array<TrainedOnHosts, 4> kTable2 = {{{"GLaM1B", "0.2", "0.8", "3.4", "5.0"},
                                                    {"GLaM4B", "0.4", "1.8", "3.8", "6.5"},
                                                    {"GLaM17B", "2.0", "8.1", "4.2", "17.8"},
                                                    {"GLaM39B", "4.5", "18.2", "4.7", "35.7"}}};
constexpr int kAcceleratorsPerHost = 4;

// Table 1's derived columns, as printed.
struct PerCore {
  const char* node;
  const char *network, *dram;
};
constexpr std::array<PerCore, 7> kTable1 = {{{"n1-skylake", "0.13", "2.67"},
                                             {"n2d-milan", "0.06", "1.83"},
                                             {"m6in-icelake", "0.20", "3.20"},
                                             {"c3-sapphire-rapids", "0.14", "3.49"},
                                             {"amd-genoa", "0.13", "2.40"},
                                             {"ipu-e2000", "1.56", "6.40"},
                                             {"bluefield-3", "3.13", "5.60"}}};

class Recomputation {
 public:
  explicit Recomputation(const Catalogue& catalogue)
      : catalogue_(catalogue), server_(Find("n2d-milan")), nic_(Find("ipu-e2000")) {
    bare_.server_cost = server_.price_usd / nic_.price_usd;
    bare_.server_power = server_.power_w / nic_.power_w;
    loaded_ = bare_;
    loaded_.device_cost = AttachedAt(kDeviceShare, bare_.server_cost);
    loaded_.device_power = AttachedAt(kDeviceShare, bare_.server_power);
    cpu_slowdown_ = server_.throughput.at("ipu-e2000") / nic_.throughput.at("ipu-e2000");
    cpu_share_ = DeriveCpuShare();
    mu2_ = SlowdownAt(cpu_share_, 2, cpu_slowdown_);
    mu3_ = SlowdownAt(cpu_share_, 3, cpu_slowdown_);
  }

  std::vector<PaperRow> Run() {
    AddPrices();
    AddClosedForms();
    AddAnalytics();
    AddFabric();
    AddContention();
    AddTable1();
    AddTable2();
    AddTraining();
    AddOthers();
    return rows_.Take();
  }

 private:
  static constexpr double kDeviceShare = 0.75;  // of a system's cost and power: its PCIe devices (section 4)
  static constexpr double kNetworkStall = 0.2;  // of execution time (section 5.3)

  const Node& Find(const std::string& name) const { return *catalogue_.FindNode(name); }

  // What section 5.2 prints of phi 2, of phi 3 and of their energy, each leaves an interval for the cpu
  // share; they have one number of two digits in common.
  double DeriveCpuShare() {
    const Interval two = RoundsTo("1.22"), three = RoundsTo("0.81"), energy = RoundsTo("4.58");
    // Energy is p_s / (mu phi), and mu phi is the same for every phi.
    const double low =
        std::max({CpuShareBehind(two.low, 2, cpu_slowdown_), CpuShareBehind(three.low, 3, cpu_slowdown_),
                  CpuShareBehind(bare_.server_power / energy.high, 1, cpu_slowdown_)});
    const double high =
        std::min({CpuShareBehind(two.high, 2, cpu_slowdown_), CpuShareBehind(three.high, 3, cpu_slowdown_),
                  CpuShareBehind(bare_.server_power / energy.low, 1, cpu_slowdown_)});
    shares_ = {low, high};
    return SimplestIn(low, high);
  }

  void AddPrices() {
    rows_.Add("L1", "c_s, a server's cost in SmartNICs (section 1)", "7", bare_.server_cost,
              {fmt::format("{:g} USD / {:g} USD", server_.price_usd, nic_.price_usd)});
    rows_.Add("L1", "p_s, a server's power in SmartNICs (section 1)", "11", bare_.server_power,
              {fmt::format("{:g} W / {:g} W", server_.power_w, nic_.power_w)});
    rows_.Add("L2", "p_s where PCIe devices are in (section 4)", "11.2", bare_.server_power,
              {fmt::format("{:g} W / {:g} W", server_.power_w, nic_.power_w)});
    rows_.Add("L2", "c_p, PCIe devices' cost (section 4)", "21", loaded_.device_cost,
              {fmt::format("c_s x {0:g} / (1 - {0:g})", kDeviceShare)});
    rows_.Add("L2", "p_p, PCIe devices' power (section 4)", "33.6", loaded_.device_power,
              {fmt::format("p_s x {0:g} / (1 - {0:g})", kDeviceShare)});
    const double printed = NumberOf("33.2");
    rows_.Add("L2", "p_p, PCIe devices' power (section 5.3)", "33.2", loaded_.device_power,
              {fmt::format("p_s x {0:g} / (1 - {0:g})", kDeviceShare),
               fmt::format(
                   "a misprint of section 4's 33.6: it would need p_s = {:.2f}, or devices that are {:.1f} % "
                   "of the power",
                   printed * (1 - kDeviceShare) / kDeviceShare,
                   Percent(printed / (printed + bare_.server_power)))});
  }

  void AddClosedForms() {
    rows_.Add("L1", "cost, phi 3, no PCIe devices (section 4)", "2.3", CostRatio(bare_, 3),
              {"eq. 1: c_s / phi"});
    rows_.Add("L1", "energy, phi 3, mu 1.2, no PCIe devices (section 4)", "3.1", EnergyRatio(bare_, 3, 1.2),
              {"eq. 2: p_s / (mu phi)"});
    rows_.Add("L2", "cost, phi 1, mu 1, PCIe devices (sections 4, 5.3)", "1.27", CostRatio(loaded_, 1),
              {"eq. 1"});
    rows_.Add("L2", "energy, phi 1, mu 1, PCIe devices (section 4)", "1.3", EnergyRatio(loaded_, 1, 1),
              {"eq. 2"});
    RelativePrices misprinted = loaded_;
    misprinted.device_power = NumberOf("33.2");
    rows_.Add("L2", "energy, phi 1, mu 1, PCIe devices (section 5.3)", "1.30", EnergyRatio(loaded_, 1, 1),
              {"eq. 2", fmt::format("section 5.3 takes p_p = 33.2, which gives {:.4f}",
                                    EnergyRatio(misprinted, 1, 1))});
    rows_.Add("L3", "cost, phi 2, PCIe devices (section 4)", "1.22", CostRatio(loaded_, 2), {"eq. 1"});
    rows_.Add("L3", "energy, phi 2, mu 0.9, PCIe devices (section 4)", "1.4", EnergyRatio(loaded_, 2, 0.9),
              {"eq. 2"});
    // The abstract's ranges, over the configurations that the paper goes through.
    const double least_cost = std::min(CostRatio(loaded_, 1), CostRatio(loaded_, 2));
    const double most_energy = std::max(EnergyRatio(bare_, 2, mu2_), EnergyRatio(bare_, 3, 1.2));
    rows_.Add(
        "L2", "least saving of capital cost, % (section 1)", "21", Saved(least_cost),
        {"1 - 1 / cost, least over the paper's configurations",
         fmt::format("21 % is phi 1 alone ({:.1f} %); the paper's own phi 2 with PCIe devices saves {:.1f} %",
                     Saved(CostRatio(loaded_, 1)), Saved(CostRatio(loaded_, 2)))});
    rows_.Add("L5", "greatest saving of capital cost, % (section 1)", "71", Saved(CostRatio(bare_, 2)),
              {"1 - 1 / cost, phi 2, no PCIe devices"});
    rows_.Add("L2", "least saving of energy, % (section 1)", "23", Saved(EnergyRatio(loaded_, 1, 1)),
              {"1 - 1 / energy, phi 1, PCIe devices"});
    rows_.Add("L5", "greatest saving of energy, % (section 1)", "80", Saved(most_energy),
              {"1 - 1 / energy, greatest over the paper's configurations",
               fmt::format("rounded up to the ten: 80 % would be {:.2f}x, and the greatest is {:.2f}x",
                           1 / (1 - NumberOf("80") / 100), most_energy)});
  }

  void AddAnalytics() {
    const std::string split = fmt::format(
        "cpu share {:g}: the only one of two digits between {:.5f} and {:.5f}, which 1.22, 0.81 and 4.58 "
        "leave",
        cpu_share_, shares_.low, shares_.high);
    rows_.Add("L4", "BigQuery, network's share of time, % (section 5.2: over 60)", "60",
              Percent(1 - cpu_share_), {"1 - cpu share; " + split, "", "", Meaning::kOver});
    rows_.Add("L4", "BigQuery, aggregate CPU slower at phi 2 (section 5.2)", "2.35", cpu_slowdown_ / 2,
              {"4.7 / phi"});
    rows_.Add("L4", "BigQuery, mu at phi 2 (section 5.2)", "1.22", mu2_,
              {"(4.7 cpu + network) / phi; " + split});
    rows_.Add("L4", "BigQuery, mu at phi 3 (section 5.2)", "0.81", mu3_,
              {"(4.7 cpu + network) / phi; " + split});
    rows_.Add("L5", "BigQuery, device cost at phi 2 (section 5.2)", "3.5", CostRatio(bare_, 2),
              {"eq. 1: c_s / phi"});
    rows_.Add("L5", "BigQuery, device cost at phi 3 (section 5.2)", "2.33", CostRatio(bare_, 3),
              {"eq. 1: c_s / phi"});
    const std::string note =
        fmt::format("only with mu unrounded: the printed 1.22 and 0.81 give {:.2f} and {:.2f}",
                    EnergyRatio(bare_, 2, NumberOf("1.22")), EnergyRatio(bare_, 3, NumberOf("0.81")));
    rows_.Add("L5", "BigQuery, energy at phi 2 (section 5.2)", "4.58", EnergyRatio(bare_, 2, mu2_),
              {"eq. 2: p_s / (mu phi)", "", note});
    rows_.Add("L5", "BigQuery, energy at phi 3 (section 5.2)", "4.58", EnergyRatio(bare_, 3, mu3_),
              {"eq. 2: p_s / (mu phi)", "", note});
  }

  void AddFabric() {
    RelativePrices p = bare_;
    constexpr double kFabricShare = 0.1;
    p.fabric_cost = kFabricShare * p.server_cost;
    RelativePrices of_cluster = bare_;
    of_cluster.fabric_cost = AttachedAt(kFabricShare, p.server_cost);
    rows_.Add(
        "L6", "c_f, network's cost (section 5.2)", "0.7", p.fabric_cost,
        {"c_s x 10 %", "",
         fmt::format(
             "10 % of the server; 10 % of the traditional cluster, as the sentence says, would be {:.2f}",
             of_cluster.fabric_cost)});
    rows_.Add("L6", "cost with fabric, phi 2 (section 5.2)", "2.26", CostRatioWithFabric(p, 2),
              {"(c_s + c_f) / (phi (1 + c_f))", "",
               fmt::format("with 10 % of the cluster {:.2f}", CostRatioWithFabric(of_cluster, 2))});
    rows_.Add("L6", "cost with fabric, phi 3 (section 5.2)", "1.51", CostRatioWithFabric(p, 3),
              {"(c_s + c_f) / (phi (1 + c_f))", "",
               fmt::format("with 10 % of the cluster {:.2f}", CostRatioWithFabric(of_cluster, 3))});
    rows_.Add(
        "L7", "fabric may be slower at phi 2, % (section 5.2)", "19", Percent(FabricMayBeSlowerBy(mu2_)),
        {"1 - 1 / mu",
         fmt::format("its own 1 - 100 / 122 is {:.1f} %; {:.0f} % is the time that phi 3 saves (1 - {:.2f})",
                     Percent(FabricMayBeSlowerBy(NumberOf("1.22"))), Percent(1 - mu3_), mu3_)});
    rows_.Add("L7", "fabric must be faster at phi 3, % (section 5.2)", "23",
              -Percent(FabricMayBeSlowerBy(mu3_)), {"1 / mu - 1"});
  }

  void AddContention() {
    const std::string reason =
        "measured by the paper on its machines; `spillway plan probe` measures this one";
    rows_.AddMeasured("L8", "per-core drop on E2000, TPC-H, % (section 5.1)", "8-26", reason);
    rows_.AddMeasured("L8", "per-core drop on x86, TPC-H, % (section 5.1)", "39-88", reason);
    rows_.AddMeasured("L8", "Milan over E2000, TPC-H (section 5.1)", "1.9-9.2", reason);
    rows_.AddMeasured("L8", "Skylake over E2000, TPC-H (section 5.1)", "2.1-4.5", reason);
    const auto phi = [&](const char* node) {
      return Find(node).throughput.at("ipu-e2000") / nic_.throughput.at("ipu-e2000");
    };
    rows_.Add("L8", "phi that matches Skylake's CPU (section 5.1)", "3.6", phi("n1-skylake"),
              {"throughput over E2000's", "", "the median itself, as in the catalogue"});
    rows_.Add("L8", "phi that matches Milan's CPU (section 5.1)", "4.7", phi("n2d-milan"),
              {"throughput over E2000's", "", "the median itself, as in the catalogue"});
    const Node& skylake = Find("n1-skylake");
    const int threads = 2 * 28 * 2;  // section 5.1: 2 sockets of 28 cores
    rows_.Add("L8", "Skylake, DRAM GB/s per SMT of section 5.1's 112", "2.3", skylake.dram.GbPerS() / threads,
              {fmt::format("{:.0f} GB/s / {}", skylake.dram.GbPerS(), threads), "",
               fmt::format("table 1 calls the same host {} vCPUs", skylake.cores)});
    double fewest = 1e9, most = 0;
    for (const PerCore& row : kTable1) {
      const Node& node = Find(row.node);
      if (node.platform != Platform::kServer) continue;
      fewest = std::min(fewest, static_cast<double>(node.cores) / nic_.cores);
      most = std::max(most, static_cast<double>(node.cores) / nic_.cores);
    }
    rows_.Add(
        "L9", "SmartNICs have fewer cores, by at least (section 5.1)", "7", fewest,
        {"cores of table 1 / 16, least",
         fmt::format("table 1 says {} for Skylake; 7 is section 5.1's {} threads", skylake.cores, threads)});
    rows_.Add("L9", "SmartNICs have fewer cores, by at most (section 5.1)", "11", most,
              {"cores of table 1 / 16, greatest",
               fmt::format("11 is Sapphire Rapids' {}; Milan and Genoa have more",
                           Find("c3-sapphire-rapids").cores)});
  }

  void AddTable1() {
    for (const PerCore& row : kTable1) {
      const Node& node = Find(row.node);
      rows_.Add("L9", fmt::format("{}, NIC GB/s per core (table 1)", row.node), row.network,
                node.NetworkGbPerSPerCore(),
                {fmt::format("{:g} Gb/s / 8 / {}", node.network_gbps, node.cores)});
      rows_.Add("L9", fmt::format("{}, DRAM GB/s per core (table 1)", row.node), row.dram,
                node.DramGbPerSPerCore(),
                {fmt::format("{} channels x {:g} MT/s x 8 B / {}", node.dram.channels,
                             node.dram.mega_transfers_per_s, node.cores)});
    }
    const Node& bluefield = Find("bluefield-3");
    rows_.Add("L9", "bluefield-3, memory over network bandwidth (section 6)", "1.8",
              bluefield.dram.GbPerS() / bluefield.NetworkGbPerS(), {"DRAM GB/s / NIC GB/s"});
  }

  void AddTable2() {
    double most_copies = 0, least_mean = 1e9, most_mean = 0;
    for (const TrainedOnHosts& row : kTable2) {
      const double host = NumberOf(row.per_host), mean = NumberOf(row.mean), most = NumberOf(row.most);
      const Interval rounded = RoundsTo(row.per_host);
      rows_.Add(
          "L10", fmt::format("{}, model GB per host (table 2)", row.name), row.per_host,
          NumberOf(row.per_accelerator) * kAcceleratorsPerHost,
          {"4 accelerators x GB per accelerator",
           fmt::format("the product of a rounded number: {:.4g} to {:.4g} GB per accelerator print as both",
                       std::max(rounded.low / kAcceleratorsPerHost, RoundsTo(row.per_accelerator).low),
                       std::min(rounded.high / kAcceleratorsPerHost, RoundsTo(row.per_accelerator).high))});
      Checkpoint checkpoint;
      checkpoint.model_gb_per_accelerator = host / kAcceleratorsPerHost;
      rows_.Add("L10", fmt::format("{}, greatest memory in use, GB (table 2)", row.name), row.most,
                AcceleratorMemoryGb({0, mean, 0}, checkpoint, 1, kAcceleratorsPerHost),
                {"mean + 2 x model per host: the most that a checkpoint without streaming takes", "",
                 "an upper bound, as \"up to twice\" is", Meaning::kAtLeast});
      most_copies = std::max(most_copies, (most - mean) / host);
      least_mean = std::min(least_mean, mean);
      most_mean = std::max(most_mean, mean);
    }
    rows_.Add("L10", "a checkpoint takes up to so many times the model (section 5.3)", "2", most_copies,
              {"(max - mean) / model per host, greatest", "",
               "beside what is in use anyway; max over model alone is more for three of the four models"});
    rows_.Add("L10", "mean memory, GB, from (section 5.3)", "3", least_mean, {"least of table 2"});
    rows_.Add("L10", "mean memory, GB, to (section 5.3)", "5", most_mean, {"greatest of table 2"});
    AddAcceleratorsPerNic();
  }

  void AddAcceleratorsPerNic() {
    constexpr double kKernelGb = 2;  // section 6: 1-2 GB
    int fewest_streaming = 100, fewest = 100;
    double greatest_mean = 0, peak = 0;
    for (const TrainedOnHosts& row : kTable2) {
      Checkpoint checkpoint;
      checkpoint.model_gb_per_accelerator = NumberOf(row.per_host) / kAcceleratorsPerHost;
      const NodeMemory memory{kKernelGb, NumberOf(row.mean), 0};
      fewest =
          std::min(fewest, AcceleratorsThatFit(memory, checkpoint, 1, nic_.memory_gb, kAcceleratorsPerHost));
      peak = std::max(peak, AcceleratorMemoryGb(memory, checkpoint, 1, kAcceleratorsPerHost));
      checkpoint.streaming = true;
      fewest_streaming = std::min(
          fewest_streaming, AcceleratorsThatFit(memory, checkpoint, 1, nic_.memory_gb, kAcceleratorsPerHost));
      greatest_mean = std::max(greatest_mean, memory.runtime_gb);
    }
    rows_.Add("L10", "accelerators per 48 GB NIC, at most (section 5.3)", "4", fewest_streaming,
              {"kernel 2 GB + mean + two chunks of 1 GB <= 48 GB, least over table 2, at most the host's 4"});
    const double three = (nic_.memory_gb - kKernelGb - greatest_mean) / (2 * 3);
    rows_.Add("L10", "accelerators per 48 GB NIC, at least (section 5.3)", "2", fewest,
              {"kernel 2 GB + mean + 2 x model <= 48 GB without streaming, least over table 2",
               fmt::format("all of table 2 leaves room for {} even without streaming ({:.1f} GB at most); 2 "
                           "needs models of "
                           "more than {:.1f} GB per accelerator",
                           fewest, peak, three)});
  }

  void AddTraining() {
    const MiniBatches batches{200, 400.0 / 8, 8, 100};
    rows_.Add(
        "L11", "GNN, mini-batches per second that 100 Gb/s allows (section 5.3)", "60",
        batches.NetworkAllowsPerS(),
        {"100 Gb/s / 8 / 200 MB",
         fmt::format("rounded down to the ten, or {:.0f} % of the line's rate is usable; {:.1f} % of the "
                     "accelerators is used, and the 400 would need {:.0f} Gb/s",
                     Percent(NumberOf("60") / batches.NetworkAllowsPerS()), Percent(batches.Utilisation()),
                     batches.WantedGbps())});
    TimeShares shares;
    shares.accelerator = 1 - kNetworkStall;
    shares.stall = kNetworkStall;
    const double time = AcceleratorTime(shares, false, 1, 0.5, 1);
    rows_.Add(
        "L12", "stalls of 20 %, twice the bandwidth: gain, % (section 5.3)", "10", Percent(1 - time),
        {"1 - (0.8 + 0.2 / 2)", "", fmt::format("of time; of speed it is {:.1f} %", Percent(1 / time - 1))});
    constexpr int kHosts = 8;  // of section 5.3's training
    const double growth = AllReduceGrowth(kHosts, 2 * kHosts);
    rows_.Add("L12", "all-reduce traffic grows by phi: phi 2 (section 6)", "2", growth,
              {"(phi n - 1) / (n - 1), n = 8 hosts", "",
               fmt::format("phi is its limit for many hosts: {:.2f} for 8, {:.3f} for 1000", growth,
                           AllReduceGrowth(1000, 2000))});
    rows_.Add("L12", "the same gain where the stalls are all-reduce, % (sections 5.3 and 6)", "10",
              Percent(1 - AcceleratorTime(shares, false, 1, 0.5, growth)),
              {"1 - (0.8 + 0.2 x growth / 2)",
               "the traffic grows as the bandwidth does: scaling out gains nothing, so mu 0.9 of L3 holds "
               "only for other traffic"});
    rows_.Add("L3", "mu of phi 2 with accelerators (sections 4 and 5.3)", "0.9", time, {"0.8 + 0.2 / 2"});
  }

  void AddOthers() {
    rows_.Add("L13", "node kinds (section 3)", "3", static_cast<double>(kNodeKinds.size()),
              {"accelerator, storage, lite compute"});
    const Node &host = Find("conspirator-host"), &nic = Find("conspirator-nic");
    const auto per_usd = [](const Node& n) { return n.throughput.at("conspirator") / n.price_usd; };
    const auto per_w = [](const Node& n) { return n.throughput.at("conspirator") / n.power_w; };
    rows_.Add("C5", "host, throughput per USD (cost table)", "1.0", per_usd(host), {"throughput / price"});
    rows_.Add("C5", "host, throughput per W (cost table)", "1.25", per_w(host), {"throughput / power"});
    rows_.Add("C5", "SmartNIC, throughput per USD (cost table)", "1.17", per_usd(nic),
              {"throughput / price"});
    rows_.Add("C5", "SmartNIC over host, per USD, % (cost table)", "17",
              Percent(per_usd(nic) / per_usd(host) - 1), {"ratio - 1"});
    rows_.Add("C5", "SmartNIC, throughput per W (cost table)", "1.8", per_w(nic), {"throughput / power"});
    rows_.Add("C5", "SmartNIC over host, per W, % (cost table)", "44", Percent(per_w(nic) / per_w(host) - 1),
              {"ratio - 1"});
    rows_.Add(
        "P7", "SmartNIC adds up to so many % to the host (P4Mite)", "20",
        Percent(Find("p4mite-nic").throughput.at("gflops") / Find("p4mite-host").throughput.at("gflops")),
        {"17.6 / 91.0 GFLOP/s", "", "", Meaning::kAtMost});
  }

  const Catalogue& catalogue_;
  const Node &server_, &nic_;
  RelativePrices bare_, loaded_;  // without and with PCIe devices
  double cpu_slowdown_ = 0, cpu_share_ = 0, mu2_ = 0, mu3_ = 0;
  Interval shares_{};
  PaperRows rows_;
};

}  // namespace

bool Matches(const std::string& printed, double value, Meaning meaning) {
  const double scale = std::pow(10, DecimalsOf(printed));
  switch (meaning) {
    case Meaning::kOver:
      return value > NumberOf(printed);
    case Meaning::kAtMost:
      return value <= NumberOf(printed);
    case Meaning::kAtLeast:
      return value >= NumberOf(printed) - kPrintedRounding;
    case Meaning::kEqual:
      break;
  }
  // A half that arithmetic missed by its last bit still rounds up.
  return std::round(value * scale + std::copysign(kPrintedRounding, value)) ==
         std::round(NumberOf(printed) * scale);
}

double SimplestIn(double low, double high) {
  for (double scale = 1; scale < 1e12; scale *= 10)
    if (const double candidate = std::ceil(low * scale) / scale; candidate <= high) return candidate;
  return (low + high) / 2;
}

std::vector<PaperRow> RecomputePaper(const Catalogue& catalogue) { return Recomputation(catalogue).Run(); }

}  // namespace spillway::planner
