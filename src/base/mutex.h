// SPDX-License-Identifier: Apache-2.0
// A mutex that clang understands: what it guards, and who must hold it, is said beside each field and
// function, and -Wthread-safety holds the code to that.
//
//   bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
//   void Loop() SPILLWAY_REQUIRES(mutex_);  // callers hold it
//   changed_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; });
//
// A lambda is a function of its own there: it says what it needs, as above. Constructors and destructors are
// not looked into, local variables are guarded only as members of a struct.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define SPILLWAY_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define SPILLWAY_THREAD_SAFETY(attribute)
#endif

// Of a field. `&Class::mutex_` is some object's of that class, for a field that has no way to its own.
#define SPILLWAY_GUARDED_BY(mutex) SPILLWAY_THREAD_SAFETY(guarded_by(mutex))
// Of a function: its callers hold it.
#define SPILLWAY_REQUIRES(...) SPILLWAY_THREAD_SAFETY(requires_capability(__VA_ARGS__))
// Of a function: its callers do not hold it, as it takes it, or waits for what may take long.
#define SPILLWAY_EXCLUDES(...) SPILLWAY_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
// Of a function that is right for a reason which cannot be told to clang; the reason stands beside it.
#define SPILLWAY_NO_THREAD_SAFETY_ANALYSIS SPILLWAY_THREAD_SAFETY(no_thread_safety_analysis)
// For locks themselves.
#define SPILLWAY_CAPABILITY(kind) SPILLWAY_THREAD_SAFETY(capability(kind))
#define SPILLWAY_SCOPED_CAPABILITY SPILLWAY_THREAD_SAFETY(scoped_lockable)
#define SPILLWAY_ACQUIRE(...) SPILLWAY_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define SPILLWAY_TRY_ACQUIRE(...) SPILLWAY_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE(...) SPILLWAY_THREAD_SAFETY(release_capability(__VA_ARGS__))

namespace spillway::base {

// Its functions have the standard library's names, so that std::condition_variable_any, which also hears a
// std::stop_token, waits with it.
class SPILLWAY_CAPABILITY("mutex") Mutex {
 public:
  void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() SPILLWAY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds it to the end of the scope, but for the time from Unlock to Lock.
class SPILLWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SPILLWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Takes it over from a caller who has it, as after try_lock.
  MutexLock(Mutex& mutex, std::adopt_lock_t) SPILLWAY_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() SPILLWAY_RELEASE() {
    if (is_held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() SPILLWAY_RELEASE() {
    is_held_ = false;
    mutex_.unlock();
  }
  void Lock() SPILLWAY_ACQUIRE() {
    mutex_.lock();
    is_held_ = true;
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

// A condition variable. Who waits holds the mutex before and after, and whenever `done` is asked.
class Condition {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  // May return without reason.
  void Wait(Mutex& mutex) SPILLWAY_REQUIRES(mutex) {
    Lent lent(mutex);
    condition_.wait(lent);
  }
  template <class Done>
  void Wait(Mutex& mutex, Done done) SPILLWAY_REQUIRES(mutex) {
    Lent lent(mutex);
    condition_.wait(lent, std::move(done));
  }
  // Those with a limit return what `done` said last.
  template <class Duration, class Done>
  bool WaitFor(Mutex& mutex, const Duration& limit, Done done) SPILLWAY_REQUIRES(mutex) {
    Lent lent(mutex);
    return condition_.wait_for(lent, limit, std::move(done));
  }
  template <class Time, class Done>
  bool WaitUntil(Mutex& mutex, const Time& limit, Done done) SPILLWAY_REQUIRES(mutex) {
    Lent lent(mutex);
    return condition_.wait_until(lent, limit, std::move(done));
  }

 private:
  // The lock that the waiting one has, in the form that the standard library wants; he has it again
  // afterwards.
  struct Lent : std::unique_lock<std::mutex> {
    explicit Lent(Mutex& mutex) : unique_lock(mutex.mutex_, std::adopt_lock) {}
    ~Lent() { release(); }
  };

  std::condition_variable condition_;
};

}  // namespace spillway::base
