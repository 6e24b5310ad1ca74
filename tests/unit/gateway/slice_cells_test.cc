// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/slice_cells.h"

#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

const SliceOffer kOffer{"s", "g", 1, 3, 1000, 5000};

Delivery To(uint32_t cell, uint64_t id, std::span<const std::byte> inputs, uint64_t output_bytes) {
  return {id, 0, cell, 0, 1, inputs, output_bytes, false};
}

TEST(SliceCells, ADeliveryIsDescribedByItsCellAndTheSlicesKey) {
  SliceCells cells(kOffer, 77);
  const std::vector<std::byte> inputs(900);
  const auto submission = cells.Describe(To(1, 5, inputs, 40));
  ASSERT_TRUE(submission);
  EXPECT_EQ(submission->id, 5u);
  EXPECT_EQ(submission->key, 77u);
  EXPECT_EQ(submission->input_offset, cells.layout().Input(1));
  EXPECT_EQ(submission->input_bytes, 900u);
  EXPECT_EQ(submission->output_offset, cells.layout().Output(1));
  EXPECT_EQ(submission->output_bytes, 40u);
}

TEST(SliceCells, WhatDoesNotFitACellIsNotDescribed) {
  const SliceCells cells(kOffer, 77);
  const std::vector<std::byte> inputs(1001);
  EXPECT_FALSE(cells.Describe(To(0, 5, inputs, 40)));
  EXPECT_FALSE(cells.Describe(To(0, 5, std::span(inputs).first(1000), 5001)));
  EXPECT_FALSE(cells.Describe(To(3, 5, std::span(inputs).first(10), 10)));
  EXPECT_TRUE(cells.Describe(To(2, 5, std::span(inputs).first(1000), 5000)));
}

TEST(SliceCells, ARequestFreesItsCellOnce) {
  SliceCells cells(kOffer, 77);
  const std::vector<std::byte> inputs(10);
  cells.Fill(To(2, 8, inputs, 10));
  EXPECT_FALSE(cells.Free(0)) << "free cells are nobody's";
  EXPECT_FALSE(cells.Free(9));
  EXPECT_EQ(cells.Free(8), 2u);
  EXPECT_FALSE(cells.Free(8));
}

TEST(SliceCells, DirtyIsTheMostThatWasWrittenUntilItIsWiped) {
  SliceCells cells(kOffer, 77);
  const std::vector<std::byte> inputs(700);
  cells.Fill(To(1, 1, inputs, 900));
  cells.Free(1);
  cells.Fill(To(1, 2, std::span(inputs).first(10), 1));
  cells.Free(2);
  cells.Fill(To(2, 3, std::span(inputs).first(10), 1));
  cells.Free(3);
  const auto dirty = cells.TakeDirty();
  ASSERT_EQ(dirty.size(), 4u);
  EXPECT_EQ(dirty[0].offset, cells.layout().Input(1));
  EXPECT_EQ(dirty[0].bytes, 700u);
  EXPECT_EQ(dirty[1].offset, cells.layout().Output(1));
  EXPECT_EQ(dirty[1].bytes, 900u);
  EXPECT_EQ(dirty[2].bytes, 10u);
  EXPECT_EQ(dirty[3].bytes, kMaxMessage) << "a text may stand in the place of outputs";
  EXPECT_TRUE(cells.TakeDirty().empty());
}

}  // namespace
}  // namespace spillway::gateway
