/* SPDX-License-Identifier: MIT */
#include "jobs/redis_slot.h"

#include <stddef.h>
#include <string.h>

#define CRON_KEY "uvs.cron:"

/* CRC16 with the polynomial 0x1021, begun with 0, a byte in one step. */
static unsigned add_byte(unsigned crc, unsigned char byte) {
  unsigned x = (crc >> 8 ^ byte) & 0xff;

  x ^= x >> 4;
  return (crc << 8 ^ x << 12 ^ x << 5 ^ x) & 0xffff;
}

static unsigned add_text(unsigned crc, const char *text) {
  for (; *text != '\0'; text++)
    crc = add_byte(crc, (unsigned char)*text);
  return crc;
}

unsigned uvs__redis_slot(const char *queue, const char *rest, const char *key) {
  unsigned crc;

  if (key != NULL && strncmp(key, CRON_KEY, strlen(CRON_KEY)) == 0) {
    queue = "uvs.cron";
    key += strlen(CRON_KEY);
  }
  crc = add_byte(add_text(0, queue), '/');
  return add_text(crc, key == NULL ? rest : key) % UVS__SLOTS;
}
