// SPDX-License-Identifier: Apache-2.0
// Input files: a file's text, and the YAML documents in it. Threading: none keeps state.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/yaml/problems.h"
#include "base/yaml/reader.h"

namespace spillway::yaml {

// The whole of a file of at most 64 MiB, but for a byte order mark. kBadInput, "path: expected ...", if there
// is no reading it.
[[nodiscard]] Result<std::string> ReadInputFile(const std::string& path);
// Likewise, of what comes on descriptor 0 until its end. A part of it is never taken for the whole.
[[nodiscard]] Result<std::string> ReadStandardInput();
// The file, or standard input where the path is "-", and what messages call it.
[[nodiscard]] Result<std::string> ReadInput(const std::string& path);
std::string InputName(const std::string& path);

// Calls `read` with the documents of `text`. Where that is no YAML, or `read` comes upon what is none, this
// is a problem like others: nothing of yaml-cpp's is thrown.
void ReadDocuments(Problems& problems, const std::string& text,
                   const std::function<void(const std::vector<YAML::Node>&)>& read);

// For a file that is one document: calls `read` with its root. All problems together become the error; where
// the text is no YAML, or more than one document, that is one.
[[nodiscard]] Result<void> ReadDocument(const std::string& text, const std::string& file_name,
                                        const std::function<void(Problems&, const Field&)>& read);

}  // namespace spillway::yaml
