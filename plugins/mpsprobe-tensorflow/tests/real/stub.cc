// A device of type GPU for TensorFlow that computes nothing: it registers the kernels of a table, so that TensorFlow's
// own placer says what it would do with them. A line of the table (STUB_TABLE) is one registration: operator, type
// constraints (T=1,Tidx=3, by number) and arguments in host memory (a,b), with tabs between them.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/kernels.h"

// What stream_executor.h leaves to the plugin.
struct SP_Stream_st {};
struct SP_Event_st {};
struct SP_Timer_st {};

namespace {

int handle;

void Allocate(const SP_Device*, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = std::malloc(size);
  memory->size = size;
}
void Deallocate(const SP_Device*, SP_DeviceMemoryBase* memory) {
  std::free(memory->opaque);
  memory->opaque = nullptr;
}
void* AllocateHost(const SP_Device*, uint64_t size) { return std::malloc(size); }
void DeallocateHost(const SP_Device*, void* memory) { std::free(memory); }
TF_Bool NoStatistics(const SP_Device*, SP_AllocatorStats*) { return 0; }
TF_Bool Usage(const SP_Device*, int64_t* free_bytes, int64_t* total) {
  *free_bytes = *total = int64_t{1} << 32;
  return 1;
}
void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status*) { *stream = new SP_Stream_st; }
void DestroyStream(const SP_Device*, SP_Stream stream) { delete stream; }
void Depend(const SP_Device*, SP_Stream, SP_Stream, TF_Status*) {}
void StreamStatus(const SP_Device*, SP_Stream, TF_Status*) {}
void CreateEvent(const SP_Device*, SP_Event* event, TF_Status*) { *event = new SP_Event_st; }
void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }
SE_EventStatus EventStatus(const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; }
void Event(const SP_Device*, SP_Stream, SP_Event, TF_Status*) {}
void WaitForEvent(const SP_Device* const, SP_Stream, SP_Event, TF_Status* const) {}
void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status*) { *timer = new SP_Timer_st; }
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void Timer(const SP_Device*, SP_Stream, SP_Timer, TF_Status*) {}
void ToHost(const SP_Device*, SP_Stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status*) {
  std::memcpy(to, from->opaque, size);
}
void ToDevice(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status*) {
  std::memcpy(to->opaque, from, size);
}
void Within(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
            TF_Status*) {
  std::memcpy(to->opaque, from->opaque, size);
}
void SyncToHost(const SP_Device*, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status*) {
  std::memcpy(to, from->opaque, size);
}
void SyncToDevice(const SP_Device*, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status*) {
  std::memcpy(to->opaque, from, size);
}
void SyncWithin(const SP_Device*, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status*) {
  std::memcpy(to->opaque, from->opaque, size);
}
void BlockForEvent(const SP_Device*, SP_Event, TF_Status*) {}
void BlockUntilDone(const SP_Device*, SP_Stream, TF_Status*) {}
void Synchronize(const SP_Device*, TF_Status*) {}
void Zero(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint64_t size, TF_Status*) {
  std::memset(at->opaque, 0, size);
}
void Set(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size, TF_Status*) {
  std::memset(at->opaque, pattern, size);
}
void Set32(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint32_t pattern, uint64_t size, TF_Status*) {
  for (uint64_t i = 0; i < size / 4; ++i) static_cast<uint32_t*>(at->opaque)[i] = pattern;
}
TF_Bool Callback(const SP_Device*, SP_Stream, SE_StatusCallbackFn function, void* argument) {
  TF_Status* status = TF_NewStatus();
  function(argument, status);
  TF_DeleteStatus(status);
  return 1;
}
uint64_t Nanoseconds(SP_Timer) { return 0; }

