// SPDX-License-Identifier: Apache-2.0
// A unit whose TLS never comes to the point.
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <csignal>

#include "checker_fixture.h"

namespace spillway::health {
namespace {

using ::testing::HasSubstr;

// After each handshake it sends session tickets for as long as the client takes them.
class TicketServer {
 public:
  // ciphers: of TLS 1.2 alone, if any are given.
  explicit TicketServer(const char* ciphers = nullptr)
      : context_(SSL_CTX_new(TLS_server_method())),
        key_(ciphers == nullptr ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048)) {
    if (ciphers != nullptr) {
      SSL_CTX_set_max_proto_version(context_, TLS1_2_VERSION);
      SSL_CTX_set_cipher_list(context_, ciphers);
      SSL_CTX_set_dh_auto(context_, 1);
    }
    X509* const certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key_);
    X509_sign(certificate, key_, EVP_sha256());
    SSL_CTX_use_certificate(context_, certificate);
    SSL_CTX_use_PrivateKey(context_, key_);
    X509_free(certificate);
    socket_.Listen();
    thread_ = std::thread([this] { Serve(); });
  }
  ~TicketServer() {
    stop_ = true;
    shutdown(socket_.fd(), SHUT_RDWR);
    thread_.join();
    EVP_PKEY_free(key_);
    SSL_CTX_free(context_);
  }
  uint16_t port() const { return socket_.port(); }

 private:
  void Serve() {
    while (!stop_) {
      const int fd = accept(socket_.fd(), nullptr, nullptr);
      if (fd < 0) continue;
      const timeval patience{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
      SSL* const session = SSL_new(context_);
      SSL_set_fd(session, fd);
      bool goes_on = SSL_accept(session) == 1;
      while (goes_on && !stop_)
        goes_on = SSL_new_session_ticket(session) == 1 && SSL_do_handshake(session) == 1;
      SSL_free(session);
      close(fd);
    }
  }

  SSL_CTX* const context_;
  EVP_PKEY* const key_;
  Socket socket_{SOCK_STREAM};
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

using TlsFlood = CheckerTest;

TEST_F(TlsFlood, TicketsWithoutEndFailTheUnitAndHoldNoOtherCheckUp) {
  signal(SIGPIPE, SIG_IGN);
  TicketServer flooding;
  Socket listening(SOCK_STREAM);
  listening.Listen();
  auto https = QuickCheck(model::CheckKind::kHttps, flooding.port());
  https.timeout_ms = 20'000;
  Check({https, QuickCheck(model::CheckKind::kTcp, listening.port())});
  EXPECT_TRUE(Eventually([&] { return View(0).state == CheckState::kFailing; }));
  EXPECT_THAT(View(0).reason, HasSubstr("more than 100 TLS messages"));
  const uint64_t passed = View(1).passed;
  EXPECT_TRUE(Eventually([&] { return View(1).passed > passed + 5; }));
}

// The unit would choose the group: 10,000 bits cost the checker's thread a second for each check.
TEST_F(TlsFlood, FiniteFieldDiffieHellmanIsNotOffered) {
  signal(SIGPIPE, SIG_IGN);
  TicketServer elliptic, finite("kDHE");
  Check({QuickCheck(model::CheckKind::kTls, elliptic.port()),
         QuickCheck(model::CheckKind::kTls, finite.port())});
  EXPECT_TRUE(Eventually([&] { return View(0).passed > 0 && View(1).state == CheckState::kFailing; }));
  EXPECT_THAT(View(1).reason, HasSubstr("handshake failure"));
}

}  // namespace
}  // namespace spillway::health
