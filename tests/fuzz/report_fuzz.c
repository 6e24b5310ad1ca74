// SPDX-License-Identifier: Apache-2.0
// A load report of any bytes: no more of them are read than there are, and of what is taken for one the same
// bytes come out when it is written again, but for its padding and tag.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/report.h"

/* The fuzzer is shown both sides of the comparisons in what it instruments, and so would be told the tag. */
__attribute__((noinline, no_sanitize("coverage"))) static int has_tag(const struct spw_report_wire* wire,
                                                                      uint64_t tag) {
  return wire->tag == tag;
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const uint8_t key_bytes[16] = {1, 2, 3};
  struct spw_siphash_key key = spw_siphash_key_of(key_bytes);
  struct spw_report_wire *wire, again;
  struct spw_report report, second;

  if (size < SPW_REPORT_HEAD) return 0;
  wire = malloc(size); /* of this size, so that reading further is seen */
  memcpy(wire, bytes, size);
  if (spw_report_form(wire, (__u32)size) == SPW_REPORT_OK &&
      spw_report_decode(wire, (__u32)size, &report) == SPW_REPORT_OK) {
    if (has_tag(wire, spw_report_tag(wire, &key))) abort(); /* nobody forges by chance */
    memset(&again, 0, sizeof(again));
    spw_report_encode(&again, &report, &key);
    if (spw_report_decode(&again, sizeof(again), &second) != SPW_REPORT_OK ||
        second.boot_id != report.boot_id || second.sequence != report.sequence ||
        second.unit != report.unit || second.server != report.server)
      abort();
    if (!has_tag(&again, spw_report_tag(&again, &key))) abort();
  }
  free(wire);
  return 0;
}
