// What a build of torch for CUDA answers on a machine with a GPU, in a build for the CPU.
#include <ATen/detail/CUDAHooksInterface.h>

#include <new>

struct Built final : at::CUDAHooksInterface {
  bool isBuilt() const { return true; } // overrides from 2.7 on
  bool hasCUDA() const override { return true; }
};

static const auto* built = new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) Built;
