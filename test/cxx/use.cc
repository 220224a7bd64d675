/* SPDX-License-Identifier: MIT
 *
 * The public headers from C++17: every initializer, submit, cancel, a queue, executors, close.
 * .ci/run compiles it with all warnings as errors, and runs it.
 */
#include <uvsched.h>
#include <uvsched/calendar.h>
#include <uvsched/control.h>
#include <uvsched/executor.h>
#include <uvsched/lane.h>
#include <uvsched/queue.h>
#include <uvsched/settings.h>
#include <uvsched/stats.h>
#include <uvsched/trace.h>

#include <cstdio>
#include <type_traits>

namespace {

struct Seen {
  int runs = 0;
  int done = 0;
  int cancelled = 0;
  bool closed = false;
};

Seen *seen_of(uvs_t *s) {
  return static_cast<Seen *>(uvs_data(s));
}

void done(uvs_t *s, uvs_id_t, int status, void *) {
  Seen *seen = seen_of(s);
  seen->cancelled += status == UV_ECANCELED;
  if (++seen->done == 2)
    uvs_close(s, [](uvs_t *closing) { seen_of(closing)->closed = true; });
}

} // namespace

int main() {
  static_assert(std::is_same<uvs_id_t, uint64_t>::value, "an id is a number");

  Seen seen;
  uv_loop_t loop;
  if (uv_loop_init(&loop) != 0)
    return 1;

  uvs_options_t options;
  uvs_options_init(&options);
  options.data = &seen;
  uvs_t *s = nullptr;
  if (uvs_open(&loop, &options, &s) != 0)
    return 1;

  uvs_task_t task;
  uvs_task_init(&task);
  task.first_ns = UVS_MS(5);
  /* Nothing else touches `runs` before `done`, which comes after the run. */
  task.work = [](uvs_run_t *run) {
    static_cast<Seen *>(run->arg)->runs++;
    return 0;
  };
  task.done = done;
  task.arg = &seen;
  if (uvs_submit(s, &task, nullptr) != 0)
    return 1;

  uvs_id_t id = 0;
  task.first_ns = UVS_HOUR(1);
  if (uvs_submit(s, &task, &id) != 0)
    return 1;

  uvs_info_t info;
  uvs_info_init(&info);
  uvs_counts_t counts;
  uvs_counts_init(&counts);
  uvs_histogram_t late;
  uvs_histogram_init(&late);
  if (uvs_histogram(s, UVS_STAT_LATE, &late) != 0 || uvs_quantile_ns(&late, 0.5) != 0)
    return 1;
  if (uvs_info(s, id, &info) != 0 || uvs_counts(s, &counts) != 0 || counts.submitted != 2)
    return 1;

  if (uvs_cancel(s, id, 0) != UVS_CANCELLED)
    return 1;

  uvs_queue_options_t queue_options;
  uvs_queue_options_init(&queue_options);
  uvs_waiter_t waiter;
  uvs_waiter_init(&waiter);
  uvs_queue_t *queue = nullptr;
  uvs_entry_t entry;
  if (uvs_queue_open(s, &queue_options, &queue) != 0 ||
      uvs_queue_put(queue, &seen, 0, nullptr) != 0)
    return 1;
  if (uvs_queue_poll_within(queue, 0, &waiter, &entry) != 0 || entry.value != &seen)
    return 1;
  if (uvs_queue_close(queue) != 0)
    return 1;

  uvs_trace_options_t trace_options;
  uvs_trace_options_init(&trace_options);
  if (uvs_trace_open(s, &trace_options) != 0 || uvs_trace_close(s) != 0)
    return 1;

  uvs_executor_t executor;
  uvs_executor_init(&executor);
  uvs_threads_options_t threads_options;
  uvs_threads_options_init(&threads_options);
  threads_options.threads = 1;
  uvs_threads_t *threads = nullptr;
  if (executor.size != sizeof executor || uvs_threads_open(&threads_options, &threads) != 0)
    return 1;
  int jobs = 0;
  const uvs_executor_t *places[] = {uvs_inline_executor(), uvs_threads_executor(threads)};
  const auto job = [](void *arg) { ++*static_cast<int *>(arg); };
  for (const uvs_executor_t *e : places) {
    if (e->submit(e->self, job, &jobs) != 0)
      return 1;
  }
  if (uvs_threads_resize(threads, 2) != 0 || uvs_threads_close(threads) != 0 || jobs != 2)
    return 1;

  uvs_calendar_options_t calendar_options;
  uvs_calendar_options_init(&calendar_options);
  uvs_calendar_t *calendar = nullptr;
  if (uvs_calendar_parse("0 9 * * *", "UTC", &calendar_options, &calendar, nullptr) != 0 ||
      uvs_calendar_next(calendar, 0) != UVS_HOUR(9))
    return 1;
  uvs_calendar_release(calendar);

  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0)
    return 1;
  if (seen.runs != 1 || seen.done != 2 || seen.cancelled != 1 || !seen.closed)
    return 1;
  std::printf("use: C++ ran one task and cancelled another, uvsched %s\n", UVS_VERSION_STRING);
  return 0;
}
