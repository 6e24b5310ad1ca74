// SPDX-License-Identifier: Apache-2.0
#include "model/codes.h"

#include <gtest/gtest.h>

namespace spillway::model {
namespace {

TEST(CodeBook, NamesKeepTheirCodes) {
  CodeBook book(4);
  EXPECT_EQ(book.Assign("a"), 0u);
  EXPECT_EQ(book.Assign("b"), 1u);
  EXPECT_EQ(book.Assign("a"), 0u);
  EXPECT_EQ(book.Find("b"), 1u);
  EXPECT_FALSE(book.Find("c"));
}

TEST(CodeBook, FreedCodesComeBackLastAndTheOldestFirst) {
  CodeBook book(3);
  (void)book.Assign("a");
  (void)book.Assign("b");
  book.Release("b");
  book.Release("a");
  EXPECT_FALSE(book.Find("a"));
  EXPECT_EQ(book.Assign("c"), 2u) << "a fresh code before a freed one";
  EXPECT_EQ(book.Assign("d"), 1u) << "b's code was freed first";
  EXPECT_EQ(book.Assign("e"), 0u);
  EXPECT_FALSE(book.Assign("f"));
  book.Release("nobody");
  EXPECT_FALSE(book.Assign("f"));
}

TEST(CodeBook, RestoresWhatWasSaved) {
  CodeBook book(8);
  EXPECT_TRUE(book.Restore("c", 5));
  EXPECT_TRUE(book.Restore("a", 1));
  EXPECT_FALSE(book.Restore("x", 5)) << "code taken";
  EXPECT_FALSE(book.Restore("a", 2)) << "name taken";
  EXPECT_FALSE(book.Restore("y", 8)) << "out of range";
  // 6 and 7 are fresh; 0, 2, 3, 4 may have been in use before.
  for (uint32_t code : {6u, 7u, 0u, 2u, 3u, 4u}) EXPECT_EQ(book.Assign("n" + std::to_string(code)), code);
  EXPECT_FALSE(book.Assign("one more"));
  EXPECT_EQ(book.entries().size(), 8u);
}

TEST(CodeBook, FreedCodesComeLastAfterARestartToo) {
  CodeBook book(4);
  for (const char* name : {"a", "b", "c"}) (void)book.Assign(name);
  book.Release("c");
  book.Release("a");
  CodeBook restored(4);
  ASSERT_TRUE(restored.Restore("b", 1));
  restored.RestoreFreed({book.freed().begin(), book.freed().end()});
  EXPECT_EQ(restored.Assign("d"), 3u) << "never given out";
  EXPECT_EQ(restored.Assign("e"), 2u) << "c's was freed first";
  EXPECT_EQ(restored.Assign("f"), 0u);
  restored.RestoreFreed({7, 1000000});  // out of range: of a damaged file
  EXPECT_FALSE(restored.Assign("g"));
}

}  // namespace
}  // namespace spillway::model
