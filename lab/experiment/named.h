// SPDX-License-Identifier: Apache-2.0
// Experiments by name: the lab files that come with Spillway. In their folder, NAME.yaml is experiment
// NAME; NAME-APP.yaml is an app of NAME, and NAME-APP-emulated.yaml the same app on emulated units.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway::lab {

// What a command line asks for.
struct Wanted {
  std::string experiment;         // a file's path, or a name
  std::vector<std::string> apps;  // of a name that has some; empty: all
  bool emulated = false;
};

struct NamedFile {
  std::string app;  // or a bed's name; empty: the file stands alone
  std::string path;
  bool operator==(const NamedFile&) const = default;
};

// What has a slash or ends in .yaml is a path and taken as it is; a name is looked up in `folder`, and where
// that has none, it may be a file. Apps come in the order in which they were asked for. Errors: kBadInput,
// naming what there is.
[[nodiscard]] Result<std::vector<NamedFile>> FindExperiment(const Wanted& wanted, const std::string& folder);

// A bed to compare policies on: a lab file with an experiment, by its path, or by its name in the folder's
// `beds/` or in the folder itself ("demo", "fig5-dns"). Errors: kBadInput, naming the beds.
[[nodiscard]] Result<std::string> FindBed(const std::string& bed, const std::string& folder);

// The files of `beds/`, by name.
[[nodiscard]] std::vector<NamedFile> Beds(const std::string& folder);

// Where the files are, seen from the folder of an installed program (PREFIX/bin) or of one in its build
// tree (build/PRESET/bin in the sources).
std::string LabFolder(const std::string& program_folder);

}  // namespace spillway::lab
