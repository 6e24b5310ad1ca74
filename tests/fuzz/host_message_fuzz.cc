// SPDX-License-Identifier: Apache-2.0
// What a node agent tells the controller, and what it is told: read or refused in words; of what is taken,
// names and last words are fit to be printed, and it is the same after it was written again.
#include <cstdlib>

#include "base/yaml/scalars.h"
#include "scheduler/controller/host_message.h"

using namespace spillway::scheduler;

namespace {

// What Parse takes, Text writes, and the other way round.
template <class Parse>
void ReadAndWrite(std::string_view body, const Parse& parse) {
  const auto message = parse(body);
  if (!message) {
    if (message.error().message.empty()) std::abort();
    return;
  }
  const std::string text = ToText(*message);
  const auto again = parse(std::string_view(text));
  if (!again || ToText(*again) != text) std::abort();
}

void Judge(const HostReport& report) {
  if (report.gpus.size() > kMaxGpusOfHost || report.held.size() > kMaxInstancesOfHost) std::abort();
  for (const Gpu& gpu : report.gpus)
    if (!spillway::yaml::IsName(gpu.id) || gpu.id.size() > kMaxGpuName || gpu.memory_mib < 0) std::abort();
  for (const Held& held : report.held) {
    if (held.why.size() > kMaxLastWords) std::abort();
    for (const unsigned char c : held.why)
      if (c < ' ' || c == 0x7f) std::abort();
  }
  if (report.wait_ms < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(bytes), size);
  if (const auto report = ParseHostReport(body)) Judge(*report);
  ReadAndWrite(body, [](std::string_view text) { return ParseHostReport(text); });
  ReadAndWrite(body, [](std::string_view text) { return ParseHostOrders(text); });
  ReadAndWrite(body, [](std::string_view text) { return ParseWantedInstance(text); });
  return 0;
}
