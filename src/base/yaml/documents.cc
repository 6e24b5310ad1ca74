// SPDX-License-Identifier: Apache-2.0
#include "base/yaml/documents.h"

#include <fmt/format.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/print.h"

namespace spillway::yaml {

namespace {

constexpr size_t kMaxFileBytes = 64 << 20;  // the largest pool, written at length, takes about 5 MiB
constexpr size_t kMaxValues = 1 << 20;      // keys and values; the largest pool has about 400,000

// yaml-cpp 0.7 reads documents without end where one begins with a stray ',', ']' or '}': it consumes
// nothing, so the next document begins at the same place. And it takes half a kilobyte for a value that is
// two bytes in the file. A first pass over the events, which keeps nothing, finds both.
class FirstPass : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == begin_) throw YAML::ParserException(mark, "an unexpected character");
    begin_ = mark.pos;
    Count(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override {
    Count(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Count(mark);
  }
  void OnMapEnd() override {}

 private:
  void Count(const YAML::Mark& mark) {
    if (++values_ > kMaxValues)
      throw YAML::ParserException(mark, fmt::format("more than {} values", kMaxValues));
  }

  int begin_ = -1;
  size_t values_ = 0;
};

std::vector<YAML::Node> LoadDocuments(const std::string& text) {
  std::istringstream input(text);
  YAML::Parser events(input);
  FirstPass check;
  while (events.HandleNextDocument(check)) {
  }
  return YAML::LoadAll(text);
}

tl::unexpected<Error> Unreadable(const std::string& name, int error) {
  return Fail(ErrorCode::kBadInput,
              fmt::format("{}: expected a readable file: {}", base::Printable(name), std::strerror(error)));
}

Result<std::string> Whole(std::string text, const std::string& name) {
  if (text.size() > kMaxFileBytes)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected at most {} bytes", base::Printable(name), kMaxFileBytes));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // as some editors and spreadsheets write
  return text;
}

}  // namespace

namespace {

// yaml-cpp's words for the mistakes that people make, as whoever wrote the file would say them.
std::string PlainWords(const std::string& fault) {
  static const std::pair<std::string_view, std::string_view> kFaults[] = {
      {YAML::ErrorMsg::END_OF_MAP, "a line that is indented unlike the keys above it"},
      {YAML::ErrorMsg::END_OF_SEQ, "a line that is indented unlike the entries (\"- \") above it"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW, "a { without its }"},
      {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a [ without its ]"},
      {YAML::ErrorMsg::FLOW_END, "a } or ] that closes nothing"},
      {YAML::ErrorMsg::MAP_VALUE,
       "\": \" where no value may begin (a text that holds it needs quotes), unless the line above lacks its "
       "\": \""},
      {YAML::ErrorMsg::BLOCK_ENTRY, "an entry (\"- \") where none may begin"},
      {YAML::ErrorMsg::EOF_IN_SCALAR, "a text whose closing quote is missing"},
      {YAML::ErrorMsg::BAD_FILE, "lists or maps that are nested too deep"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN, "a character that no value may begin with (put the text in quotes)"},
  };
  for (const auto& [theirs, ours] : kFaults)
    if (fault == theirs) return std::string(ours);
  return base::Printable(fault);
}

// Whether YAML stops at a line, from 0, that is indented by a tab. YAML's own words then speak of something
// else.
bool IsIndentedByTab(const std::string& text, int line) {
  size_t begin = 0;
  for (int i = 0; i < line && begin != text.npos; i++) {
    begin = text.find('\n', begin);
    if (begin != text.npos) begin++;
  }
  if (begin == text.npos) return false;
  const size_t end = text.find_first_not_of(" \t", begin);
  return std::string_view(text).substr(begin, end - begin).find('\t') != text.npos;
}

}  // namespace

Result<std::string> ReadStandardInput() {
  const std::string name = "standard input";
  std::string text;
  char chunk[65536];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(name, errno);
    if (got == 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  return Whole(std::move(text), name);
}

Result<std::string> ReadInputFile(const std::string& path) {
  std::error_code ignored;  // opening it says it better
  if (std::filesystem::is_directory(path, ignored)) return Unreadable(path, EISDIR);
  // Nobody may ever write into a named pipe; a shell's `<(...)` is one that somebody does write into.
  if (std::filesystem::is_fifo(path, ignored) && !path.starts_with("/dev/") && !path.starts_with("/proc/"))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a readable file, got a named pipe", base::Printable(path)));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable(path, errno);
  std::string text;
  char chunk[65536];
  while (text.size() <= kMaxFileBytes && (file.read(chunk, sizeof(chunk)) || file.gcount() > 0))
    text.append(chunk, file.gcount());
  if (file.bad()) return Unreadable(path, errno);
  return Whole(std::move(text), path);
}

Result<std::string> ReadInput(const std::string& path) {
  return path == "-" ? ReadStandardInput() : ReadInputFile(path);
}

std::string InputName(const std::string& path) { return path == "-" ? "stdin" : path; }

void ReadDocuments(Problems& problems, const std::string& text,
                   const std::function<void(const std::vector<YAML::Node>&)>& read) {
  try {
    read(LoadDocuments(text));
  } catch (const YAML::Exception& exception) {
    problems.Add(exception.mark.is_null() ? 1 : exception.mark.line + 1, "",
                 IsIndentedByTab(text, exception.mark.line)
                     ? "expected indentation by spaces, got a tab"
                     : fmt::format("expected YAML, got {}", PlainWords(exception.msg)));
  } catch (const std::exception& exception) {  // yaml-cpp lets some of the standard library's through
    problems.Add(1, "", fmt::format("expected YAML, got {}", base::Printable(exception.what())));
  }
}

Result<void> ReadDocument(const std::string& text, const std::string& file_name,
                          const std::function<void(Problems&, const Field&)>& read) {
  Problems problems(file_name);
  ReadDocuments(problems, text, [&](const std::vector<YAML::Node>& documents) {
    if (documents.size() > 1)
      problems.Add(documents[1].Mark().line + 1, "", "expected one document, got another");
    else
      read(problems, Field{"", 1, documents.empty() ? YAML::Node() : documents[0]});
  });
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return {};
}

}  // namespace spillway::yaml
