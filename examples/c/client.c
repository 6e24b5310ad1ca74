/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the model `digits` of examples/gateway for one row: cc client.c -o client -lspillway_client, ./client ADDRESS
 * (unix:/run/spillway-gateway/frames.sock of a gateway on this host, 192.0.2.1:8001 of one elsewhere). */
#include <spillway_client.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char why[200];
  uint32_t model;
  spillway_client* client;
  float *in, *out;
  int status;

  if (argc != 2) return fprintf(stderr, "usage: client ADDRESS\n"), 2;
  client = spillway_connect(argv[1], NULL, NULL, 64 << 20, why, sizeof(why));
  if (client == NULL) return fprintf(stderr, "client: %s\n", why), 1;
  if (spillway_describe(client, "digits", &model) != 0)
    return fprintf(stderr, "client: %s\n", spillway_error(client)), 1;
  in = spillway_allocate(client, spillway_input_bytes(client, model, 1));
  out = spillway_allocate(client, spillway_output_bytes(client, model, 1));
  if (in == NULL || out == NULL) return fprintf(stderr, "client: %s\n", spillway_error(client)), 1;
  memset(in, 0, spillway_input_bytes(client, model, 1)); /* memory comes as it is: fill all of it */
  status = spillway_infer(client, model, 1, in, out, 0);
  if (status != 0) fprintf(stderr, "client: status %d: %s\n", status, spillway_error(client));
  for (size_t i = 0; status == 0 && i < spillway_output_bytes(client, model, 1) / sizeof(*out); i++)
    printf("%g\n", out[i]);
  spillway_free(client, in);
  spillway_free(client, out);
  spillway_close(client);
  return status != 0;
}
