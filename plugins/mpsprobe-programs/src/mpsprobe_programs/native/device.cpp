// The device type MPS in a build of torch without it: memory, guard, events, generators and hooks.
//
// The memory is that of the CPU. Nothing runs asynchronously, so streams and events have nothing to wait for.

#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>

namespace mpsprobe {
namespace {

std::atomic<int64_t> allocated{0};

struct Block {
  c10::DataPtr memory;
  int64_t bytes;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  allocated -= block->bytes;
  delete block;
}

c10::DataPtr counted(c10::DataPtr memory, int64_t bytes) {
  void* data = memory.get();
  allocated += bytes;
  return {data, new Block{std::move(memory), bytes}, &release, kDevice};
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return counted(c10::GetCPUAllocator()->allocate(bytes), static_cast<int64_t>(bytes));
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

Memory memory;

using Clock = std::chrono::steady_clock;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(kDevice); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new Clock::time_point;
    }
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    auto span = *static_cast<Clock::time_point*>(to) - *static_cast<Clock::time_point*>(from);
    return std::chrono::duration<double, std::milli>(span).count();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
};

// Draws what the generator of the CPU with the same seed would draw, so that a program prints the same as on the CPU.
struct GeneratorImpl final : c10::GeneratorImpl {
  explicit GeneratorImpl(at::Generator cpu)
      : c10::GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::MPS)), cpu(std::move(cpu)) {}
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { cpu.set_offset(offset); }
  uint64_t get_offset() const override { return cpu.get_offset(); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }

  at::Generator cpu;

 private:
  GeneratorImpl* clone_impl() const override { return new GeneratorImpl(cpu.clone()); }
};

const at::Generator& default_generator() {
  static at::Generator one = at::make_generator<GeneratorImpl>(at::detail::getDefaultCPUGenerator());
  return one;
}

// ATen looks for hooks of this name.
struct MPSHooks final : at::MPSHooksInterface {
  MPSHooks() = default;
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<GeneratorImpl>(at::make_generator<at::CPUGeneratorImpl>());
  }
  c10::Allocator* getMPSDeviceAllocator() const override { return &memory; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void deviceSynchronize() const override {}
  void commitStream() const override {}
  void emptyCache() const override {}
  size_t getCurrentAllocatedMemory() const override { return static_cast<size_t>(allocated.load()); }
  size_t getDriverAllocatedMemory() const override { return getCurrentAllocatedMemory(); }
};

} // namespace

c10::Allocator* allocator() {
  return &memory;
}

c10::DataPtr taken_over(c10::DataPtr memory, int64_t bytes) {
  return counted(std::move(memory), bytes);
}

at::Generator generator_of_cpu(const at::Generator& generator) {
  auto* ours = dynamic_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
  return ours == nullptr ? generator : ours->cpu;
}

} // namespace mpsprobe

namespace c10 {
REGISTER_ALLOCATOR(c10::DeviceType::MPS, &mpsprobe::memory);
}
namespace c10::impl {
C10_REGISTER_GUARD_IMPL(MPS, mpsprobe::Guard);
}
namespace at {
using mpsprobe::MPSHooks;
REGISTER_MPS_HOOKS(MPSHooks)
}

TORCH_LIBRARY(mpsprobe, m) {
  // False where torch looked for MPS before this was loaded: it looks once.
  m.def("is_found() -> bool", []() { return at::globalContext().hasMPS(); });
  m.def("default_generator() -> Generator?", []() -> std::optional<at::Generator> { return mpsprobe::default_generator(); });
}
