// SPDX-License-Identifier: Apache-2.0
// Damaged files: whatever is done to a valid file, it is read, or refused line by line.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "model/diff.h"
#include "model/parse.h"
#include "model/yaml.h"
#include "random_config.h"

namespace spillway::model {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Damage(std::string text, const std::string& other) {
    for (uint32_t times = 1 + Below(3); times > 0; times--) text = DamageOnce(std::move(text), other);
    return text;
  }

 private:
  uint32_t Below(size_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }

  std::string DamageOnce(std::string text, const std::string& other) {
    static const std::vector<std::string> kPieces{"\0",
                                                  "\n",
                                                  "\t",
                                                  " ",
                                                  ":",
                                                  "- ",
                                                  "{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  "*a ",
                                                  "&a ",
                                                  "!!int ",
                                                  "\"",
                                                  "'",
                                                  "|\n",
                                                  ">\n",
                                                  "? ",
                                                  "#",
                                                  "---\n",
                                                  "...\n",
                                                  "%YAML 9.9\n",
                                                  "<<: ",
                                                  "~",
                                                  "\xff\xfe",
                                                  "\xc3",
                                                  "999999999999999999999",
                                                  "-1",
                                                  "1e308",
                                                  "::",
                                                  "name: x, ",
                                                  "name: \"\\0\"\n",
                                                  "{a: [b, {c: d}]}: e\n",
                                                  "\x1b",
                                                  "*a",
                                                  "null",
                                                  "@",
                                                  "`",
                                                  "\xef\xbb\xbf"};
    if (text.empty()) return other;
    size_t at = Below(text.size());
    switch (Below(9)) {
      case 0:
        text[at] = static_cast<char>(Below(256));
        return text;
      case 1:
        return text.erase(at, 1 + Below(20));
      case 2: {
        const std::string& piece = kPieces[Below(kPieces.size())];
        return text.insert(at, piece.empty() ? std::string(1, '\0') : piece);
      }
      case 3:
        return text.substr(0, at);  // cut short
      case 4: {                     // a line twice, or moved
        size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
        std::string line = text.substr(begin, end - begin) + "\n";
        if (Below(2) == 0) text.erase(begin, line.size());
        size_t to = text.find('\n', Below(text.size() + 1));
        return text.insert(to == std::string::npos ? text.size() : to + 1, line);
      }
      case 5: {  // the tail of another file
        return text.substr(0, at) + other.substr(Below(other.size()));
      }
      case 6:
      case 7: {  // another digit: mostly good grammar, perhaps a clash
        size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + Below(10));
        return text;
      }
      default: {  // another indentation
        size_t begin = text.rfind('\n', at) + 1;
        return Below(2) == 0 ? text.insert(begin, "  ") : text.erase(begin, 1);
      }
    }
  }

  std::mt19937_64 random_;
};

bool IsProblem(const std::string& line) {
  static const std::string kStart = "dir/pool.yaml:";
  if (line.rfind(kStart, 0) != 0) return false;
  size_t digits = line.find_first_not_of("0123456789", kStart.size());
  if (digits == std::string::npos || digits == kStart.size() || line[kStart.size()] == '0') return false;
  if (line.substr(digits, 2) != ": " || line.size() <= digits + 2) return false;
  return std::all_of(line.begin(), line.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

TEST(DamagedFiles, AreReadOrRefusedLineByLine) {
  RandomConfig random(3, "", {});
  Mutator mutator(4);
  int accepted = 0, refused = 0;
  std::string other = ToYaml(random.Next());
  for (int i = 0; i < 2500; i++) {
    std::string valid = ToYaml(random.Next());
    std::string text = mutator.Damage(valid, other);
    auto config = ParseConfig(text, "dir/pool.yaml");
    if (config) {
      accepted++;
      auto again = ParseConfig(ToYaml(*config), "dir/pool.yaml");
      ASSERT_TRUE(again) << again.error().message << "\n" << text;
      ASSERT_TRUE(Diff(*config, *again).empty()) << text;
    } else {
      refused++;
      ASSERT_EQ(config.error().code, ErrorCode::kBadInput);
      std::istringstream lines(config.error().message);
      int before = 0, count = 0;
      for (std::string line; std::getline(lines, line); count++) {
        ASSERT_TRUE(IsProblem(line)) << line << "\nin\n" << config.error().message << "\nof\n" << text;
        int number = std::stoi(line.substr(line.find(':') + 1));
        ASSERT_GE(number, before) << config.error().message;
        before = number;
      }
      ASSERT_GE(count, 1);
      ASSERT_LE(count, 21);
    }
    other = valid;
  }
  // Else the damage is too light or too heavy to show anything.
  EXPECT_GT(accepted, 250);
  EXPECT_GT(refused, 1250);
}

TEST(DamagedFiles, EndlessNestingIsRefused) {
  for (const char* piece : {"[", "{", "- ", "? ", "{a: [", "&a [*a, "}) {
    std::string text;
    for (int i = 0; i < 20000; i++) text += piece;
    auto config = ParseConfig(text, "dir/pool.yaml");
    ASSERT_FALSE(config) << piece;
    std::istringstream lines(config.error().message);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(IsProblem(line)) << line;
  }
}

TEST(DamagedFiles, StrayPunctuationIsRefused) {
  for (const char* text :
       {",", "]", "}", ", a: b", "a: b\n---\n, c", "a: b\n...\n]", "---\n}", "[a], b", "{a: b}}"})
    EXPECT_FALSE(ParseConfig(text, "dir/pool.yaml")) << text;
}

TEST(DamagedFiles, AliasesThatMultiplyAreRefused) {
  std::string text = "switch: {interfaces: [eth0]}\nservices: []\npools:\n  a: &pool\n    servers:\n";
  text += "      - &server {name: s, units: [";
  for (int i = 0; i < 1000; i++) text += "{}, ";
  text += "]}\n";
  for (int i = 0; i < 3000; i++) text += "      - *server\n";
  for (int i = 0; i < 3000; i++) text += "  p" + std::to_string(i) + ": *pool\n";
  auto config = ParseConfig(text, "dir/pool.yaml");
  EXPECT_FALSE(config);
}

}  // namespace
}  // namespace spillway::model
