// A build of torch for CUDA, ROCm or XPU has none of them here, as torch on a Mac has none.
//
// torch knows one kind of accelerator in a process. Since 2.7 that is the one it is built for, with or without such a
// GPU (`at::accelerator::getAccelerator`), and with MPS in addition the question raises. It asks the hooks of each kind,
// which torch may have made while it was imported, and keeps for ever; they have no members. In their place come those
// of a build without, which say no, and refuse.

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/HIPHooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>

#include <new>

namespace {

template <typename Hooks>
bool without(const Hooks& hooks) {
  auto* place = const_cast<Hooks*>(&hooks);
  place->~Hooks();
  new (place) Hooks;
  return true;
}

const bool absent =
    without(at::detail::getCUDAHooks()) && without(at::detail::getHIPHooks()) && without(at::detail::getXPUHooks());

} // namespace
