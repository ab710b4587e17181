"""libmla: selects and runs MLA prefill attention."""

from collections.abc import Sequence
from typing import Any


version: str = '0.1.0'

def set_log_sink(sink: object | None) -> None:
    """
    Where log lines go: a callable (level, text) with level 0 debug, 1 info, 2 warning, or None.
    """

class Cpu:
    """A CPU: vendor and the instruction sets a process may use."""

    @property
    def vendor(self) -> str: ...

    @property
    def family(self) -> int: ...

    @property
    def model(self) -> int: ...

    @property
    def isa(self) -> list[str]: ...

class GpuDevice:
    """A GPU that its driver reports."""

    @property
    def kind(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def capability(self) -> tuple[int, int] | None: ...

    @property
    def arch(self) -> str: ...

    @property
    def memory_bytes(self) -> int: ...

class DriverReport:
    """What the driver of a GPU family answered."""

    @property
    def kind(self) -> str: ...

    @property
    def present(self) -> bool: ...

    @property
    def detail(self) -> str: ...

class Machine:
    """This machine, detected once."""

    @property
    def cpu(self) -> Cpu: ...

    @property
    def cpu_name(self) -> str: ...

    @property
    def logical_cpus(self) -> int: ...

    @property
    def usable_threads(self) -> int: ...

    @property
    def threads_limited_by(self) -> str: ...

    @property
    def isa_refused(self) -> list[str]: ...

    @property
    def gpus(self) -> list[GpuDevice]: ...

    @property
    def drivers(self) -> list[DriverReport]: ...

def devices() -> Machine:
    """What this machine is."""

class ModelConfig:
    """What a config.json says about MLA attention."""

    @property
    def model_type(self) -> str: ...

    @property
    def dims(self) -> tuple[int, int, int]:
        """(qk_nope_head_dim, qk_rope_head_dim, v_head_dim)"""

    @property
    def kv_lora_rank(self) -> int: ...

    @property
    def q_lora_rank(self) -> int | None: ...

    @property
    def num_heads(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def softmax_scale(self) -> float: ...

    def __repr__(self) -> str: ...

def parse_model_config(json: str, source: str = 'config') -> ModelConfig:
    """Reads the text of a config.json."""

def load_model(name_or_path: str) -> ModelConfig:
    """A model known by name, or the path of a config.json."""

def models() -> list[str]:
    """The names load_model() knows."""

class Reason:
    """Why a row cannot be used: a code and its text."""

    @property
    def code(self) -> str: ...

    @property
    def text(self) -> str: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class Rejected:
    """A row that was considered, with all its reasons."""

    @property
    def backend(self) -> str: ...

    @property
    def variant(self) -> str | None: ...

    @property
    def reasons(self) -> list[Reason]: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class Selection:
    """The chosen row and why the others were not."""

    @property
    def backend(self) -> str: ...

    @property
    def variant(self) -> str | None: ...

    @property
    def explicit(self) -> bool: ...

    @property
    def fallback(self) -> bool: ...

    @property
    def note(self) -> str | None: ...

    @property
    def rejected(self) -> list[Rejected]: ...

    @property
    def full_name(self) -> str:
        """"CPU:avx2", "FLASH_ATTN\""""

    def to_json(self) -> str:
        """The answer of `mla select --json`."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

def select(dims: tuple[int, int, int] = (128, 64, 128), dtype: Any = 'bfloat16', platform: str | None = None, capability: tuple[int, int] | None = None, backend: str | None = None, compat: str | None = None, *, arch: str | None = None, cpu: dict[str, Any] | None = None, fallback: bool = False, disabled: Sequence[str] = [], unloadable: Sequence[str] = [], not_installed: Sequence[str] = []) -> Selection:
    """
    Chooses the backend row for an MLA prefill; raises SelectionError where none fits.

    dims: (qk_nope_head_dim, qk_rope_head_dim, v_head_dim). dtype: a name, or torch's or numpy's dtype.
    platform: "cuda", "rocm" or "cpu", described by capability (major, minor), arch ("gfx942") and cpu
    ({"vendor": ..., "isa": [...]}); None: this machine. backend: "NAME" or "NAME:variant". compat
    "vllm": vLLM's own outcome. fallback: an invalid explicit backend goes on with the automatic order.
    disabled, unloadable, not_installed: backend names.
    """

def select_json(request: str) -> str:
    """One request of `mla select --jsonl` in, its answer out."""

class Row:
    """
    One line of the registry: what a backend needs, as data. capabilities: ranges
    (first, last) of CUDA's major number; empty lists accept anything.
    """

    def __init__(self, backend: str, *, variant: str = '', description: str = '', devices: Sequence[str] = ['cpu'], dtypes: Sequence[str] = ['float32', 'float16', 'bfloat16'], dims: Sequence[tuple[int, int, int]] = [], capabilities: Sequence[tuple[int, int]] = [], archs: Sequence[str] = [], cpu_vendor: str = '', isa: Sequence[str] = [], dependency_hint: str = '') -> None: ...

    @property
    def backend(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def devices(self) -> list[str]: ...

    @property
    def dtypes(self) -> list[str]: ...

    @property
    def dims(self) -> list[tuple[int, int, int]]: ...

    @property
    def capabilities(self) -> list[tuple[int, int]]: ...

    @property
    def archs(self) -> list[str]: ...

    @property
    def cpu_vendor(self) -> str: ...

    @property
    def isa(self) -> list[str]: ...

    @property
    def dependency_hint(self) -> str: ...

    @property
    def runs_here(self) -> bool:
        """
        Whether libmla itself runs it; other rows are described and selected only.
        """

    @property
    def full_name(self) -> str: ...

    def __repr__(self) -> str: ...

class Registry:
    """The rows a selection chooses from."""

    def rows(self) -> list[Row]:
        """All rows, variants best first."""

    def names(self) -> list[str]:
        """Backend names, CUSTOM included."""

    def find(self, name: str) -> list[Row]:
        """The rows of "NAME", or the one of "NAME:variant"."""

    def add(self, row: Row) -> None: ...

    def override(self, name: str, row: Row) -> None:
        """Puts row in the place of all rows of a name."""

    def clear_override(self, name: str) -> None: ...

    def is_overridden(self, name: str) -> bool: ...

    @property
    def generation(self) -> int:
        """Another number after every change."""

registry: Registry = ...

def attend(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, *, scale: float | None = None, causal: bool = True, return_lse: bool = False, out: Any | None = None, backend: str | None = None, num_threads: int | None = None) -> Any:
    """
    Ragged attention: softmax(scale * q k^T) v for each request and head.

    q [T,H,Dq], k [N,H,Dq], v [N,H,Dv]: float32, float16 or bfloat16, read in place whatever their
    strides (last dimension contiguous). cu_seqlens_q, cu_seqlens_k [R+1]: int32, int64, or a list.
    scale None: Dq**-0.5. causal: query i of m sees key j of n where j <= i + n - m. out: [T,H,Dv] of
    the inputs' dtype or float32, written in place. backend: "CPU", "CPU:avx2", ..., None: selected.
    Returns out, or (out, lse) with lse [H,T] float32, natural logarithm; a row that sees no key gets
    out 0 and lse -inf. The GIL is released.
    """

def attend_dense(q: Any, k: Any, v: Any, *, key_lengths: Any | None = None, key_starts: Any | None = None, query_offset: Any | None = None, scale: float | None = None, causal: bool = True, return_lse: bool = False, out: Any | None = None, backend: str | None = None, num_threads: int | None = None) -> Any:
    """
    Attention on dense tensors: q [B,H,S,Dq], k [B,H,N,Dq], v [B,H,N,Dv], read in place.

    Request b sees the keys key_starts[b] .. key_starts[b] + key_lengths[b] - 1 of its N (defaults: 0,
    and all that follow). causal: query i stands at key query_offset + i and sees none after it;
    query_offset is an int or one per request, None: N - S. Returns out [B,H,S,Dv] (in memory
    [B,S,H,Dv]), or (out, lse) with lse [B,H,S]; a row that sees no key gets out 0 and lse -inf.
    out: written in place. scale, backend and num_threads as in attend().
    """

def merge(out_a: Any, lse_a: Any, out_b: Any, lse_b: Any, *, out: Any | None = None, merged_tokens: Any | None = None) -> Any:
    """
    Merges two partial results over disjoint sets of keys; returns (out, lse).

    out_a, out_b [T,H,Dv]; lse_a, lse_b [H,T] float32, natural logarithm (+inf counts as -inf).
    merged_tokens [T] bool or uint8: a row with 0 takes a as it is. out may be out_a or out_b.
    """

def reference(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, *, scale: float | None = None, causal: bool = True) -> Any:
    """
    What attend() computes, in double precision by plain loops: the yardstick of tests.

    Returns (out, lse), float64, [T,H,Dv] and [H,T].
    """

class Plan:
    """How a step will run: a value, good for every layer."""

    @property
    def total_tokens(self) -> int: ...

    @property
    def scratch_bytes(self) -> int: ...

    @property
    def workers(self) -> int: ...

    @property
    def kernels(self) -> str: ...

    @property
    def forms(self) -> list[str]:
        """The form of each request."""

    def to_json(self) -> str: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class PrefillOperator:
    """
    One layer's MLA attention: queries and new latents in, attention out, in a byte budget.

    w_kv_b: kv_b_proj's weight [H*(nope+Dv), L]; or w_uk [H,nope,L] and w_uv [H,Dv,L]. Packed here; the
    tensors are not kept. dims: (nope, rope, Dv). dtype: of q, kv_c and k_pe. cache_dtype: of the cache,
    None: dtype. scale None: (nope+rope)**-0.5. form: "auto", "expanded" or "absorbed".
    """

    def __init__(self, w_kv_b: Any | None = None, *, w_uk: Any | None = None, w_uv: Any | None = None, num_heads: int, dims: tuple[int, int, int], kv_lora_rank: int, dtype: Any = 'bfloat16', scale: float | None = None, backend: str | None = None, form: str = 'auto', scratch_bytes: int = 268435456, cache_dtype: Any | None = None, out_dtype: Any | None = None) -> None: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def scale(self) -> float: ...

    def plan(self, cu_seqlens_q: Any, context_lens: Any | None = None, block_table: Any | None = None, *, num_threads: int | None = None) -> Plan:
        """
        How a step will run; good for every layer. cu_seqlens_q [R+1], context_lens [R] (tokens
        already in the cache) or None, block_table [R,max_blocks] int32 or None.
        """

    def run(self, plan: Plan, q: Any, kv_c: Any, k_pe: Any, cache: Any | None = None, slot_mapping: Any | None = None, out: Any | None = None, *, return_lse: bool = False) -> Any:
        """
        Appends the new latents to the cache, then attends to context and new tokens; returns out
        [T,H,Dv], or (out, lse).

        q [T,H,Dq] and k_pe [T,rope] with rope applied, kv_c [T,L] normalised. cache
        [blocks,block_size,L+rope] (kv_c first) or None where no request has context; slot_mapping [T] int64
        (negative: not written) or None: nothing is written. out: dtype or float32, written in place.
        """
