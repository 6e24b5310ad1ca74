// SPDX-License-Identifier: Apache-2.0
// What gateway.yaml and executor.yaml have in common: one YAML document, read whole or not at all.
#pragma once

#include <functional>
#include <string>

#include "model/documents.h"
#include "model/error.h"
#include "model/problems.h"
#include "model/reader.h"
#include "model/scalars.h"

namespace spillway::gateway {

// Calls `read` with the document's root; all problems together become the error.
[[nodiscard]] inline Result<void> ReadDocument(
    const std::string& text, const std::string& file_name,
    const std::function<void(model::Problems&, const model::Field&)>& read) {
  model::Problems problems(file_name);
  try {
    const auto documents = model::LoadDocuments(text);
    if (documents.size() != 1)
      problems.Add(1, "", "expected one YAML document, got " + std::to_string(documents.size()));
    else
      read(problems, model::Field{"", 1, documents[0]});
  } catch (const YAML::Exception& error) {
    problems.Add(error.mark.line + 1, "", "expected YAML: " + error.msg);
  } catch (const std::exception& error) {
    problems.Add(1, "", std::string("expected YAML: ") + error.what());
  }
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return {};
}

// "64KiB", "16MiB", "2GiB" or a number of bytes, in [least, most].
std::optional<uint64_t> ReadBytes(model::Problems& problems, const model::Field& field, uint64_t least,
                                  uint64_t most);

}  // namespace spillway::gateway
