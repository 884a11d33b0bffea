// BASE-1: a failure cannot be dropped by not looking at it.
#include "base/result.h"

namespace vernier {

Status write_file();
Result<int> read_number();

int use() {
#ifndef VERNIER_MISUSE
  Status status = write_file();
  Result<int> number = read_number();
  return status.ok() && number.ok() ? *number : 0;
#elif VERNIER_MISUSE == 1
  write_file();  // expect-error: ignoring returned value of type
  return 0;
#elif VERNIER_MISUSE == 2
  read_number();  // expect-error: ignoring returned value of type
  return 0;
#elif VERNIER_MISUSE == 3
  return read_number();  // expect-error: cannot convert
#elif VERNIER_MISUSE == 4
  not_found("no {}", "model");  // expect-error: ignoring returned value
  return 0;
#endif
}

}  // namespace vernier
