// SPDX-License-Identifier: Apache-2.0
#include "base/print.h"

#include <gtest/gtest.h>

namespace spillway::base {
namespace {

TEST(Printable, KeepsTextOfAnyLanguage) {
  for (const char* text : {"", "jobs (2).csv", "gr\u00f6\u00dfer", "\u96ea/\U0001f600", "a\\b"})
    EXPECT_EQ(Printable(text), text);
}

TEST(Printable, ShowsWhatWouldDriveATerminalOrEndALine) {
  EXPECT_EQ(Printable("a\nb\r\t\x1b[2J\x7f"), "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\u009b1m"), "\\xc2\\x9b1m") << "CSI in one character";
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(Printable("\xff\xfe.csv"), "\\xff\\xfe.csv");
  EXPECT_EQ(Printable("\xc3"), "\\xc3") << "cut";
  EXPECT_EQ(Printable("\xe2\x82x"), "\\xe2\\x82x");
  EXPECT_EQ(Printable("\xc0\x8a"), "\\xc0\\x8a") << "a line end, longer than need be";
  EXPECT_EQ(Printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");
  EXPECT_EQ(Printable("\xf0\x80\x80\x8a"), "\\xf0\\x80\\x80\\x8a");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

}  // namespace
}  // namespace spillway::base
