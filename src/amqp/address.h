/* SPDX-License-Identifier: MIT
 *
 * address: takes the URL of the broker apart.
 */
#ifndef UVSCHED_AMQP_ADDRESS_H
#define UVSCHED_AMQP_ADDRESS_H

#include <stddef.h>

#include <amqp.h>

struct uvs__amqp_address {
  char *parts; /* the memory of info's strings */
  char *ca_file;
  struct amqp_connection_info info;
  char shown[200]; /* for people: without the password */
};

/* Returns 0; UV_EINVAL, with a line in text; UV_ENOMEM. */
int uvs__address_read(struct uvs__amqp_address *a, const char *url, const char *ca_file, char *text,
                      size_t size);
void uvs__address_free(struct uvs__amqp_address *a);

#endif
