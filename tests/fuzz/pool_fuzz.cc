// SPDX-License-Identifier: Apache-2.0
// A pool file: read or refused with words; what was read is the same after it was written again.
#include <cstdlib>
#include <string>

#include "model/parse.h"
#include "model/yaml.h"

using namespace spillway::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  // It would read whatever file is named, devices that never end included.
  if (text.find("_file") != std::string_view::npos) return 0;
  const auto config = ParseConfig(text, "/nonexistent/pool.yaml");
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = ParseConfig(ToYaml(*config), "/nonexistent/pool.yaml");
  if (!again || !(*again == *config)) std::abort();
  return 0;
}
