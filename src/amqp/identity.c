/* SPDX-License-Identifier: MIT
 *
 * SHA-256 as in FIPS 180-4: somebody who can publish must not be able to make a message that looks
 * like another one, which would then be dropped as known.
 */
#include "amqp/identity.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static void add_block(struct uvs__sha256 *h) {
  uint32_t w[64], s[8];

  for (size_t i = 0; i < 16; i++)
    w[i] = (uint32_t)h->block[4 * i] << 24 | (uint32_t)h->block[4 * i + 1] << 16 |
           (uint32_t)h->block[4 * i + 2] << 8 | h->block[4 * i + 3];
  for (size_t i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];

    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(s, h->state, sizeof s);
  for (size_t i = 0; i < 64; i++) {
    uint32_t x = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                 ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
    uint32_t y = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += x;
    s[0] = x + y;
  }
  for (size_t i = 0; i < 8; i++)
    h->state[i] += s[i];
}

void uvs__sha256_init(struct uvs__sha256 *h) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  memset(h, 0, sizeof *h);
  memcpy(h->state, start, sizeof start);
}

void uvs__sha256_add(struct uvs__sha256 *h, const void *data, size_t size) {
  const uint8_t *at = data;

  while (size > 0) {
    size_t used = h->size % 64, n = 64 - used < size ? 64 - used : size;

    memcpy(h->block + used, at, n);
    h->size += n;
    at += n;
    size -= n;
    if (used + n == 64)
      add_block(h);
  }
}

void uvs__sha256_end(struct uvs__sha256 *h, uint8_t ret[32]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = h->size * 8;
  uint8_t length[8];

  uvs__sha256_add(h, padding, 1 + (119 - h->size % 64) % 64);
  for (unsigned i = 0; i < 8; i++)
    length[i] = (uint8_t)(bits >> (56 - 8 * i));
  uvs__sha256_add(h, length, 8);
  for (unsigned i = 0; i < 32; i++)
    ret[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void add_part(struct uvs__sha256 *h, const void *data, size_t size) {
  uint8_t length[8];

  for (unsigned i = 0; i < 8; i++)
    length[i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
  uvs__sha256_add(h, length, sizeof length);
  uvs__sha256_add(h, data, size);
}

void uvs__amqp_identity(const char *queue, amqp_bytes_t message_id, amqp_bytes_t body,
                        char ret[UVS__AMQP_ID_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  struct uvs__sha256 h;
  uint8_t hash[32];

  uvs__sha256_init(&h);
  add_part(&h, queue, strlen(queue));
  add_part(&h, message_id.bytes, message_id.len);
  add_part(&h, body.bytes, body.len);
  uvs__sha256_end(&h, hash);
  for (unsigned i = 0; i < (UVS__AMQP_ID_BYTES - 1) / 2; i++) {
    ret[2 * i] = digits[hash[i] >> 4];
    ret[2 * i + 1] = digits[hash[i] & 15];
  }
  ret[UVS__AMQP_ID_BYTES - 1] = '\0';
}
