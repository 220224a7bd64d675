/* SPDX-License-Identifier: MIT
 *
 * recording: /trace.json. A trace may have a million events, which take seconds to write. So a
 * thread of libuv's pool writes it to a file that has no name, and the file is sent from there. One
 * trace is written at a time.
 */
#include "console/server.h"

#include <uvsched/trace.h>

#include "console/alloc.h"
#include "console/query.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SIZE_MAX_BYTES (INT64_C(1) << 30)
#define SEND_NS UVS_SEC(600) /* for a slow network */

struct recording {
  uv_work_t work; /* first */
  struct uvs__later *later;
  uvs_t *s; /* a reference */
  int64_t last_ns;
  FILE *file;
  int64_t size;
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

  x->file = tmpfile();
  if (x->file == NULL) {
    x->rc = uv_translate_sys_error(errno);
    return;
  }
  x->rc = uvs_trace_write(x->s, x->last_ns, 0, write_file, x);
  if (fflush(x->file) != 0 && x->rc == 0)
    x->rc = UV_EIO;
}

static struct MHD_Response *answer_of(const struct recording *x) {
  struct MHD_Response *answer;
  int fd = dup(fileno(x->file));

  if (fd < 0)
    return NULL;
  answer = MHD_create_response_from_fd64((uint64_t)x->size, fd); /* closes fd with the response */
  if (answer == NULL)
    close(fd);
  else
    uvs__answer_headers(answer, "application/json");
  return answer;
}

static void on_recorded(uv_work_t *work, int status) {
  struct recording *x = (void *)work;
  struct uvs__request *r;

  x->later->console->tracing = false;
  r = uvs__later_end(x->later);
  if (status < 0)
    x->rc = status;
  if (r != NULL)
    uvs__request_lives(r, SEND_NS);
  if (r != NULL && x->rc == 0)
    uvs__request_answer(r, MHD_HTTP_OK, answer_of(x));
  else if (r != NULL)
    uvs__request_answer(r, x->rc == UV_ENOENT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_SERVICE_UNAVAILABLE,
                        uvs__answer_error(x->rc == UV_ENOENT
                                              ? "no recorder is open: see uvs_trace_open"
                                              : uvs_strerror(x->rc)));
  if (x->file != NULL)
    fclose(x->file);
  uvs_release(x->s);
  uvs__console_free(x);
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
  x->s = uvs_retain(r->console->s);
  return x;
}

enum MHD_Result uvs__recording_get(struct uvs__request *r) {
  uint64_t last_ms = 0;
  struct recording *x;

  if (uvs__query_uint(r->target, "last_ms", 1, UINT32_MAX, &last_ms) < 0)
    return uvs__answer_queue(r->connection, MHD_HTTP_BAD_REQUEST,
                             uvs__answer_error("a parameter is wrong"));
  if (r->console->tracing)
    return uvs__answer_queue(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                             uvs__answer_error("a trace is being written: try again"));
  x = begin(r, last_ms == 0 ? UVS_NEVER : UVS_MS((int64_t)last_ms));
  if (x == NULL)
    return MHD_NO;
  r->console->tracing = true;
  uv_queue_work(uvs_loop(x->s), &x->work, record, on_recorded);
  uvs__request_suspend(r);
  return MHD_YES;
}
