// SPDX-License-Identifier: Apache-2.0
// A frame of any bytes, parsed as the switch does: nothing behind its end is read, and what is called a flow
// has its headers within it.
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bpf/packet.h"

static const size_t kPage = 4096;

// An end behind which nothing is mapped, at an address of 32 bits, as a context of XDP has them.
static uint8_t* frame_end(void) {
  static uint8_t* end;

  if (!end) {
    uint8_t* at =
        mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    if (at == MAP_FAILED || mprotect(at + kPage, kPage, PROT_NONE) != 0) abort();
    end = at + kPage;
  }
  return end;
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  struct packet packet = {0};
  struct xdp_md context = {0};
  enum parsed parsed = PARSED_FOREIGN;
  uint8_t *end = frame_end(), *begin;
  __be16 type;

  if (size > kPage) return 0;
  begin = end - size;
  memcpy(begin, bytes, size);
  context.data = (__u32)(uintptr_t)begin;
  context.data_end = (__u32)(uintptr_t)end;
  type = parse_ethernet(&context, &packet);
  if (type == bpf_htons(ETH_P_IP))
    parsed = parse_v4(&packet);
  else if (type == bpf_htons(ETH_P_IPV6))
    parsed = parse_v6(&context, &packet);
  if (parsed == PARSED_FLOW || parsed == PARSED_ICMP) {
    size_t header = packet.proto == IPPROTO_TCP ? 20 : 8;

    if ((uint8_t*)packet.l4 < begin || (uint8_t*)packet.l4 + header > end) abort();
  }
  return 0;
}
