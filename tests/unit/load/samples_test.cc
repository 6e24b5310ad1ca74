// SPDX-License-Identifier: Apache-2.0
#include "lab/load/outcome.h"

#include <gtest/gtest.h>

namespace spillway::load {
namespace {

Ledger TwoRequests() {
  Ledger ledger(2, 1000, true);
  ledger.Sent(ledger.Add(1, true), 7, 2);
  ledger.Answered(0, 7, 258, "a,\"b");
  ledger.Add(5, false);
  return ledger;
}

TEST(Samples, AsCsvLeaveWhatNeverCameEmpty) {
  EXPECT_EQ(SamplesCsv(TwoRequests()),
            "intended_ns,sent_ns,received_ns,flow,unit,measured\n1,2,258,7,a__b,1\n5,,,0,,0\n");
}

TEST(Samples, AsBinaryAreLittleEndianRecordsOf32Bytes) {
  using namespace std::string_literals;
  EXPECT_EQ(SamplesBinary(TwoRequests()),
            "SPWSMP01\2\0\0\0\0\0\0\0\1\0\0\0\4a,\"b"
            "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\2\1\0\0\0\0\0\0\7\0\0\0\0\0\1\0"
            "\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\x80\0\0\0\0\xff\xff\0\0"s);
}

}  // namespace
}  // namespace spillway::load
