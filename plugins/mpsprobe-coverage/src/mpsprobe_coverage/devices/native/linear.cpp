// `linear` in the order in which the CPU adds up when it is differentiated.
//
// `should_fold` in aten/src/ATen/native/LinearAlgebra.cpp asks whether the weight needs a gradient: then rows of all batches are
// one matrix, copied for it. Kernels run below autograd, where nothing needs one, and batches would be multiplied one by one.

#include "device.h"

#include <ATen/ops/mm.h>

namespace mpsprobe {

bool is_folded(const at::Tensor& input, const at::Tensor& weight) {
  return weight.requires_grad() && input.dim() > 2 && !input.is_contiguous();
}

void run_folded(torch::jit::Stack* stack) {
  auto bias = torch::jit::pop(*stack).toOptional<at::Tensor>();
  auto weight = torch::jit::pop(*stack).toTensor();
  auto input = torch::jit::pop(*stack).toTensor();
  auto sizes = input.sizes().vec();
  auto result = at::mm(input.reshape({-1, sizes.back()}), weight.t());
  sizes.back() = weight.size(0);
  result = result.view(sizes);
  stack->emplace_back(bias.has_value() && bias->defined() ? result.add_(*bias) : result);
}

} // namespace mpsprobe
