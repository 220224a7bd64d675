/* SPDX-License-Identifier: MIT
 *
 * pages: prints what uvs_stats_write_all writes for two schedulers, for Prometheus to read. Their
 * names, and those of their tasks, are as hostile as names can be.
 */
#include <stdio.h>
#include <stdlib.h>

#include <uvsched/stats.h>

static int work(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void must(int rc) {
  if (rc >= 0)
    return;
  fprintf(stderr, "pages: %s\n", uvs_strerror(rc));
  exit(1);
}

static int print(const char *data, size_t size, void *arg) {
  return fwrite(data, 1, size, arg) == size ? 0 : UV_EIO;
}

int main(void) {
  static const char *const names[] = {"plain",
                                      "a\"b\\c\nd",
                                      "{le=\"+Inf\"} 1\n# HELP x",
                                      "<script>",
                                      "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                      "\t\r\x01\x7f",
                                      "other",
                                      "\xff\xfe\xc3(",
                                      "\\",
                                      "\\n",
                                      "\"",
                                      "name=\"x\",le"};
  uv_loop_t loop;
  uvs_options_t o;
  uvs_t *list[2];

  must(uv_loop_init(&loop));
  for (int i = 0; i < 2; i++) {
    uvs_options_init(&o);
    o.name = i == 0 ? "a\"b\\c\nd\xc3\xa4" : NULL;
    must(uvs_open(&loop, &o, &list[i]));
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
      uvs_task_t t;

      uvs_task_init(&t);
      t.work = work;
      t.name = names[k];
      must(uvs_submit(list[i], &t, NULL));
    }
  }
  uv_run(&loop, UV_RUN_DEFAULT); /* until all tasks have ended */
  must(uvs_stats_write_all(list, 2, print, stdout));
  for (int i = 0; i < 2; i++)
    must(uvs_close(list[i], NULL));
  uv_run(&loop, UV_RUN_DEFAULT);
  must(uv_loop_close(&loop));
  return 0;
}
