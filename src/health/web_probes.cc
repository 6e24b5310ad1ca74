// SPDX-License-Identifier: Apache-2.0
// Checks by libcurl: tls, http and https.
#include "probe_kinds.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace spillway::health {
namespace {

constexpr size_t kLongestBody = 64 << 10;  // of which `body` is looked for

// Of an answer's header lines, 1xx answers' and trailers included: libcurl keeps all trailers that come.
constexpr size_t kLongestHeaders = 64 << 10;

// Without finite-field Diffie-Hellman, whose group the unit chooses: 10,000 bits cost the checker's thread a
// second.
constexpr const char *kCiphers = "DEFAULT:!kDHE", *kGroups = "X25519:P-256:P-384:P-521";

// Messages of TLS itself from a unit per check; a handshake takes about ten. OpenSSL goes on reading while
// they come, and a unit that sends session tickets without end would have the checker's thread for as long.
constexpr int kMaxTlsMessages = 100;

class WebProbe : public Probe, private http::Transfer {
 public:
  WebProbe(const Subject& subject, const model::HealthCheck& check, WebSessions& sessions,
           std::function<void(Outcome)> finish)
      : Probe(std::move(finish)), transfers_(sessions.transfers()), check_(check) {
    const std::string address = subject.address.ToString();
    const std::string numeric = subject.address.family == 4 ? address : "[" + address + "]";
    const bool tls = check.kind != model::CheckKind::kHttp;
    // The certificate and SNI go by the URL's host, the connection to the unit in any case.
    const std::string host = check.host.empty() ? numeric : check.host;
    url_ = fmt::format("{}://{}:{}{}", tls ? "https" : "http", host, check.port,
                       check.kind == model::CheckKind::kTls ? "/" : check.path);
    connect_to_ = curl_slist_append(nullptr, fmt::format("::{}:{}", numeric, check.port).c_str());
    if (!check.host.empty())
      headers_ = curl_slist_append(nullptr, ("Host: " + check.host).c_str());  // without the port
  }
  ~WebProbe() override {
    if (easy_ != nullptr) transfers_.Return(easy_);
    curl_slist_free_all(connect_to_);
    curl_slist_free_all(headers_);
  }

