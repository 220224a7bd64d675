/* SPDX-License-Identifier: MIT
 *
 * recording: /trace.json. A trace may have a million events, which take seconds to write. So a
 * thread of libuv's pool writes it to a file that has no name, and the file is sent from there. One
 * trace is written at a time, with a pause after it, and there are FILES_MAX files at most.
 */
#include "console/server.h"

#include <uvsched/trace.h>

#include "console/alloc.h"
#include "console/query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SIZE_MAX_BYTES (INT64_C(1) << 30)
#define FILES_MAX 2
#define SEND_NS UVS_SEC(600) /* for a slow network */

struct recording {
  uv_work_t work; /* first */
  struct uvs_console_s *console;
  struct uvs__later *later;
  uvs_t *s; /* a reference */
  int64_t last_ns;
  FILE *file;
  int64_t size;
  uint64_t cpu_ns; /* that writing it took */
  int rc;
};

static int write_file(const char *data, size_t size, void *arg) {
  struct recording *x = arg;

  x->size += (int64_t)size;
  if (x->size > SIZE_MAX_BYTES)
    return UV_E2BIG;
  return fwrite(data, 1, size, x->file) == size ? 0 : UV_EIO;
}

/* Pool thread. */
static void record(uv_work_t *work) {
  struct recording *x = (void *)work;
  uint64_t began_ns = uvs__console_cpu_ns();

  x->file = tmpfile();
  if (x->file == NULL || fcntl(fileno(x->file), F_SETFD, FD_CLOEXEC) < 0) {
    x->rc = uv_translate_sys_error(errno);
    return;
  }
  x->rc = uvs_trace_write(x->s, x->last_ns, 0, write_file, x);
  if (fflush(x->file) != 0 && x->rc == 0)
    x->rc = UV_EIO;
  x->cpu_ns = uvs__console_cpu_ns() - began_ns;
}

static void end_recording(void *arg) {
  struct recording *x = arg;

  x->console->traces--;
  if (x->file != NULL)
    fclose(x->file);
  uvs__console_free(x);
}

/* Called by libmicrohttpd when the client can take more. */
static ssize_t read_file(void *arg, uint64_t at, char *ret, size_t room) {
  struct recording *x = arg;
  ssize_t n = pread(fileno(x->file), ret, room, (off_t)at);

  return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Takes x. */
static struct MHD_Response *answer_of(struct recording *x) {
  struct MHD_Response *answer =
      MHD_create_response_from_callback((uint64_t)x->size, 64 * 1024, read_file, x, end_recording);

  if (answer == NULL)
    end_recording(x);
  else
    uvs__answer_headers(answer, "application/json");
  return answer;
}

static void on_recorded(uv_work_t *work, int status) {
  struct recording *x = (void *)work;
  struct uvs__later *later = x->later;
  struct uvs_console_s *c = x->console;
  struct uvs__request *r = later->request;
  int rc = status < 0 ? status : x->rc;
  struct MHD_Response *answer = NULL;

  c->tracing = false;
  c->trace_next_ns = uv_hrtime() + x->cpu_ns;
  uvs_release(x->s);
  if (r != NULL && rc == 0)
    answer = answer_of(x);
  else
    end_recording(x);
  if (uvs__later_end(later) == NULL)
    return;
  uvs__request_lives(r, SEND_NS);
  if (rc == 0)
    uvs__request_answer(r, MHD_HTTP_OK, answer);
  else
    uvs__request_answer(r, rc == UV_ENOENT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_SERVICE_UNAVAILABLE,
                        uvs__answer_error(rc == UV_ENOENT
                                              ? "no recorder is open: see uvs_trace_open"
                                              : uvs_strerror(rc)));
}

static struct recording *begin(struct uvs__request *r, int64_t last_ns) {
  struct recording *x = uvs__console_alloc(sizeof *x);

  if (x == NULL)
    return NULL;
  x->last_ns = last_ns;
  x->later = uvs__later_begin(r);
  if (x->later == NULL) {
    uvs__console_free(x);
    return NULL;
  }
  x->console = r->console;
  x->s = uvs_retain(r->console->s);
  return x;
}

enum MHD_Result uvs__recording_get(struct uvs__request *r) {
  uint64_t last_ms = 0;
  struct recording *x;

  if (uvs__query_uint(r->target, "last_ms", 1, UINT32_MAX, &last_ms) < 0)
    return uvs__answer_queue(r->connection, MHD_HTTP_BAD_REQUEST,
                             uvs__answer_error("a parameter is wrong"));
  if (r->console->tracing || r->console->traces >= FILES_MAX ||
      uv_hrtime() < r->console->trace_next_ns)
    return uvs__answer_queue(
        r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
        uvs__answer_error("other traces are being written or read: try again"));
  x = begin(r, last_ms == 0 ? UVS_NEVER : UVS_MS((int64_t)last_ms));
  if (x == NULL)
    return MHD_NO;
  r->console->tracing = true;
  r->console->traces++;
  uv_queue_work(uvs_loop(x->s), &x->work, record, on_recorded);
  uvs__request_suspend(r);
  return MHD_YES;
}
