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
#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_set>

// Since 2.13 `torch.accelerator.memory_allocated` and what belongs to it work on MPS (ATen/mps/MPSAllocatorInterface.h).
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
#include <c10/core/CachingDeviceAllocator.h>
#define MPSPROBE_STATISTICS
#endif

namespace mpsprobe {
namespace {

// Bytes. The first ever taken and those given back are counted since they were last reset.
std::atomic<int64_t> allocated{0}, peak{0}, taken{0}, freed{0};
// What Metal says on the Mac that the device stands for, in bytes: Python sets them (mpsprobe_coverage.knowledge.chips).
std::atomic<int64_t> recommended{0}, largest_buffer{0};

// What a model of Metal's allocator needs of a program, in order: the bytes of each block that begins, and for one that
// ends, -1 and below, its number from the first on. `kUpdated` and `kCalled` end and begin steps of the program.
constexpr int64_t kUpdated = 0, kCalled = INT64_MIN, kEmptied = INT64_MIN + 1;
constexpr int64_t kMostBlocks = 1 << 17;
std::atomic<bool> in_order{false};

struct Order {
  std::mutex mutex;
  int64_t first = 0, blocks = 0; // their numbers: of the first that is followed, and of the next
  std::vector<int64_t> entries;
};

// Never destroyed: tensors may live longer than what is static.
Order& order() {
  static auto* one = new Order;
  return *one;
}

void mark(int64_t entry) {
  if (in_order) {
    std::lock_guard<std::mutex> lock(order().mutex);
    order().entries.push_back(entry);
  }
}

// The number of the block; -1: nobody follows it.
int64_t begun(int64_t bytes) {
  if (!in_order || bytes == 0) {
    return -1;
  }
  auto& all = order();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.blocks - all.first == kMostBlocks) {
    in_order = false;
    return -1;
  }
  all.entries.push_back(bytes);
  return all.blocks++;
}

void ended(int64_t number) {
  if (in_order && number >= 0) {
    std::lock_guard<std::mutex> lock(order().mutex);
    if (number >= order().first) {
      order().entries.push_back(order().first - number - 1);
    }
  }
}

struct Block {
  c10::DataPtr memory;
  int64_t bytes, number;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  allocated -= block->bytes;
  freed += block->bytes;
  ended(block->number);
  delete block;
}

c10::DataPtr counted(c10::DataPtr memory, int64_t bytes) {
  void* data = memory.get();
  taken += bytes;
  auto now = allocated += bytes;
  for (auto most = peak.load(); most < now && !peak.compare_exchange_weak(most, now);) {
  }
  return {data, new Block{std::move(memory), bytes, begun(bytes)}, &release, kDevice};
}

#ifdef MPSPROBE_STATISTICS
using Base = c10::DeviceAllocator;
#else
using Base = c10::Allocator;
#endif

struct Memory final : Base {
  c10::DataPtr allocate(size_t bytes) override {
    return counted(c10::GetCPUAllocator()->allocate(bytes), static_cast<int64_t>(bytes));
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
#ifdef MPSPROBE_STATISTICS
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { mark(kEmptied); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats all;
    c10::CachingAllocator::Stat one{allocated, peak, taken, freed};
    all.allocated_bytes[0] = all.reserved_bytes[0] = all.active_bytes[0] = one;
    return all;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { taken = freed = 0; }
  void resetPeakStats(c10::DeviceIndex) override { peak = allocated.load(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {static_cast<size_t>(std::max<int64_t>(recommended - allocated, 0)), static_cast<size_t>(recommended)};
  }
#endif
};

Memory memory;

// Memory of the CPU that `pin_memory` asked for: the same as other memory, and `is_pinned` says so.
struct Pinned final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto memory = c10::GetCPUAllocator()->allocate(bytes);
    void* data = memory.get();
    std::lock_guard<std::mutex> lock(mutex());
    all().insert(data);
    return {data, new c10::DataPtr(std::move(memory)), &release, c10::kCPU};
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
  static bool has(const void* data) {
    std::lock_guard<std::mutex> lock(mutex());
    return all().count(data) != 0;
  }

 private:
  static std::mutex& mutex() {  // as `order`
    static auto* one = new std::mutex;
    return *one;
  }
  static std::unordered_set<const void*>& all() {
    static auto* one = new std::unordered_set<const void*>;
    return *one;
  }
  static void release(void* context) {
    auto* memory = static_cast<c10::DataPtr*>(context);
    {
      std::lock_guard<std::mutex> lock(mutex());
      all().erase(memory->get());
    }
    delete memory;
  }
};

Pinned pinned;

using Clock = std::chrono::steady_clock;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(kDevice); }
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
#ifdef MPSPROBE_STATISTICS
  // What torch 2.13's own answers: no double, no complex of doubles, no quantized and no 8-bit floats.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability known;
    known.capability_data.capability_bits = 0x38008b7f;
    return known;
  }
#endif
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
  template <typename... Arguments> // older releases give one
  MPSHooks(Arguments&&...) {}
  void init() const override {}
  bool isBuilt() const { return true; } // overrides from 2.7 on
  bool isAvailable() const { return true; }
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
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  bool isPinnedPtr(const void* data) const override { return Pinned::has(data); }
  void deviceSynchronize() const override {}
  void commitStream() const override {}
  void emptyCache() const override { mark(kEmptied); }
  size_t getCurrentAllocatedMemory() const override { return static_cast<size_t>(allocated.load()); }
  size_t getDriverAllocatedMemory() const override { return getCurrentAllocatedMemory(); }
  size_t getRecommendedMaxMemory() const override { return static_cast<size_t>(recommended); }
  size_t getMaxBufferLength() const { return static_cast<size_t>(largest_buffer); } // overrides from 2.12 on
  void setMemoryFraction(double) const override {}
};

