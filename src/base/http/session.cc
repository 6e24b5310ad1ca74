// SPDX-License-Identifier: Apache-2.0
#include "base/http/session.h"

#include <curl/curl.h>

#include <memory>
#include <utility>

namespace spillway::http {
namespace {

struct Call {
  const Request& request;
  Outcome outcome = {};
  bool ended = false;  // by on_data or stop
  bool is_too_large = false;

  size_t Take(std::string_view data) {
    if (request.on_data) {
      ended = !request.on_data(data);
      return ended ? 0 : data.size();
    }
    is_too_large = data.size() > request.max_reply - outcome.body.size();
    if (is_too_large) return 0;
    outcome.body += data;
    return data.size();
  }

  Outcome::Kind KindOf(CURLcode code) const {
    if (code == CURLE_OK) return Outcome::Kind::kDone;
    if (is_too_large) return Outcome::Kind::kTooLarge;
    if (ended) return Outcome::Kind::kStopped;
    return code == CURLE_COULDNT_CONNECT ? Outcome::Kind::kNotConnected : Outcome::Kind::kFailed;
  }
};

size_t OnData(char* data, size_t size, size_t count, void* call) {
  return static_cast<Call*>(call)->Take({data, size * count});
}

int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& call = *static_cast<Call*>(self);
  call.ended = call.ended || call.request.stop();
  return call.ended ? 1 : 0;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

}  // namespace

Session::Session() {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
}

Session::~Session() {
  if (curl_ != nullptr) curl_easy_cleanup(curl_);
}

Outcome Session::Do(const Request& request) {
  Call call{request};
  if (curl_ == nullptr) {
    call.outcome.error = "cannot start libcurl";
    return call.outcome;
  }
  char detail[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, FreeList> headers;
  const auto add_header = [&](const std::string& text) {
    headers.reset(curl_slist_append(headers.release(), text.c_str()));
  };
  const auto set = [this](auto option, auto value) { curl_easy_setopt(curl_, option, value); };
  curl_easy_reset(curl_);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  if (!request.unix_socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
  if (!request.ca_file.empty()) set(CURLOPT_CAINFO, request.ca_file.c_str());
  set(CURLOPT_WRITEFUNCTION, &OnData);
  set(CURLOPT_WRITEDATA, &call);
  if (request.stop) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    set(CURLOPT_XFERINFODATA, &call);
  }
  for (const std::string& text : request.headers) add_header(text);
  if (request.body != nullptr) {
    add_header("Expect:");  // no round trip to ask first
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    set(CURLOPT_POSTFIELDS, request.body->data());
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  set(CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = curl_easy_perform(curl_);
  Outcome& outcome = call.outcome;
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  outcome.status = static_cast<int>(status);
  outcome.kind = call.KindOf(code);
  if (code != CURLE_OK) outcome.error = *detail ? detail : curl_easy_strerror(code);
  curl_easy_reset(curl_);  // the kept connection may yet have something to say, to what ends here
  return std::move(outcome);
}

}  // namespace spillway::http
