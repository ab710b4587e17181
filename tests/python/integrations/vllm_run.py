"""Run by test_vllm.py in a process of its own: greedy tokens of four prompts, as JSON.

Arguments: the model's folder, and the file to write.
"""

from __future__ import annotations

import json
import os
import random
import sys


def main(model: str, out: str) -> None:
    from vllm import LLM, SamplingParams

    options = {}
    if "TEST_MAX_TOKENS" in os.environ:
        options["max_num_batched_tokens"] = int(os.environ["TEST_MAX_TOKENS"])
    llm = LLM(
        model=model, skip_tokenizer_init=True, dtype="float32",
        max_model_len=2048, enforce_eager=True, attention_backend="CPU_MLA", seed=0,
        max_num_seqs=8, **options,
    )  # fmt: skip
    numbers = random.Random(0)
    prompts = [
        {"prompt_token_ids": [numbers.randrange(3, 500) for _ in range(length)]}
        for length in (300, 17, 1000, 1)
    ]
    sampling = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True, detokenize=False)
    results = llm.generate(prompts, sampling)
    config = llm.llm_engine.vllm_config
    answer = {
        "tokens": [list(result.outputs[0].token_ids) for result in results],
        "chunked": bool(config.scheduler_config.enable_chunked_prefill),
    }
    with open(out, "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
