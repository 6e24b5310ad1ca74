// SPDX-License-Identifier: Apache-2.0
// Whose an HTTP request is, by its head, and the memory for the bodies that are still being read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/http.h"
#include "gateway/config.h"

namespace spillway::gateway {

// By the token that it shows; nullopt: nobody's.
[[nodiscard]] std::optional<uint32_t> TenantOf(const GatewayConfig& config, const api::Request& request);

// Bodies are tenants' as requests are: each has its reserve of the memory for them, too. `most`: bytes of one
// body, which has room where nobody else's is. `config` outlives it.
[[nodiscard]] std::shared_ptr<api::BodyMemory> BodiesOfTenants(const GatewayConfig& config, uint64_t most);

}  // namespace spillway::gateway
