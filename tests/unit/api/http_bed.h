// SPDX-License-Identifier: Apache-2.0
// A server of the API's on a UNIX socket in a folder of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "api/http.h"
#include "api/listen.h"

namespace spillway::api {

class Http : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spillway-http-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    socket_ = folder_ + "/api.sock";
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Serve(Handler handler) {
    auto listener = ListenUnix(socket_);
    ASSERT_TRUE(listener.has_value()) << listener.error().message;
    file_ = std::move(listener->file);
    auto server = HttpServer::Start(listener->fd, std::move(handler));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
  }

  // Sends bytes as they are and goes.
  void Rude(const std::string& bytes) const { close(Send(bytes)); }

  // Sends bytes as they are and returns what comes back until the server closes.
  std::string Raw(const std::string& bytes) const {
    const int fd = Send(bytes);
    shutdown(fd, SHUT_WR);
    std::string answer;
    char buffer[4096];
    for (ssize_t count; (count = recv(fd, buffer, sizeof(buffer), 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(count));
    close(fd);
    return answer;
  }

  int Send(const std::string& bytes) const {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket_.c_str());
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) break;  // the server has had enough
      sent += static_cast<size_t>(count);
    }
    return fd;
  }

  std::string folder_, socket_;
  SocketFile file_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace spillway::api
