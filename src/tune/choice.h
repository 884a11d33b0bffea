#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// Why a candidate was taken or refused. Codes are stable: metrics count them and `--on-fallback` acts on them.
enum class ReasonCode : uint8_t {
  kChosen,        ///< the fastest of those that can
  kSlower,        ///< can, and another is faster
  kNeedsIsa,      ///< the machine, or --isa, lacks an instruction set
  kCodec,         ///< does not read this codec
  kShape,         ///< an extent is no multiple of what it needs
  kNumerics,      ///< --numerics asks for more than it keeps
  kRows,          ///< made for another number of rows
  kNotBuilt,      ///< its backend is switched off in this build
  kNeedsFeature,  ///< the chip lacks a capability
  kBlockSize,     ///< made for scale groups of another size
  kScales,        ///< does not read scales stored so, or so many of them
  kResultType,    ///< does not write this type
  kValues,        ///< reads some of the weight's codes wrongly
  kNotAsked,      ///< can, and another was asked for by name
};

std::string_view name(ReasonCode code);

/// A verdict with the values that decided it, for people: "needs avx512_vnni; this machine has avx2".
struct Reason {
  ReasonCode code = ReasonCode::kChosen;
  std::string detail;
};

/// What must be computed: an op and the facts that select a kernel, in a fixed order, as printable text.
struct Problem {
  std::string op;  ///< "linear", "attend"
  struct Fact {
    std::string name;
    std::string value;
  };
  std::vector<Fact> facts;

  std::string to_string() const;  ///< "linear(codec=q4_1, rows=576, cols=576, batch=1)"
};

/// Named values in a fixed order.
using Facts = std::vector<Problem::Fact>;
std::string facts_text(const Facts& facts);  ///< "isa=avx2, threads=2"; "none" of none

/// Who could compute it, and the verdict.
struct Candidate {
  std::string kernel;  ///< stable name: "gemv_u4_avx2"
  Reason reason;
  Facts parameters = {};  ///< of the one that runs: how its work is cut
};

/// A problem, every candidate with its reason, and the one taken: exactly one has kChosen.
struct Choice {
  Problem problem;
  std::vector<Candidate> candidates;
  std::string layout;  ///< of the packed weight or the cache, with its padding cost where there is one

  const Candidate& chosen() const;
};

}  // namespace vernier
