// A backend in the CPU's memory whose operators all run on the CPU through PyTorch's own fallback, as those do that are
// registered so for MPS (aten/src/ATen/mps/MPSFallback.mm). With it PyTorch itself says what autograd makes of them.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>

namespace {

const c10::Device device(c10::kPrivateUse1, 0);
constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = std::malloc(bytes ? bytes : 1);
    return {data, data, &std::free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Memory memory;

// The engine of autograd asks for these where gradients go from one device to another; nothing is asynchronous here.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device.type(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Device getDevice() const override { return device; }
  c10::Device exchangeDevice(c10::Device) const override { return device; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, device); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isAvailable() const { return true; }  // an override since torch 2.7
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
Hooks hooks;
const bool registered = (at::RegisterPrivateUse1HooksInterface(&hooks), true);

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

// The same memory as a tensor of the CPU.
at::Tensor seen(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

// What it does, counted by itself: calls of the fallback, bytes to the CPU, bytes from the CPU.
std::atomic<int64_t> fallbacks{0}, to_cpu{0}, from_cpu{0};

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (from.is_cpu() != to.is_cpu()) {
    (to.is_cpu() ? to_cpu : from_cpu) += static_cast<int64_t>(from.nbytes());
  }
  seen(to).copy_(seen(from));
  return to;
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) { return seen(tensor).item(); }

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++fallbacks;
  at::native::cpu_fallback(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", [](const at::Tensor& from, const at::Tensor& to) { return copy_from(from, to, false); });
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("as_strided", at::cpu::as_strided);
  m.impl("view", at::cpu::view);
  // Composite, and registered fallbacks of MPS in one release or another.
  for (auto name : {"linalg_svd", "repeat_interleave.self_Tensor", "repeat_interleave.self_int", "upsample_nearest3d.vec"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>()); }

TORCH_LIBRARY(mpsprobe_test_backend, m) {
  m.def("counted() -> int[]", []() { return std::vector<int64_t>{fallbacks, to_cpu, from_cpu}; });
}
