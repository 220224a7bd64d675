/* SPDX-License-Identifier: MIT */
#include "console/server.h"

#include "console/alloc.h"
#include "console/json.h"

#include <string.h>

void uvs__answer_headers(struct MHD_Response *answer, const char *type) {
  static const char *const headers[][2] = {
      {"Cache-Control", "no-store"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
  };

  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
    MHD_add_response_header(answer, headers[i][0], headers[i][1]);
  MHD_add_response_header(answer, "Content-Type", type);
  MHD_add_response_header(answer, "Content-Security-Policy",
                          strncmp(type, "text/html", 9) == 0
                              ? uvs__page_policy
                              : "default-src 'none'; frame-ancestors 'none'");
}

static struct MHD_Response *with_headers(struct MHD_Response *answer, const char *type) {
  if (answer != NULL)
    uvs__answer_headers(answer, type);
  return answer;
}

struct MHD_Response *uvs__answer_text(const char *type, struct uvs__text *text) {
  struct MHD_Response *answer =
      text->size == 0 ? NULL
                      : MHD_create_response_from_buffer_with_free_callback(text->size, text->data,
                                                                           uvs__console_free);

  if (answer == NULL)
    uvs__text_free(text);
  *text = (struct uvs__text){NULL, 0, 0};
  return with_headers(answer, type);
}

struct MHD_Response *uvs__answer_page(void) {
  return with_headers(MHD_create_response_from_buffer(uvs__page_size, (void *)(uintptr_t)uvs__page,
                                                      MHD_RESPMEM_PERSISTENT),
                      "text/html; charset=utf-8");
}

struct MHD_Response *uvs__answer_error(const char *text) {
  struct uvs__text t = {NULL, 0, 0};
  struct uvs__json j;

  uvs__json_init(&j, uvs__text_write, &t);
  uvs__json_open(&j, NULL, '{');
  uvs__json_string(&j, "error", text);
  uvs__json_close(&j, '}');
  if (uvs__json_end(&j) != 0) {
    uvs__text_free(&t);
    return NULL;
  }
  return uvs__answer_text("application/json", &t);
}

enum MHD_Result uvs__answer_queue(struct MHD_Connection *connection, unsigned status,
                                  struct MHD_Response *answer) {
  enum MHD_Result rc;

  if (answer == NULL)
    return MHD_NO;
  rc = MHD_queue_response(connection, status, answer);
  MHD_destroy_response(answer);
  return rc;
}
