/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a Spillway gateway, in C: blocking, each for one thread at a time. Link with -lspillway_client.
 *
 *   spillway_client *client = spillway_connect("192.0.2.1:8001", NULL, NULL, 64 << 20, why, sizeof(why));
 *   uint32_t model;
 *   if (client && spillway_describe(client, "digits", &model) == 0) {
 *     float *in = spillway_allocate(client, spillway_input_bytes(client, model, 1));
 *     float *out = spillway_allocate(client, spillway_output_bytes(client, model, 1));
 *     ...
 *     if (spillway_infer(client, model, 1, in, out, 0) != 0) puts(spillway_error(client));
 *   }
 *   spillway_close(client);
 *
 * Tensors are row-major and little endian. Several inputs, or outputs, lie one behind the other in the
 * model's order, each from a multiple of 64 bytes on.
 */
#ifndef SPILLWAY_CLIENT_H
#define SPILLWAY_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define SPILLWAY_API __attribute__((visibility("default")))

typedef struct spillway_client spillway_client;

/* How requests' data goes: sent, written to memory of this host that the gateway reads, or written there by
 * RDMA. */
enum { SPILLWAY_FRAMES, SPILLWAY_WINDOW, SPILLWAY_RDMA };

/* address: "unix:PATH" or "ADDRESS:PORT", one of the gateway's `frames`. tenant, token: as its configuration
 * says; NULL: the first tenant that needs no token. window_bytes: all inputs and outputs of this client at a
 * time; 0: no window, frames. Over TCP, where there can be no window over RDMA, requests go in frames, and
 * spillway_error says why. A client with a window over RDMA must not fork. NULL: `error`, if not NULL, then
 * has the reason, in `error_bytes` bytes at most. */
SPILLWAY_API spillway_client* spillway_connect(const char* address, const char* tenant, const char* token,
                                               uint64_t window_bytes, char* error, size_t error_bytes);
/* What it allocated is gone. NULL is allowed. */
SPILLWAY_API void spillway_close(spillway_client* client);

SPILLWAY_API int spillway_way(const spillway_client* client);
/* One line: why the last call failed, or the window could not be opened; empty: nothing did. Until the next
 * call. */
SPILLWAY_API const char* spillway_error(const spillway_client* client);

/* The number of a model, for the calls below. Non-zero: there is none, or the gateway has gone. */
SPILLWAY_API int spillway_describe(spillway_client* client, const char* model, uint32_t* number);
/* Bytes of so many rows; 0: the model was not described, or takes no so many. */
SPILLWAY_API uint64_t spillway_input_bytes(const spillway_client* client, uint32_t model, uint32_t rows);
SPILLWAY_API uint64_t spillway_output_bytes(const spillway_client* client, uint32_t model, uint32_t rows);

/* Memory for inputs and outputs: in the window, if there is one, so that infer copies nothing. NULL: no room
 * is left. */
SPILLWAY_API void* spillway_allocate(spillway_client* client, uint64_t bytes);
SPILLWAY_API void spillway_free(spillway_client* client, void* memory);

/* Runs the model on the inputs, and waits for its outputs. Both of spillway_allocate, and as long as the
 * functions above say. deadline_us: from now; 0: the gateway's default. 0: done; positive: the gateway's
 * status (docs/gateway.md has the numbers), the client goes on; negative: the gateway has gone, or the
 * arguments are wrong. */
SPILLWAY_API int spillway_infer(spillway_client* client, uint32_t model, uint32_t rows, const void* inputs,
                                void* outputs, uint32_t deadline_us);

#ifdef __cplusplus
}
#endif
#endif
