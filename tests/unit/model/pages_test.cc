// SPDX-License-Identifier: Apache-2.0
// docs/pool-file.md and docs/health.md list the keys that the reader knows, with its ranges. What it knows,
// the reader is asked: by a key that is far from any, it lists them; by a value of the wrong type, it says
// the range.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "model/parse.h"

namespace spillway::model {
namespace {

struct Section {
  const char* page;    // and its heading
  const char* prefix;  // of the keys, as the page writes them
  const char* yaml;    // "{}" is where a key goes
};

constexpr Section kSections[] = {
    {"pool-file.md#switch", "switch.", "switch: {{{}}}"},
    {"pool-file.md#switch", "switch.report.", "switch: {{report: {{{}}}}}"},
    {"pool-file.md#switch", "switch.flow_table.", "switch: {{flow_table: {{{}}}}}"},
    {"pool-file.md#services", "", "services: [{{{}}}]"},
    {"pool-file.md#pools", "", "pools: {{p: {{{}}}}}"},
    {"pool-file.md#pools", "servers[].", "pools: {{p: {{servers: [{{{}}}]}}}}"},
    {"pool-file.md#pools", "units[].", "pools: {{p: {{servers: [{{units: [{{{}}}]}}]}}}}"},
    {"health.md#Keys", "", "health: {{{}}}"},
};

// Key -> the rest of its row, of the tables below that heading.
std::map<std::string, std::string> RowsOf(const std::string& place) {
  const size_t cut = place.find('#');
  std::ifstream page(SPILLWAY_DOCS "/" + place.substr(0, cut));
  static const std::regex kHeading("#+ (.*)"), kRow("\\| `([a-z_.\\[\\]]+)` \\| (.*)");
  std::map<std::string, std::string> rows;
  bool here = false;
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, match, kHeading)) here = match[1] == place.substr(cut + 1);
    if (here && std::regex_match(line, match, kRow)) rows[match[1]] = match[2];
  }
  return rows;
}

// What the reader says of that line in the section.
std::string Says(const Section& section, const std::string& line) {
  const auto config = ParseConfig(fmt::format(fmt::runtime(section.yaml), line), "f");
  return config ? "" : config.error().message;
}

std::set<std::string> KeysOf(const Section& section) {
  const std::string text = Says(section, std::string(70, 'q') + ": 1");
  std::smatch match;
  EXPECT_TRUE(std::regex_search(text, match, std::regex("known are ([^\n]*)"))) << text;
  std::istringstream words(match[1]);
  std::set<std::string> keys;
  for (std::string word; words >> word;) keys.insert(section.prefix + word.substr(0, word.find(',')));
  return keys;
}

TEST(Pages, ListTheKeysThatTheReaderKnowsAndNoOther) {
  std::map<std::string, std::set<std::string>> known, listed;
  for (const Section& section : kSections) {
    known[section.page].merge(KeysOf(section));
    for (const auto& [key, row] : RowsOf(section.page)) listed[section.page].insert(key);
  }
  // What the page says of them is said of the keys within.
  known["pool-file.md#switch"].erase("switch.flow_table");
  listed["pool-file.md#switch"].erase("switch");
  EXPECT_EQ(listed, known);
}

TEST(Pages, SayTheRangesThatTheReaderHolds) {
  int ranges = 0;
  for (const Section& section : kSections) {
    const auto rows = RowsOf(section.page);
    for (const std::string& key : KeysOf(section)) {
      const std::string text = Says(section, key.substr(std::string(section.prefix).size()) + ": [[]]");
      static const std::regex kRange(": expected [^\n]*?from ([0-9.a-z]+) to ([0-9.a-z]+)[^\n]*got a list");
      std::smatch match;
      if (!rows.contains(key) || !std::regex_search(text, match, kRange)) continue;
      ranges++;
      EXPECT_THAT(rows.at(key), ::testing::HasSubstr(match[1].str() + " to " + match[2].str())) << key;
    }
  }
  EXPECT_GE(ranges, 10) << "else the reader words ranges in another way";
}

}  // namespace
}  // namespace spillway::model
