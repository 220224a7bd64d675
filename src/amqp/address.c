/* SPDX-License-Identifier: MIT */
#include "amqp/address.h"

#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "amqp/alloc.h"

static int check(const struct uvs__amqp_address *a, char *text, size_t size) {
  if (*a->info.host == '\0')
    snprintf(text, size, "the broker's URL has no host");
  else if (a->info.ssl && a->ca_file == NULL)
    snprintf(text, size, "amqps:// needs a file with the certificates to trust");
  else if (!a->info.ssl && a->ca_file != NULL)
    snprintf(text, size, "a file with certificates is given, but the URL is not amqps://");
  else
    return 0;
  return UV_EINVAL;
}

int uvs__address_read(struct uvs__amqp_address *a, const char *url, const char *ca_file, char *text,
                      size_t size) {
  int rc;

  memset(a, 0, sizeof *a);
  if (strncmp(url, "amqp://", 7) != 0 && strncmp(url, "amqps://", 8) != 0) {
    snprintf(text, size, "the broker's URL does not begin with amqp:// or amqps://");
    return UV_EINVAL;
  }
  a->parts = uvs__amqp_copy(url);
  a->ca_file = ca_file == NULL ? NULL : uvs__amqp_copy(ca_file);
  if (a->parts == NULL || (ca_file != NULL && a->ca_file == NULL)) {
    uvs__address_free(a);
    snprintf(text, size, "there is no memory");
    return UV_ENOMEM;
  }
  amqp_default_connection_info(&a->info);
  rc = amqp_parse_url(a->parts, &a->info);
  if (rc != AMQP_STATUS_OK) {
    snprintf(text, size,
             "the broker's URL cannot be read: write amqp://USER:PASSWORD@HOST:PORT/VHOST");
    rc = UV_EINVAL;
  } else {
    rc = check(a, text, size);
  }
  if (rc != 0) {
    uvs__address_free(a);
    return rc;
  }
  snprintf(a->shown, sizeof a->shown, "%.120s:%d, vhost %.40s", a->info.host, a->info.port,
           a->info.vhost);
  return 0;
}

void uvs__address_free(struct uvs__amqp_address *a) {
  uvs__amqp_free(a->parts);
  uvs__amqp_free(a->ca_file);
  a->parts = a->ca_file = NULL;
}