void DeviceCount(const SP_Platform*, int* count, TF_Status*) { *count = 1; }
void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status*) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->device_handle = &handle;
  params->device->ordinal = params->ordinal;
  params->device->hardware_name = "Stub";
  params->device->device_vendor = "Stub";
  params->device->pci_bus_id = "0000:00:00.0";
}
void DestroyDevice(const SP_Platform*, SP_Device*) {}
int32_t Numa(const SP_Device*) { return 0; }
int64_t Bandwidth(const SP_Device*) { return -1; }
double Gflops(const SP_Device*) { return -1; }
void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status*) {
  *params->device_fns = {SP_DEVICE_FNS_STRUCT_SIZE, nullptr, Numa, Bandwidth, Gflops};
}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}
void CreateExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status*) {
  SP_StreamExecutor* se = params->stream_executor;
  se->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  se->allocate = Allocate;
  se->deallocate = Deallocate;
  se->host_memory_allocate = AllocateHost;
  se->host_memory_deallocate = DeallocateHost;
  se->unified_memory_allocate = AllocateHost;
  se->unified_memory_deallocate = DeallocateHost;
  se->get_allocator_stats = NoStatistics;
  se->device_memory_usage = Usage;
  se->create_stream = CreateStream;
  se->destroy_stream = DestroyStream;
  se->create_stream_dependency = Depend;
  se->get_stream_status = StreamStatus;
  se->create_event = CreateEvent;
  se->destroy_event = DestroyEvent;
  se->get_event_status = EventStatus;
  se->record_event = Event;
  se->wait_for_event = WaitForEvent;
  se->create_timer = CreateTimer;
  se->destroy_timer = DestroyTimer;
  se->start_timer = Timer;
  se->stop_timer = Timer;
  se->memcpy_dtoh = ToHost;
  se->memcpy_htod = ToDevice;
  se->memcpy_dtod = Within;
  se->sync_memcpy_dtoh = SyncToHost;
  se->sync_memcpy_htod = SyncToDevice;
  se->sync_memcpy_dtod = SyncWithin;
  se->block_host_for_event = BlockForEvent;
  se->block_host_until_done = BlockUntilDone;
  se->synchronize_all_activity = Synchronize;
  se->mem_zero = Zero;
  se->memset = Set;
  se->memset32 = Set32;
  se->host_callback = Callback;
}
void DestroyExecutor(const SP_Platform*, SP_StreamExecutor*) {}
void CreateTimerFns(const SP_Platform*, SP_TimerFns* functions, TF_Status*) { functions->nanoseconds = Nanoseconds; }
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}
void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

void* Create(TF_OpKernelConstruction*) { return nullptr; }
void Compute(void*, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_SetStatus(status, TF_UNIMPLEMENTED, "a stub computes nothing");
  TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}
void Delete(void*) {}

}  // namespace

extern "C" void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status*) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STUB";
  params->platform->type = "GPU";
  params->platform_fns->get_device_count = DeviceCount;
  params->platform_fns->create_device = CreateDevice;
  params->platform_fns->destroy_device = DestroyDevice;
  params->platform_fns->create_device_fns = CreateDeviceFns;
  params->platform_fns->destroy_device_fns = DestroyDeviceFns;
  params->platform_fns->create_stream_executor = CreateExecutor;
  params->platform_fns->destroy_stream_executor = DestroyExecutor;
  params->platform_fns->create_timer_fns = CreateTimerFns;
  params->platform_fns->destroy_timer_fns = DestroyTimerFns;
  params->destroy_platform = DestroyPlatform;
  params->destroy_platform_fns = DestroyPlatformFns;
}

extern "C" void TF_InitKernel() {
  const char* path = std::getenv("STUB_TABLE");
  std::ifstream table(path == nullptr ? "" : path);
  std::string line;
  for (int number = 0; std::getline(table, line); ++number) {
    std::istringstream fields(line);
    std::string op, types, host, one;
    std::getline(fields, op, '\t');
    std::getline(fields, types, '\t');
    std::getline(fields, host, '\t');
    TF_Status* status = TF_NewStatus();
    TF_KernelBuilder* builder = TF_NewKernelBuilder(op.c_str(), "GPU", Create, Compute, Delete);
    for (std::istringstream each(types); std::getline(each, one, ',');) {
      const auto equals = one.find('=');
      TF_KernelBuilder_TypeConstraint(builder, one.substr(0, equals).c_str(),
                                      static_cast<TF_DataType>(std::stoi(one.substr(equals + 1))), status);
    }
    for (std::istringstream each(host); std::getline(each, one, ',');)
      TF_KernelBuilder_HostMemory(builder, one.c_str());
    TF_RegisterKernelBuilder((op + std::to_string(number)).c_str(), builder, status);
    TF_DeleteStatus(status);
  }
}
