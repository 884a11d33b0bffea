#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_parts.h"

namespace vernier {

/// Takes each tensor that holds one matrix or bias of all experts of a layer ("...mlp.experts.down_proj", [experts,
/// ...]) apart into one for each ("...mlp.experts.3.down_proj.weight"), so that whoever binds experts finds them under
/// one name whatever the checkpoint's form. Codes and scales of a stack ("..._blocks", "..._scales") keep their
/// endings. Copies no numbers. What is no such stack stays as it is.
void take_expert_stacks_apart(std::vector<StoredTensor>& tensors);

/// Whether it was taken out of such a stack. Names that end in "[3]" by themselves are of none.
bool is_of_stack(const StoredTensor& tensor);
/// The tensor in the file of one that was taken out of it, "a" of "a[3]", and its place there; of another tensor its
/// own name and 0.
std::string stack_of(const StoredTensor& tensor);
size_t place_in_stack(const StoredTensor& tensor);

}  // namespace vernier
