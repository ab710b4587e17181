// The properties of the prefill operator. Every one runs both forms and the operator's own choice
// for each dtype of the row.
#include "prefill.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>

#include "prefill_world.h"
#include "step_trial.h"

namespace mla::conformance {
namespace {
void check_forms(StepTrial& trial) {
  trial.for_each_form({{5, 37}, {0, 20}, {1, 300}, {70, 0}, {0, 0}, {33, 16}}, [&](WorldSpec spec) {
    for (std::int64_t block_size : {1, 3, 16, 64}) {
      spec.block_size = block_size;
      trial.check(spec);
    }
  });
}

// Pages of 16 and every block size of a kernel in this library: 16 to 256.
void check_edges(StepTrial& trial) {
  std::vector<StepLengths> requests;
  for (std::int64_t edge : {16, 32, 64, 128, 256}) {
    for (std::int64_t by : {-1, 0, 1}) {
      requests.push_back({1, edge + by});
      requests.push_back({2, edge + by - 1});
      requests.push_back({edge + by, by == 0 ? 0 : 15});
    }
  }
  trial.for_each_form(requests, [&](const WorldSpec& spec) { trial.check(spec); });
}

void check_budgets(StepTrial& trial) {
  trial.for_each_form({{100, 50}, {1, 500}, {40, 3}}, [&](const WorldSpec& spec) {
    World asked(spec);
    const World untouched(spec);
    PrefillCall call = asked.call();
    // The least budget that is taken, to 64 bytes.
    std::int64_t refused = 0, taken = call.config.scratch_bytes;
    while (taken - refused > 64) {
      call.config.scratch_bytes = (refused + taken) / 2;
      const Result<std::int64_t> scratch = trial.attempt(call);
      (scratch.ok() ? taken : refused) = call.config.scratch_bytes;
      if (!scratch && scratch.error().field != "scratch_bytes") {
        return trial.fault(spec, "refused: " + scratch.error().message);
      }
    }
    World small(spec);
    PrefillCall least = small.call();
    least.config.scratch_bytes = 1;
    if (trial.attempt(least).ok()) return trial.fault(spec, "takes a budget of one byte");
    if (small.written(untouched)) return trial.fault(spec, "a refused budget wrote something");
    for (std::int64_t budget : {taken, taken + 64, taken + 30000, 2 * taken, 5 * taken}) {
      World world(spec);
      PrefillCall again = world.call();
      again.config.scratch_bytes = budget;
      if (trial.run(spec, again)) trial.compare(world);
    }
  });
}

void check_splits(StepTrial& trial) {
  const std::vector<std::vector<std::int32_t>> splits = {
      {82, 1}, {1, 82}, {16, 16, 16, 35}, {17, 0, 31, 35}, {41, 42}, {83}};
  trial.for_each_form({{83, 0}}, [&](const WorldSpec& spec) {
    World whole(spec);
    if (!trial.run(spec, whole.call())) return;
    for (const std::vector<std::int32_t>& steps : splits) {
      World world(spec);
      std::int64_t done = 0;
      for (std::int32_t step : steps) {
        const std::int32_t cu[2] = {0, step};
        if (!trial.run(spec, world.part(&done, cu))) return;
        done += step;
      }
      trial.compare(world);
      if (!(world.cache == whole.cache)) trial.fault(spec, "a split leaves another cache");
    }
  });
}

void check_permuted_pages(StepTrial& trial) {
  trial.for_each_form({{5, 37}, {40, 130}, {1, 90}}, [&](WorldSpec spec) {
    World first(spec);
    if (!trial.run(spec, first.call())) return;
    trial.compare(first);
    for (std::uint64_t place : {2, 3}) {
      spec.page_seed = place;
      World other(spec);
      if (!trial.run(spec, other.call())) return;
      if (!(other.out == first.out && other.lse == first.lse)) {
        return trial.fault(spec, "other bits where the pages lie elsewhere");
      }
    }
  });
}

void check_shared_blocks(StepTrial& trial) {
  trial.for_each_form({{4, 40}, {6, 40}, {0, 32}}, [&](const WorldSpec& spec) {
    World world(spec);
    // All read the first two pages of request 0; the first two have a third of their own.
    for (std::size_t r : {1, 2}) {
      std::copy_n(world.block_table.begin(), 2,
                  world.block_table.begin() + static_cast<std::ptrdiff_t>(r) * world.max_blocks);
    }
    if (trial.run(spec, world.call())) trial.compare(world);
  });
}

void check_slots(StepTrial& trial) {
  trial.for_each_form({{9, 20}}, [&](const WorldSpec& spec) {
    World world(spec), none(spec), untouched(spec);
    for (std::size_t t = 0; t < 9; t += 2) world.slot_mapping[t] = -1 - static_cast<int>(t);
    if (!trial.run(spec, world.call())) return;
    trial.compare(world);
    // What the cache should hold: the appended rows, and otherwise what it held.
    Elements wanted = untouched.cache;
    for (std::int64_t t = 1; t < 9; t += 2) {
      const std::int64_t at = untouched.slot_mapping[static_cast<std::size_t>(t)];
      for (std::int64_t i = 0; i < world.row_width(); ++i) {
        wanted.set(at * world.row_width() + i, world.latent(t, i));
      }
    }
    if (!(world.cache == wanted)) return trial.fault(spec, "the cache is not what was appended");
    PrefillCall call = none.call();
    call.args.slot_mapping = nullptr;
    if (!trial.run(spec, call)) return;
    if (!(none.cache == untouched.cache)) trial.fault(spec, "written without a slot_mapping");
    if (!(none.out == world.out)) trial.fault(spec, "slots change the result");
  });
}

void check_nothing(StepTrial& trial) {
  const std::vector<std::vector<StepLengths>> batches = {
      {}, {{0, 30}, {0, 0}}, {{3, 0}, {0, 17}, {0, 0}, {2, 5}}, {{1, 0}}};
  for (const std::vector<StepLengths>& requests : batches) {
    trial.for_each_form(requests, [&](const WorldSpec& spec) { trial.check(spec); });
  }
}

void check_thread_counts(StepTrial& trial) {
  trial.for_each_form({{40, 1100}, {3, 17}, {130, 5}}, [&](const WorldSpec& spec) {
    World first(spec);
    PrefillCall call = first.call();
    call.options.num_threads = 1;
    if (!trial.run(spec, call)) return;
    trial.compare(first);
    for (int threads : {2, 3, 7}) {
      World other(spec);
      PrefillCall again = other.call();
      again.options.num_threads = threads;
      if (!trial.run(spec, again)) return;
      if (other.written(first)) {
        return trial.fault(spec, std::to_string(threads) + " threads give other bits than 1");
      }
    }
  });
}

struct BadArgument {
  const char* what;
  void (*spoil)(World&, PrefillCall&);
};

constexpr BadArgument kBadArguments[] = {
    {"null q", [](World&, PrefillCall& c) { c.args.q.data = nullptr; }},
    {"null kv_c", [](World&, PrefillCall& c) { c.args.kv_c = nullptr; }},
    {"null k_pe", [](World&, PrefillCall& c) { c.args.k_pe = nullptr; }},
    {"null out", [](World&, PrefillCall& c) { c.args.out.data = nullptr; }},
    {"null cache", [](World&, PrefillCall& c) { c.args.cache.data = nullptr; }},
    {"block_size 0", [](World&, PrefillCall& c) { c.args.cache.block_size = 0; }},
    {"null block table", [](World&, PrefillCall& c) { c.batch.block_table.data = nullptr; }},
    {"a block beyond the cache",
     [](World& w, PrefillCall&) { w.block_table[1] = static_cast<std::int32_t>(w.num_blocks); }},
    {"a negative block", [](World& w, PrefillCall&) { w.block_table[0] = -1; }},
    {"a slot beyond the cache",
     [](World& w, PrefillCall&) { w.slot_mapping[8] = w.num_blocks * w.spec().block_size; }},
    {"decreasing cu_seqlens_q", [](World& w, PrefillCall&) { w.cu_seqlens[1] = 12; }},
    {"cu_seqlens_q from 1", [](World& w, PrefillCall&) { w.cu_seqlens[0] = 1; }},
    {"a negative context", [](World& w, PrefillCall&) { w.context_lens[0] = -1; }},
    {"a context beyond the table", [](World& w, PrefillCall&) { w.context_lens[0] = 1000; }},
    {"no heads", [](World&, PrefillCall& c) { c.config.num_heads = 0; }},
    {"null weights", [](World&, PrefillCall& c) { c.weights.kv_b_proj = nullptr; }},
};

void check_faults(StepTrial& trial) {
  trial.for_each_form({{9, 20}, {2, 0}}, [&](const WorldSpec& spec) {
    World untouched(spec), good(spec);
    if (!trial.run(spec, good.call())) return;
    for (const BadArgument& bad : kBadArguments) {
      World world(spec);
      PrefillCall call = world.call();
      bad.spoil(world, call);
      const Result<std::int64_t> result = trial.attempt(call);
      const std::string what = bad.what;
      if (result.ok()) return trial.fault(spec, what + " is taken");
      if (result.error().field.empty()) return trial.fault(spec, what + ": no field is named");
      if (world.written(untouched)) return trial.fault(spec, what + ": something was written");
    }
  });
}

struct Entry {
  Property property;
  void (*check)(StepTrial&);
};

constexpr Entry kEntries[] = {
    {{"prefill_forms", "expanded, absorbed and automatic agree with the double reference"},
     check_forms},
    {{"prefill_block_edges", "context and new tokens on both sides of every block edge"},
     check_edges},
    {{"prefill_empty", "no requests, no new tokens, no context"}, check_nothing},
    {{"prefill_budgets", "any budget from the least one on is obeyed and gives the same"},
     check_budgets},
    {{"prefill_splits", "a prompt fed in any split into steps gives the same"}, check_splits},
    {{"prefill_pages", "the same bits wherever the pages lie"}, check_permuted_pages},
    {{"prefill_shared_blocks", "blocks shared between requests"}, check_shared_blocks},
    {{"prefill_slots", "negative slots are not written and are attended all the same"},
     check_slots},
    {{"prefill_threads", "the same bits for 1, 2, 3 and 7 threads"}, check_thread_counts},
    {{"prefill_bad_arguments", "a fault is named; out, lse and cache stay as they were"},
     check_faults},
};

}  // namespace

PrefillStep prefill_step(const attention::Implementation& implementation) {
  // Not owned: the caller keeps it.
  const std::shared_ptr<const attention::Implementation> borrowed(
      std::shared_ptr<const attention::Implementation>(), &implementation);
  return [borrowed](const PrefillCall& call) -> Result<std::int64_t> {
    const auto made = prefill::Operator::create(call.config, call.weights, borrowed);
    if (!made) return made.error();
    const Result<prefill::Plan> plan = made->plan(call.batch, call.options);
    if (!plan) return plan.error();
    const Status status = made->run(*plan, call.args);
    if (!status.ok()) return status.error();
    return plan->scratch_bytes;
  };
}

std::string prefill_cannot_run(const Subject& subject) {
  if (subject.implementation == nullptr) return "nothing to run";
  if (subject.implementation->kernels() != nullptr) return "";
  return "the prefill operator is built from a CPU row's kernels, and this row has none";
}

const std::vector<Property>& prefill_properties() {
  static const std::vector<Property> all = [] {
    std::vector<Property> list;
    for (const Entry& entry : kEntries) list.push_back(entry.property);
    return list;
  }();
  return all;
}

Verdict check_prefill(std::string_view property, const Subject& subject, const PrefillStep& step,
                      const Options& options) {
  Verdict verdict;
  verdict.property = property;
  const auto* entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& e) { return e.property.name == property; });
  if (entry == std::end(kEntries)) {
    verdict.outcome = Outcome::kSkipped;
    verdict.detail = "no such property";
    return verdict;
  }
  const auto start = std::chrono::steady_clock::now();
  StepTrial trial(subject, step, options, &verdict);
  entry->check(trial);
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!trial.failed()) {
    std::ostringstream text;
    text.precision(2);
    text << verdict.batches << " steps, out error " << verdict.out_error << ", lse error "
         << verdict.lse_error << " of their bounds";
    verdict.detail = text.str();
  }
  return verdict;
}

Verdict check_prefill(std::string_view property, const Subject& subject, const Options& options) {
  const std::string reason = prefill_cannot_run(subject);
  if (reason.empty()) {
    return check_prefill(property, subject, prefill_step(*subject.implementation), options);
  }
  Verdict verdict;
  verdict.property = property;
  verdict.outcome = Outcome::kSkipped;
  verdict.detail = reason;
  return verdict;
}

bool check_all_prefill(const Subject& subject, const Options& options, const Sink& sink) {
  bool passed = true;
  for (const Entry& entry : kEntries) {
    const Verdict verdict = check_prefill(entry.property.name, subject, options);
    passed = passed && verdict.outcome != Outcome::kFailed;
    if (sink) sink(verdict);
  }
  return passed;
}

}  // namespace mla::conformance
