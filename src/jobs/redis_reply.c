/* SPDX-License-Identifier: MIT
 *
 * redis_reply: what the replies of a server mean.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/redis_socket.h"

int uvs__redis_error(const redisReply *reply, enum uvs__redis_remedy *ret) {
  static const struct {
    const char *word;
    int status;
    enum uvs__redis_remedy remedy;
  } errors[] = {
      {"NOSCRIPT", UV_EAGAIN, UVS__REDIS_LOAD_SCRIPTS},
      {"READONLY", UV_EAGAIN, UVS__REDIS_RECONNECT},
      {"LOADING", UV_EAGAIN, UVS__REDIS_RECONNECT},
      {"MASTERDOWN", UV_EAGAIN, UVS__REDIS_RECONNECT},
      {"CLUSTERDOWN", UV_EAGAIN, UVS__REDIS_RECONNECT},
      {"BUSY", UV_EAGAIN, UVS__REDIS_CARRY_ON},
      {"TRYAGAIN", UV_EAGAIN, UVS__REDIS_CARRY_ON},
      {"NOREPLICAS", UV_EAGAIN, UVS__REDIS_CARRY_ON},
      {"OOM", UV_ENOSPC, UVS__REDIS_CARRY_ON},
      {"MISCONF", UV_ENOSPC, UVS__REDIS_CARRY_ON},
      {"NOAUTH", UV_EACCES, UVS__REDIS_RECONNECT}, /* the next connection sends the password */
      {"WRONGPASS", UV_EACCES, UVS__REDIS_CARRY_ON},
      {"NOPERM", UV_EACCES, UVS__REDIS_CARRY_ON},
      {"DENIED", UV_EACCES, UVS__REDIS_CARRY_ON}, /* protected mode */
  };
  size_t length = 0;

  while (length < reply->len && reply->str[length] != ' ')
    length++;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (strlen(errors[i].word) == length && memcmp(errors[i].word, reply->str, length) == 0) {
      *ret = errors[i].remedy;
      return errors[i].status;
    }
  }
  *ret = UVS__REDIS_CARRY_ON;
  return UV_EIO;
}

void uvs__redis_line(char *to, size_t size, const char *text, size_t length) {
  size_t n = length < size - 1 ? length : size - 1;

  for (size_t i = 0; i < n; i++) {
    to[i] = text[i];
    if ((unsigned char)text[i] < ' ' || text[i] == 127)
      to[i] = ' ';
  }
  to[n] = '\0';
}

bool uvs__redis_info(const redisReply *reply, const char *name, char *ret, size_t size) {
  size_t length = strlen(name);
  const char *line, *end;

  if (reply->type != REDIS_REPLY_STRING)
    return false;
  for (line = reply->str; line != NULL; line = end == NULL ? NULL : end + 1) {
    end = strchr(line, '\n');
    if (strncmp(line, name, length) == 0 && line[length] == ':') {
      line += length + 1;
      uvs__redis_line(ret, size, line, strcspn(line, "\r\n"));
      return true;
    }
  }
  return false;
}
