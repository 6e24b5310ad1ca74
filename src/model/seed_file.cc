// SPDX-License-Identifier: Apache-2.0
#include "seed_file.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "key_file.h"

namespace spillway::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWords = std::size(spw_seed{}.key);
constexpr size_t kDigits = kWords * 8 + 16;

template <class Word>
bool ParseWord(std::string_view digits, Word& word) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), word, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

std::optional<spw_seed> ParseSeed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (text.size() != kDigits) return std::nullopt;
  spw_seed seed{};
  for (size_t i = 0; i < kWords; i++)
    if (!ParseWord(text.substr(i * 8, 8), seed.key[i])) return std::nullopt;
  uint64_t mix = 0;
  if (!ParseWord(text.substr(kWords * 8), mix)) return std::nullopt;
  seed.mix = mix;
  return seed;
}

std::string SeedText(const spw_seed& seed) {
  std::string text;
  for (const uint32_t word : seed.key) text += fmt::format("{:08x}", word);
  return text + fmt::format("{:016x}\n", uint64_t{seed.mix});
}

Result<std::optional<spw_seed>> ReadSeedFile(const std::string& path) {
  if (std::error_code error; !fs::exists(path, error) && !error) return std::nullopt;
  const auto text = ReadSecretFile(path);
  if (!text) return tl::make_unexpected(text.error());
  const auto seed = ParseSeed(*text);
  if (!seed)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: no seed of {} hex digits; restore the file, or move it away for a new seed",
                            path, kDigits));
  return seed;
}

Result<spw_seed> RandomSeed() {
  spw_seed seed{};
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
    return Fail(ErrorCode::kSystem, fmt::format("getrandom: {}", std::strerror(errno)));
  return seed;
}

Result<spw_seed> ReadOrMakeSeedFile(const std::string& path, const std::optional<spw_seed>& running) {
  auto found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (*found) return **found;
  const auto wanted = running ? Result<spw_seed>(*running) : RandomSeed();
  if (!wanted) return tl::make_unexpected(wanted.error());
  const spw_seed seed = *wanted;
  const auto made = base::CreateFile(path, SeedText(seed), {.mode = 0600});
  if (!made) return tl::make_unexpected(made.error());
  if (*made) return seed;
  found = ReadSeedFile(path);
  if (!found) return tl::make_unexpected(found.error());
  if (!*found) return Fail(ErrorCode::kSystem, fmt::format("{} was removed while it was read", path));
  return **found;
}

}  // namespace spillway::model