bool is_the_accelerator() {
  try {
    return at::hasMPS() && at::getAccelerator() == kDevice.type();
  } catch (const c10::Error&) { // there are two
    return false;
  }
}

} // namespace

c10::Allocator* allocator() {
  return &memory;
}

c10::DataPtr taken_over(c10::DataPtr memory, int64_t bytes) {
  return counted(std::move(memory), bytes);
}

void updated() {
  mark(kUpdated);
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
  // False where torch looked for MPS, or another accelerator, before this was loaded: it looks once.
  m.def("is_found() -> bool", []() { return mpsprobe::is_the_accelerator(); });
  m.def("set_limits(int recommended, int largest_buffer) -> ()", [](int64_t memory, int64_t buffer) {
    mpsprobe::recommended = memory;
    mpsprobe::largest_buffer = buffer;
  });
  // Whether blocks are noted from now on; what was noted is forgotten where they are.
  m.def("follow_memory(bool now) -> ()", [](bool now) {
    if (now) {
      auto& all = mpsprobe::order();
      std::lock_guard<std::mutex> lock(all.mutex);
      all.entries.clear();
      all.first = all.blocks;
    }
    mpsprobe::in_order = now;
  });
  m.def("called() -> ()", []() { mpsprobe::mark(mpsprobe::kCalled); });
  m.def("emptied() -> ()", []() { mpsprobe::mark(mpsprobe::kEmptied); });
  m.def("memory_order() -> int[]", []() {
    auto& all = mpsprobe::order();
    std::lock_guard<std::mutex> lock(all.mutex);
    return all.entries;
  });
  // The allocator's address, with which `torch.UntypedStorage` makes storages on the device.
  m.def("allocator() -> int", []() { return reinterpret_cast<int64_t>(mpsprobe::allocator()); });
  m.def("default_generator() -> Generator?", []() -> std::optional<at::Generator> { return mpsprobe::default_generator(); });
}
