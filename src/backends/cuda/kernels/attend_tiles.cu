#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

// attend_tiles_instance.cu.in makes these, one stored type a file.
template <KvNumbers S>
LaunchCode launch_attend_tiles(const AttendTilesCall& call, Stream stream);

LaunchCode attend_tiles(const AttendTilesCall& call, Stream stream) {
  if (call.first_row == call.end_row) return kLaunched;
  switch (call.of.keys.stored) {
    case KvNumbers::kF16:
      return launch_attend_tiles<KvNumbers::kF16>(call, stream);
    case KvNumbers::kBF16:
      return launch_attend_tiles<KvNumbers::kBF16>(call, stream);
    case KvNumbers::kE4M3:
      return launch_attend_tiles<KvNumbers::kE4M3>(call, stream);
    default:
      return launch_attend_tiles<KvNumbers::kE5M2>(call, stream);
  }
}

}  // namespace vernier::cuda
