// Libraries with one fault each: FAULT, set by the build, says which; EXPORT is the function's
// name.
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "mla/plugin.h"

namespace {

enum Fault {
  kNoTable,
  kSmallStruct,
  kVersion,
  kNoRun,
  kProbe,
  kRun,
  kThrows,
  kPlan,
  kName,
  kRowStruct,
  kWorkspace,
  kSilent,
  kTraits
};

int32_t probe(const mla_plugin_host*, mla_plugin_message* message) {
  if (FAULT != kProbe) return MLA_PLUGIN_OK;
  std::strncpy(message->text, "libvendor.so: not found", message->capacity);
  return MLA_PLUGIN_FAILED;
}

int32_t plan(const mla_plugin_batch*, void** plan, size_t* workspace_bytes,
             mla_plugin_message* message) {
  static int some_plan;
  *plan = &some_plan;
  *workspace_bytes = FAULT == kWorkspace ? SIZE_MAX - 8 : 0;
  // Without a final zero: the host must not read on.
  if (FAULT == kPlan) std::memset(message->text, 'x', message->capacity);
  return FAULT == kPlan ? MLA_PLUGIN_OUT_OF_MEMORY : MLA_PLUGIN_OK;
}

int32_t run(void*, const mla_plugin_batch*, const mla_plugin_tensors*, const mla_plugin_threads*,
            void*, void*, mla_plugin_message* message) {
  if (FAULT == kThrows) throw std::runtime_error("forbidden");
  if (FAULT == kRun) std::strncpy(message->text, "the device fell over", message->capacity);
  return FAULT == kRun || FAULT == kSilent ? MLA_PLUGIN_FAILED : MLA_PLUGIN_OK;
}

const mla_plugin_api kApi = {
    FAULT == kSmallStruct ? 8 : sizeof(mla_plugin_api),
    FAULT == kVersion ? 99u : uint32_t{MLA_PLUGIN_ABI_VERSION},
    {FAULT == kRowStruct ? 4 : sizeof(mla_plugin_row), FAULT == kName ? "no name" : "FAULTY",
     nullptr, nullptr, MLA_PLUGIN_CPU, 1u << MLA_PLUGIN_FLOAT32, 0, 0, nullptr, 0, nullptr, 0,
     nullptr, 0, 0},
    {sizeof(mla_plugin_traits), 0, 0, -INFINITY, 0, 0, FAULT == kTraits ? 24 : 0, 0},
    probe,
    nullptr,
    plan,
    FAULT == kNoRun ? nullptr : run,
    nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mla_plugin_api* EXPORT(void) {
  return FAULT == kNoTable ? nullptr : &kApi;
}
