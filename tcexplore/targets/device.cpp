// An emulated CUDA device for torch's C++ code that traces fake tensors.
// tcexplore_guard() is permanent for the process; the hooks are active only during a lowering.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

struct OneDevice final : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  static Device only() { return Device(DeviceType::CUDA, 0); }
  Device exchangeDevice(Device) const override { return only(); }
  Device getDevice() const override { return only(); }
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, only()); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, only()); }
  Stream exchangeStream(Stream) const noexcept override { return Stream(Stream::DEFAULT, only()); }
};

long cudnn = 0;

// The autograd engine and the selection of convolution and normalization kernels call these.
struct Hooks final : at::CUDAHooksInterface {
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  void init() const override {}
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex current_device() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  int getNumGPUs() const override { return 1; }
  bool hasCuDNN() const override { return cudnn > 0; }
  bool compiledWithCuDNN() const override { return cudnn > 0; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return cudnn > 0; }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return cudnn > 0; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return cudnn > 0; }
  bool supportsBFloat16RNNWithCuDNN() const override { return cudnn > 0; }
  long versionCuDNN() const override { return cudnn; }
  long versionRuntimeCuDNN() const override { return cudnn; }
  double batchnormMinEpsilonCuDNN() const override { return 0.0; }
};

// The hooks are one global object without data, so replacing its virtual table replaces all of its functions.
void** functions() {
  return reinterpret_cast<void**>(const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks()));
}

void* original = nullptr;

}  // namespace

extern "C" void tcexplore_guard() {
  static OneDevice guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::CUDA)].store(&guard);
}

extern "C" void tcexplore_enter(long cudnn_version) {
  static Hooks hooks;
  cudnn = cudnn_version;
  if (original == nullptr) {
    original = *functions();
    *functions() = *reinterpret_cast<void**>(&hooks);
  }
}

extern "C" void tcexplore_leave() {
  if (original != nullptr) {
    *functions() = original;
    original = nullptr;
  }
}
