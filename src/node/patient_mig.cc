// SPDX-License-Identifier: Apache-2.0
#include "node/patient_mig.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/signals.h"

namespace spillway::node {
namespace {

// One call, shared by who waits for it and the thread that makes it.
template <class Answer>
struct Call {
  base::Mutex mutex;
  base::Condition changed;
  std::optional<Answer> answer SPILLWAY_GUARDED_BY(mutex);
  std::exception_ptr thrown SPILLWAY_GUARDED_BY(mutex);  // instead, by what it called back
  bool given_up SPILLWAY_GUARDED_BY(mutex) = false;
};

class PatientMig : public Mig {
 public:
  PatientMig(std::unique_ptr<Mig> mig, std::chrono::milliseconds patience)
      : mig_(std::move(mig)), patience_(patience) {}

  // What `remember` writes to is the caller's, who has gone on once the call is given up: then it is an
  // error, for which what was made is ended again.
  Result<std::string> Make(const MigPlace& place,
                           const std::function<Result<void>(unsigned)>& remember) override {
    return Ask<Result<std::string>>(place.gpu, [place, &remember](Mig& mig, auto& call) {
      return mig.Make(place, [&](unsigned id) -> Result<void> {
        const base::MutexLock lock(call.mutex);
        if (call.given_up) return Fail(ErrorCode::kUnavailable, "given up");
        return remember(id);
      });
    });
  }
  Result<std::optional<Instance>> Find(const MigPlace& place) override {
    return Ask<Result<std::optional<Instance>>>(place.gpu,
                                                [place](Mig& mig, auto&) { return mig.Find(place); });
  }
  Result<void> Drop(const MigPlace& place, unsigned id) override {
    return Ask<Result<void>>(place.gpu, [place, id](Mig& mig, auto&) { return mig.Drop(place, id); });
  }

 private:
  template <class Answer, class Question>
  Answer Ask(const std::string& gpu, const Question& question) {
    const auto mute = [&] {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("its driver has not answered for {} s", patience_ / std::chrono::seconds(1)));
    };
    // Those of a GPU that were given up and have ended since are forgotten.
    std::erase_if(given_up_, [](const auto& entry) { return entry.second.expired(); });
    if (given_up_.count(gpu) != 0) return mute();
    const auto call = std::make_shared<Call<Answer>>();
    {
      const base::SignalsHeld held;
      std::thread([mig = mig_, call, question] {
        std::optional<Answer> answer;
        std::exception_ptr thrown;
        try {
          answer = question(*mig, *call);
        } catch (...) {
          thrown = std::current_exception();
        }
        const base::MutexLock lock(call->mutex);
        call->answer = std::move(answer);
        call->thrown = thrown;
        call->changed.NotifyAll();
      }).detach();
    }
    const base::MutexLock lock(call->mutex);
    const auto is_done = [&]() SPILLWAY_REQUIRES(call->mutex) { return call->answer || call->thrown; };
    if (call->changed.WaitFor(call->mutex, patience_, is_done)) {
      if (call->thrown) std::rethrow_exception(call->thrown);
      return std::move(*call->answer);
    }
    call->given_up = true;
    given_up_[gpu] = call;
    return mute();
  }

  std::shared_ptr<Mig> mig_;  // with calls that outlive this
  std::chrono::milliseconds patience_;
  std::map<std::string, std::weak_ptr<void>> given_up_;  // by GPU
};

}  // namespace

std::unique_ptr<Mig> MakePatientMig(std::unique_ptr<Mig> mig, std::chrono::milliseconds patience) {
  return std::make_unique<PatientMig>(std::move(mig), patience);
}

}  // namespace spillway::node