  void Start() override {
    easy_ = transfers_.Borrow();
    if (easy_ == nullptr) return Skip("libcurl gives no handle");
    seen_ = 0;
    headers_seen_ = 0;
    tls_messages_ = 0;
    socket_ = CURL_SOCKET_BAD;
    socket_error_ = 0;
    error_[0] = 0;
    const auto set = [this](auto option, auto value) { curl_easy_setopt(easy_, option, value); };
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_CONNECT_TO, connect_to_);
    set(CURLOPT_PROXY, "");  // whatever the environment says
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_USERAGENT, "spillwayd-health");
    set(CURLOPT_ERRORBUFFER, error_);
    // libcurl keeps TLS sessions of its own accord; a check is a whole handshake.
    set(CURLOPT_SSL_SESSIONID_CACHE, 0L);
    set(CURLOPT_SSL_VERIFYPEER, check_.ca_file.empty() ? 0L : 1L);
    set(CURLOPT_SSL_VERIFYHOST, check_.ca_file.empty() ? 0L : 2L);
    if (!check_.ca_file.empty()) set(CURLOPT_CAINFO, check_.ca_file.c_str());
    if (headers_ != nullptr) set(CURLOPT_HTTPHEADER, headers_);
    if (check_.kind == model::CheckKind::kTls) set(CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &WebProbe::OnBody);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &WebProbe::OnHeader);
    curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &WebProbe::OnOpen);
    curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, this);
    curl_easy_setopt(easy_, CURLOPT_SSL_CTX_FUNCTION, &WebProbe::OnTls);
    curl_easy_setopt(easy_, CURLOPT_SSL_CTX_DATA, this);
    if (transfers_.Run(easy_, this)) return;
    GiveBack();
    Skip("libcurl takes no transfer");
  }

  Outcome Stop() override {
    // Told apart, as they have different causes: a host that is gone, and a server that hangs. Of TLS,
    // libcurl counts the handshake to the connection.
    double connected = 0;
    curl_easy_getinfo(easy_, CURLINFO_CONNECT_TIME, &connected);
    GiveBack();
    body_ = std::string();
    if (connected != 0) return {Outcome::Kind::kFailed, "connected, but no whole answer"};
    return {Outcome::Kind::kFailed,
            check_.kind == model::CheckKind::kHttp ? "no connection" : "no TLS handshake"};
  }

 private:
  static size_t OnBody(char* data, size_t one, size_t count, void* self) {
    auto& probe = *static_cast<WebProbe*>(self);
    const size_t bytes = one * count, wanted = std::min(bytes, kLongestBody - probe.seen_);
    if (!probe.check_.body.empty()) probe.body_.append(data, wanted);
    probe.seen_ += wanted;
    // Less than was offered ends the transfer: enough was seen.
    return probe.seen_ < kLongestBody ? bytes : 0;
  }

  static size_t OnHeader(char*, size_t one, size_t count, void* self) {
    auto& probe = *static_cast<WebProbe*>(self);
    probe.headers_seen_ += one * count;
    return probe.headers_seen_ <= kLongestHeaders ? one * count : 0;
  }

  // libcurl's own way says only that there is no connection, not why.
  static curl_socket_t OnOpen(void* self, curlsocktype, curl_sockaddr* to) {
    auto& probe = *static_cast<WebProbe*>(self);
    const int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd < 0) probe.socket_error_ = errno;
    return probe.socket_ = fd < 0 ? CURL_SOCKET_BAD : fd;
  }

  static CURLcode OnTls(CURL*, void* context, void* self) {
    auto* const tls = static_cast<SSL_CTX*>(context);
    if (SSL_CTX_set_cipher_list(tls, kCiphers) != 1 || SSL_CTX_set1_groups_list(tls, kGroups) != 1)
      return CURLE_FAILED_INIT;
    SSL_CTX_set_msg_callback(tls, &WebProbe::OnTlsMessage);
    SSL_CTX_set_msg_callback_arg(tls, self);
    return CURLE_OK;
  }

  static void OnTlsMessage(int is_sent, int, int type, const void*, size_t, SSL*, void* self) {
    auto& probe = *static_cast<WebProbe*>(self);
    const bool counts = !is_sent && (type == SSL3_RT_HANDSHAKE || type == SSL3_RT_ALERT ||
                                     type == SSL3_RT_CHANGE_CIPHER_SPEC);
    if (!counts || ++probe.tls_messages_ <= kMaxTlsMessages) return;
    // What the kernel holds of it goes as well, so that OpenSSL's next read fails.
    const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
    (void)connect(probe.socket_, &nowhere, sizeof(nowhere));
  }

  bool HasAnswered() const {
    curl_off_t first_byte_us = 0;
    curl_easy_getinfo(easy_, CURLINFO_STARTTRANSFER_TIME_T, &first_byte_us);
    return first_byte_us != 0;
  }

  bool IsOwnFault(CURLcode code) const {
    switch (code) {
      case CURLE_OUT_OF_MEMORY:
        return !HasAnswered();  // after that it may be a line of the unit's that is too long for libcurl
      case CURLE_ABORTED_BY_CALLBACK:
      case CURLE_FAILED_INIT:
      case CURLE_SSL_CACERT_BADFILE:  // cannot be read; that it does not fit the unit's is another one
      case CURLE_SSL_CERTPROBLEM:
        return true;
      case CURLE_COULDNT_CONNECT:
        break;
      default:
        return false;
    }
    long error = socket_error_;
    if (error == 0) curl_easy_getinfo(easy_, CURLINFO_OS_ERRNO, &error);
    return IsOwnShortage(static_cast<int>(error));
  }

  void OnEnd(CURLcode code) override {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    const bool cut = code == CURLE_WRITE_ERROR && seen_ >= kLongestBody;
    const bool own = IsOwnFault(code);
    const std::string error = *error_ != 0 ? error_ : curl_easy_strerror(code);
    // Not kept until the next check: there may be many units.
    const std::string body = std::exchange(body_, std::string());
    const bool flooded = tls_messages_ > kMaxTlsMessages;
    GiveBack();  // closes the connection at once, so that OnTlsMessage is not called any more
    if (flooded) return Fail(fmt::format("flooded: more than {} TLS messages", kMaxTlsMessages));
    if (headers_seen_ > kLongestHeaders) return Fail("flooded: more than 64 KiB of headers and trailers");
    if (own) return Skip(error);
    if (code != CURLE_OK && !cut) return Fail(error);
    if (check_.kind == model::CheckKind::kTls) return Pass();
    Judge(static_cast<int>(status), body);
  }

  void Judge(int status, const std::string& body) {
    const auto& good = check_.statuses;
    const bool expected = std::any_of(good.begin(), good.end(), [status](const auto& range) {
      return range.first <= status && status <= range.second;
    });
    if (!expected) return Fail(fmt::format("status {}", status));
    if (body.find(check_.body) == body.npos)
      return Fail(fmt::format("status {}, but the body{} does not contain the expected text", status,
                              seen_ >= kLongestBody ? "'s first 64 KiB" : ""));
    Pass();
  }

  void GiveBack() {
    CURL* const easy = easy_;
    easy_ = nullptr;
    transfers_.Return(easy);
  }

  http::Transfers& transfers_;
  const model::HealthCheck check_;
  std::string url_;
  curl_slist *connect_to_ = nullptr, *headers_ = nullptr;
  CURL* easy_ = nullptr;     // while a check runs
  std::string body_;         // as far as it was seen, if something must be in it
  size_t seen_ = 0;          // bytes of the body, at most kLongestBody
  size_t headers_seen_ = 0;  // bytes of header lines received in this check
  int tls_messages_ = 0;     // received in this check
  curl_socket_t socket_ = CURL_SOCKET_BAD;
  int socket_error_ = 0;  // errno of socket()
  char error_[CURL_ERROR_SIZE] = "";
};

}  // namespace

std::unique_ptr<Probe> MakeWebProbe(const Subject& subject, const model::HealthCheck& check,
                                    WebSessions& sessions, std::function<void(Outcome)> finish) {
  return std::make_unique<WebProbe>(subject, check, sessions, std::move(finish));
}

}  // namespace spillway::health
