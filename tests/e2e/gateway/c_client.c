/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that asks a gateway for an echo: c_client ADDRESS WINDOW_BYTES WAY, the way that requests are
 * to go. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spillway_client.h"

static int Complain(const char* what, const char* why) {
  fprintf(stderr, "c_client: %s: %s\n", what, why);
  return 1;
}

int main(int argc, char** argv) {
  static const char* const ways[] = {"frames", "window", "rdma"};
  char why[200] = "";
  uint32_t model = 0;
  uint64_t bytes;
  unsigned char *in, *out;
  spillway_client* client;

  if (argc != 4) return 2;
  client = spillway_connect(argv[1], NULL, NULL, strtoull(argv[2], NULL, 10), why, sizeof(why));
  if (client == NULL) return Complain("connect", why);
  if (strcmp(ways[spillway_way(client)], argv[3]) != 0)
    return Complain(ways[spillway_way(client)], spillway_error(client));
  if (spillway_describe(client, "nobody", &model) == 0 || spillway_error(client)[0] == '\0')
    return Complain("describe", "expected no such model");
  if (spillway_describe(client, "echo", &model) != 0) return Complain("describe", spillway_error(client));
  bytes = spillway_input_bytes(client, model, 3);
  if (bytes != 192 || spillway_output_bytes(client, model, 3) != 192 ||
      spillway_input_bytes(client, model, 0) != 0)
    return Complain("bytes", "expected three rows of 64");
  in = spillway_allocate(client, bytes);
  out = spillway_allocate(client, bytes);
  if (in == NULL || out == NULL) return Complain("allocate", spillway_error(client));
  for (int round = 0; round < 20; round++) {
    for (uint64_t i = 0; i < bytes; i++) in[i] = (unsigned char)(i * 7 + (uint64_t)round);
    memset(out, 0, bytes);
    if (spillway_infer(client, model, 3, in, out, 30000000) != 0)
      return Complain("infer", spillway_error(client));
    if (memcmp(in, out, bytes) != 0) return Complain("infer", "another answer");
  }
  if (spillway_infer(client, model, 1u << 30, in, out, 0) >= 0 ||
      spillway_infer(client, model, 3, why, out, 0) >= 0)
    return Complain("infer", "wrong arguments were taken");
  if (spillway_infer(client, model, 3, in, out, 30000000) != 0)
    return Complain("infer, after wrong ones", spillway_error(client));
  spillway_free(client, in);
  spillway_free(client, out);
  spillway_close(client);
  if (spillway_connect(argv[1], "nobody", "a-wrong-token", 0, why, sizeof(why)) != NULL ||
      strstr(why, "token") == NULL)
    return Complain("connect", "expected a refusal");
  printf("%s: passed\n", argv[3]);
  return 0;
}
