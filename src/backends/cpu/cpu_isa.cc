#include "backends/cpu/cpu_isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vernier {
namespace {

constexpr std::array<Isa, 4> kAll = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

#if defined(__x86_64__)

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);  // zeros for a leaf the processor does not know
  return r;
}

/// Which registers the system saves when it switches threads; an instruction set whose registers it does not save is
/// unusable whatever the processor has.
uint64_t saved_registers() {
  if ((cpuid(1).c & bit_OSXSAVE) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool has_all(uint32_t bits, uint32_t wanted) {
  return (bits & wanted) == wanted;
}

/// A process asks once for the registers of tiles, which are large; without, the first tile ends it.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<Isa> detect() {
  std::vector<Isa> isas = {Isa::kBaseline};
  constexpr uint64_t kYmm = 0x6, kZmm = 0xE6;  // SSE and AVX; and the masks, low and high halves of the ZMM registers
  uint64_t saved = saved_registers();
  Registers one = cpuid(1), seven = cpuid(7), seven_one = cpuid(7, 1);
  bool avx2 = (saved & kYmm) == kYmm && has_all(one.c, bit_AVX | bit_FMA | bit_F16C) &&
              has_all(seven.b, bit_AVX2 | bit_BMI | bit_BMI2);
  if (avx2) isas.push_back(Isa::kAvx2);
  bool avx512 = avx2 && (saved & kZmm) == kZmm &&
                has_all(seven.b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
                has_all(seven.c, bit_AVX512VNNI) && has_all(seven_one.a, bit_AVX512BF16);
  if (avx512) isas.push_back(Isa::kAvx512);
  constexpr uint64_t kTiles = 0x60000;
  constexpr uint32_t kAmx = 1u << 22 | 1u << 24 | 1u << 25;  // BF16, TILE, INT8
  if (avx512 && (saved & kTiles) == kTiles && has_all(seven.d, kAmx) && may_use_tiles()) isas.push_back(Isa::kAmx);
  return isas;
}

#else

std::vector<Isa> detect() {
  return {Isa::kBaseline};
}

#endif

std::string list(const auto& isas) {
  std::string text;
  for (Isa isa : isas) {
    if (!text.empty()) text += ", ";
    text += name(isa);
  }
  return text;
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

const std::vector<Isa>& machine_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Result<Isa> choose_isa(std::string_view wanted) {
  if (wanted.empty()) return machine_isas().back();
  auto it = std::ranges::find_if(kAll, [&](Isa isa) { return name(isa) == wanted; });
  if (it == kAll.end()) {
    return invalid_argument("'{}' is no instruction set; this machine has: {}", wanted, list(machine_isas()));
  }
  if (std::ranges::find(machine_isas(), *it) == machine_isas().end()) {
    return unsupported("this machine lacks {}; it has: {}", wanted, list(machine_isas()));
  }
  return *it;
}

std::string machine_name() {
#if defined(__x86_64__)
  std::array<uint32_t, 13> words{};
  for (uint32_t i = 0; i < 3; ++i) {
    Registers r = cpuid(0x80000002u + i);
    uint32_t quad[] = {r.a, r.b, r.c, r.d};
    std::memcpy(&words[4 * i], quad, sizeof quad);
  }
  std::string text(reinterpret_cast<const char*>(words.data()));
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "x86-64 processor";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
#else
  return "processor";
#endif
}

}  // namespace vernier
