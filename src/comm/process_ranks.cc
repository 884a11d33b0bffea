#include "comm/process_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/socket_transport.h"

namespace vernier {
namespace {

/// Between two looks for ranks that have not opened their socket yet.
constexpr int kRetryMs = 5;

/// What both sides of a new connection send first.
struct Hello {
  std::array<char, 8> word = {'v', 'e', 'r', 'n', 'r', 'a', 'n', 'k'};
  int32_t rank = 0;
  int32_t size = 0;
};
static_assert(sizeof(Hello) == 16);

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) {
    return invalid_argument("{} is longer than the {} bytes that a socket's path may have; name a shorter folder",
                            path.string(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

OwnedDescriptor new_socket() {
  return OwnedDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool connects_to(const OwnedDescriptor& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// A socket in the folder for as long as ranks meet.
class Meeting {
 public:
  Meeting(std::filesystem::path folder, int rank, int size)
      : folder_(std::move(folder)), rank_(rank), sockets_(static_cast<size_t>(size)) {}
  ~Meeting() {
    if (listener_.is_open()) ::unlink(path_of(rank_).c_str());
  }

  Status open();
  Status wait_for_all(int64_t timeout_ns);
  std::vector<OwnedDescriptor> take_sockets() { return std::move(sockets_); }

 private:
  /// A connection whose other side has not said who it is.
  struct Guest {
    OwnedDescriptor socket;
    std::string said = {};
    int called = -1;  ///< the rank that was called; -1: it called
  };
  int size() const { return static_cast<int>(sockets_.size()); }
  std::filesystem::path path_of(int rank) const { return folder_ / fmt::format("rank-{}", rank); }
  std::vector<int> absent() const;
  Status call_lower();
  void let_in();
  Status hear(Guest& guest);
  Status seat(Guest& guest);
  bool greet(Guest guest);
  void send_off(Guest& guest);

  std::filesystem::path folder_;
  int rank_;
  OwnedDescriptor listener_;
  std::vector<OwnedDescriptor> sockets_;  // by rank
  std::vector<bool> called_ = std::vector<bool>(sockets_.size(), false);
  std::vector<Guest> guests_;
};

Status Meeting::open() {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) return make_error(ErrorCode::kInternal, "{}: {}", folder_.string(), failed.message());
  TRY_BIND(const sockaddr_un address, address_of(path_of(rank_)));
  // It listens before it has its name, so that a name where nobody listens is of a run that was killed.
  const std::filesystem::path passing = folder_ / fmt::format("rank-{}.{}", rank_, ::getpid());
  TRY_BIND(const sockaddr_un passing_address, address_of(passing));
  OwnedDescriptor listener = new_socket();
  ::unlink(passing.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&passing_address), sizeof passing_address) != 0 ||
      ::listen(listener.get(), size()) != 0) {
    return make_error(ErrorCode::kInternal, "{}: no socket can be there: {}", passing.string(), std::strerror(errno));
  }
  const auto named = [&] { return ::link(passing.c_str(), address.sun_path) == 0; };
  bool is_named = named();
  const bool is_taken = !is_named && errno == EEXIST && (connects_to(new_socket(), address) || errno != ECONNREFUSED);
  if (!is_named && !is_taken) {
    ::unlink(address.sun_path);
    is_named = named();
  }
  const std::string why = std::strerror(errno);
  ::unlink(passing.c_str());
  if (is_taken) {
    return invalid_argument("a rank {} is in {} already; each rank has a number of its own, each run a folder", rank_,
                            folder_.string());
  }
  if (!is_named) return make_error(ErrorCode::kInternal, "{}: {}", address.sun_path, why);
  listener_ = std::move(listener);
  return {};
}

std::vector<int> Meeting::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && !sockets_[static_cast<size_t>(rank)].is_open()) ranks.push_back(rank);
  }
  return ranks;
}

/// Says who this is; whether the other side can hear it.
bool Meeting::greet(Guest guest) {
  Hello hello;
  hello.rank = rank_;
  hello.size = size();
  if (::send(guest.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return false;
  guests_.push_back(std::move(guest));
  return true;
}

/// One that was called is called again: what answered was of another run.
void Meeting::send_off(Guest& guest) {
  guest.socket.close();
  if (guest.called >= 0) called_[static_cast<size_t>(guest.called)] = false;
}

/// Each pair is connected once, by the higher rank.
Status Meeting::call_lower() {
  for (int rank = 0; rank < rank_; ++rank) {
    const auto index = static_cast<size_t>(rank);
    if (called_[index]) continue;
    TRY_BIND(const sockaddr_un address, address_of(path_of(rank)));
    OwnedDescriptor socket = new_socket();
    if (connects_to(socket, address)) called_[index] = greet({std::move(socket), {}, rank});
  }
  return {};
}

void Meeting::let_in() {
  while (true) {
    OwnedDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    greet({std::move(socket)});
  }
}

Status Meeting::seat(Guest& guest) {
  Hello hello;
  std::memcpy(&hello, guest.said.data(), sizeof hello);
  if (hello.word != Hello().word) {
    send_off(guest);
    return {};
  }
  if (hello.size != size()) {
    return invalid_argument("rank {} was started for {} ranks, and rank {} for {}", hello.rank, hello.size, rank_,
                            size());
  }
  if (hello.rank < 0 || hello.rank >= size() || hello.rank == rank_ ||
      sockets_[static_cast<size_t>(hello.rank)].is_open()) {
    return invalid_argument("rank {} came twice to {}", hello.rank, folder_.string());
  }
  sockets_[static_cast<size_t>(hello.rank)] = std::move(guest.socket);
  return {};
}

/// Reads no more than what comes first: frames behind it are for the transport.
Status Meeting::hear(Guest& guest) {
  char buffer[sizeof(Hello)];
  const ssize_t got = ::recv(guest.socket.get(), buffer, sizeof(Hello) - guest.said.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
  if (got <= 0) {
    send_off(guest);
    return {};
  }
  guest.said.append(buffer, static_cast<size_t>(got));
  return guest.said.size() == sizeof(Hello) ? seat(guest) : Status();
}

Status Meeting::wait_for_all(int64_t timeout_ns) {
  const int64_t deadline_ns = monotonic_ns() + timeout_ns;
  while (!absent().empty()) {
    if (monotonic_ns() > deadline_ns) {
      return make_error(ErrorCode::kTimeout, "{} did not come to {} within {}", ranks_text(absent()), folder_.string(),
                        format_duration(timeout_ns));
    }
    TRY_STATUS(call_lower());
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) polled.push_back({guest.socket.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), kRetryMs);
    for (Guest& guest : guests_) TRY_STATUS(hear(guest));
    std::erase_if(guests_, [](const Guest& guest) { return !guest.socket.is_open(); });
    let_in();
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<RankTransport>> meet_in_folder(const std::filesystem::path& folder, int rank, int size,
                                                      int64_t timeout_ns) {
  if (size < 1 || rank < 0 || rank >= size) {
    return invalid_argument("rank {} of {}: ranks are numbered from 0", rank, size);
  }
  Meeting meeting(folder, rank, size);
  TRY_STATUS(meeting.open());
  TRY_STATUS(meeting.wait_for_all(timeout_ns));
  return std::unique_ptr<RankTransport>(std::make_unique<SocketTransport>(rank, meeting.take_sockets()));
}

}  // namespace vernier
