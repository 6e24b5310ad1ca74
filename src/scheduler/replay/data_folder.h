// SPDX-License-Identifier: Apache-2.0
// Where the openb lists are. They are not part of Spillway. Looks at the file system and the environment.
#pragma once

#include <string>

#include "base/error.h"

namespace spillway::scheduler {

// `given` if that says one; else the folder in SPILLWAY_OPENB; else ./data/openb, ./shared/data/openb or
// ../shared/data/openb, whichever is there first. Errors: kBadInput, naming the places that were looked at.
[[nodiscard]] Result<std::string> FindDataFolder(const std::string& given);

// "default" as FOLDER/openb_pod_list_default.csv; what has a '/' or ends in .csv, and what names no list but
// a file that is there, as it is. Errors: kBadInput, with the names of the lists that are there; also where
// `data_option` names no folder and none is needed.
[[nodiscard]] Result<std::string> ListFile(const std::string& list, const std::string& data_option);
// FOLDER/openb_node_list_gpu_node.csv, or `given` if that says one.
[[nodiscard]] Result<std::string> NodeFile(const std::string& given, const std::string& data_option);

}  // namespace spillway::scheduler
