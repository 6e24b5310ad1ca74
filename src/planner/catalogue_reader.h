// SPDX-License-Identifier: Apache-2.0
// Reads catalogue files: YAML, or the JSON document of `spillway plan probe`, whose results stand beside its
// entry. Errors hold everything that is wrong, one line each, with kBadInput. docs/planner.md describes
// every key. Threading: none keeps state.
#pragma once

#include <string>

#include "base/error.h"
#include "planner/catalogue.h"

namespace spillway::planner {

// `file_name` stands in messages.
[[nodiscard]] Result<Catalogue> ParseCatalogue(const std::string& text, const std::string& file_name);
[[nodiscard]] Result<Catalogue> LoadCatalogue(const std::string& path);

// The one that Spillway ships: examples/plan/catalogue.yaml as it was at the build.
[[nodiscard]] const Catalogue& ShippedCatalogue();

// Entries of `more` replace those of the same name in `into`, others are added; a fabric replaces the fabric.
void Merge(Catalogue& into, const Catalogue& more);

}  // namespace spillway::planner
