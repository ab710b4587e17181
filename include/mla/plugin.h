// The C face of a plug-in library: one exported function returns a table that describes one row of
// the registry and runs it. Stable: structs begin with their size, later versions only append.
//
// The host owns all memory: texts of the table stay valid while the library is loaded, messages are
// written into the host's buffer, scratch memory is the host's workspace. Nothing may be thrown.
// docs/adding-a-backend.md has a complete library.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MLA_PLUGIN_ABI_VERSION = 1 };

/* What the functions return. */
enum {
  MLA_PLUGIN_OK = 0,
  MLA_PLUGIN_UNSUPPORTED = 1,   /* this problem or batch: another row may take it */
  MLA_PLUGIN_OUT_OF_MEMORY = 2, /* of the device */
  MLA_PLUGIN_FAILED = 3         /* anything else */
};

/* Bits of mla_plugin_row.devices and the values of mla_plugin_host.device. */
enum { MLA_PLUGIN_CUDA = 1, MLA_PLUGIN_ROCM = 2, MLA_PLUGIN_CPU = 4 };

/* mla_plugin_batch.dtype; mla_plugin_row.dtypes has bit 1 << value set for each. */
enum { MLA_PLUGIN_FLOAT32 = 0, MLA_PLUGIN_FLOAT16 = 1, MLA_PLUGIN_BFLOAT16 = 2 };

/* Where a function says what went wrong: at most capacity bytes with the final zero. */
typedef struct mla_plugin_message {
  char* text;
  size_t capacity;
} mla_plugin_message;

/* The machine, for probe(). Unknown: -1, 0, "" or NULL. */
typedef struct mla_plugin_host {
  size_t struct_size;
  uint32_t device;          /* of the row's devices the first that is here; 0: none */
  int32_t capability_major; /* cuda and rocm */
  int32_t capability_minor;
  const char* arch;       /* rocm: "gfx942" */
  const char* cpu_vendor; /* "GenuineIntel" */
  const char* const* cpu_isa;
  size_t num_cpu_isa;
} mla_plugin_host;

typedef struct mla_plugin_dims {
  int64_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
} mla_plugin_dims;

/* What the row is called and needs; a list that is NULL asks for nothing. */
typedef struct mla_plugin_row {
  size_t struct_size;
  const char* backend; /* an identifier */
  const char* variant; /* NULL: none */
  const char* description;
  uint32_t devices;
  uint32_t dtypes;
  int32_t min_capability_major; /* cuda; 0: any */
  int32_t max_capability_major; /* inclusive; 0: no end */
  const char* const* archs;     /* rocm */
  size_t num_archs;
  const char* const* cpu_isa; /* names of docs/selection.md: "avx2", "neon" */
  size_t num_cpu_isa;
  const mla_plugin_dims* dims;
  size_t num_dims;
  int64_t max_head_dim; /* without dims: the largest of each; 0: no bound */
} mla_plugin_row;

/* How the results differ from the contract; the host makes up for it. */
typedef struct mla_plugin_traits {
  size_t struct_size;
  int32_t lse_tokens_first;   /* lse is [T,H] instead of [H,T] */
  int32_t lse_base_2;         /* log2 instead of the natural logarithm */
  float empty_row_lse;        /* of a row that sees no key; the contract: -infinity */
  int32_t needs_contiguous_v; /* v without gaps between tokens and heads */
  int32_t pads_v;             /* v and out as wide as q and k */
  int64_t alignment;          /* bytes of q, k, v and out; 0: of an element */
  int64_t max_tokens;         /* of queries and of keys; 0: any */
} mla_plugin_traits;

/* Shapes: T query tokens, N key tokens, R requests, H heads, Dq = nope + rope, Dv. The arrays are
 * in host memory whatever the device. */
typedef struct mla_plugin_batch {
  size_t struct_size;
  int64_t num_requests, num_heads, total_q, total_k; /* R, H, T, N */
  int64_t qk_head_dim, v_head_dim;                   /* Dq, Dv */
  int32_t dtype, out_dtype;
  int32_t causal; /* query i sees the keys j <= i + causal_offset */
  float scale;
  const int64_t* cu_seqlens_q;   /* [R+1] */
  const int64_t* cu_seqlens_k;   /* [R+1] */
  const int64_t* causal_offsets; /* [R], any numbers; NULL: keys minus queries */
} mla_plugin_batch;

/* Element e of a request's token t in head h: data[offset + t*token_stride + h*head_stride + e],
 * where offset is request_offsets[r], or cu_seqlens[r]*token_stride where that is NULL. */
typedef struct mla_plugin_tensor {
  void* data;
  int64_t token_stride, head_stride;
  const int64_t* request_offsets;
} mla_plugin_tensor;

typedef struct mla_plugin_tensors {
  size_t struct_size;
  mla_plugin_tensor q, k, v; /* read only */
  mla_plugin_tensor out;
  float* lse; /* or NULL; element (h,t) at h*lse_head_stride + t */
  int64_t lse_head_stride;
} mla_plugin_tensors;

/* The host's threads: run() calls body(context, w) for every w below workers, and returns. */
typedef struct mla_plugin_threads {
  size_t struct_size;
  void* self;
  int32_t concurrency; /* how many workers are worth it, >= 1 */
  void (*run)(void* self, int32_t workers, void (*body)(void* context, int32_t worker),
              void* context);
} mla_plugin_threads;

/* The functions may be called from several threads at once, with different plans. */
typedef struct mla_plugin_api {
  size_t struct_size;
  uint32_t abi_version;
  mla_plugin_row row;
  mla_plugin_traits traits;
  /* Whether the row can run on this machine. Must work with no device and no vendor library: those
   * are opened here, and one that is missing is a message. NULL: it can. */
  int32_t (*probe)(const mla_plugin_host* host, mla_plugin_message* message);
  /* Whether it takes the batch, beyond what the row says. NULL: it does. */
  int32_t (*supports)(const mla_plugin_batch* batch, mla_plugin_message* message);
  /* Prepares a batch; *workspace_bytes is what run() will need (64-byte aligned). NULL: no plan. */
  int32_t (*plan)(const mla_plugin_batch* batch, void** plan, size_t* workspace_bytes,
                  mla_plugin_message* message);
  /* Computes. The batch is the one of plan(); stream is the device's, NULL on a CPU. */
  int32_t (*run)(void* plan, const mla_plugin_batch* batch, const mla_plugin_tensors* tensors,
                 const mla_plugin_threads* threads, void* workspace, void* stream,
                 mla_plugin_message* message);
  /* Ends a plan, also one whose run() failed. NULL: nothing to do. */
  void (*destroy)(void* plan);
} mla_plugin_api;

/* The exported function; its name is mla_plugin. */
typedef const mla_plugin_api* (*mla_plugin_function)(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
