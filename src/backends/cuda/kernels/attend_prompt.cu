#include "backends/cuda/kernels/launch.h"

namespace vernier::cuda {

// attend_prompt_instance.cu.in makes these, one stored type a file.
template <KvNumbers S>
LaunchCode launch_attend_prompt(const AttendPromptCall& call, Stream stream);

LaunchCode attend_prompt(const AttendPromptCall& call, Stream stream) {
  switch (call.of.keys.stored) {
    case KvNumbers::kF16:
      return launch_attend_prompt<KvNumbers::kF16>(call, stream);
    case KvNumbers::kBF16:
      return launch_attend_prompt<KvNumbers::kBF16>(call, stream);
    case KvNumbers::kE4M3:
      return launch_attend_prompt<KvNumbers::kE4M3>(call, stream);
    default:
      return launch_attend_prompt<KvNumbers::kE5M2>(call, stream);
  }
}

}  // namespace vernier::cuda
