/* SPDX-License-Identifier: MIT
 *
 * How the names of stores in Redis are read. No server is needed.
 */
#include <string.h>

#include "lib/main.h"

#include "jobs/redis.h"

#ifndef EQ
#define EQ(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")
#endif

static char text[200];
static struct uvs__redis_options *o;

static int read_url(const char *name) {
  int rc;

  text[0] = '\0';
  o = NULL;
  rc = uvs__redis_read_url(name, &o, text, sizeof text);
  if ((rc == 0) != (o != NULL) || (rc == 0) != (text[0] == '\0') || strchr(text, '\n') != NULL)
    abort();
  return rc;
}

/* Is refused, and the text has these words. */
#define REFUSED(name, words) \
  do { \
    EQ(UV_EINVAL, read_url(name)); \
    if (strstr(text, words) == NULL) \
      FAILm(text); \
  } while (0)

TEST a_host_alone_gets_the_defaults(void) {
  EQ(0, read_url("redis://host"));
  ASSERT_STR_EQ("host", o->host);
  EQ(6379, o->port);
  EQ(0, o->db);
  ASSERT_STR_EQ("uvsched", o->ns);
  ASSERT(o->path == NULL && o->user == NULL && o->password == NULL);
  ASSERT(o->service == NULL && o->sentinels == NULL);
  EQ(0, o->replicas);
  ASSERT_FALSE(o->strict);
  EQ(2000000000, o->timeout_ns);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis://host/"));
  EQ(0, o->db);
  uvs__redis_free_options(o);
  PASS();
}

TEST all_parts_of_an_address_are_read(void) {
  EQ(0, read_url("redis://us%65r:p%40%3a:@redis-1.example.org:7000/12"
                 "?ns=a.B_c:9-&replicas=2&strict=1&timeout=500ms"));
  ASSERT_STR_EQ("user", o->user);
  ASSERT_STR_EQ("p@::", o->password);
  ASSERT_STR_EQ("redis-1.example.org", o->host);
  EQ(7000, o->port);
  EQ(12, o->db);
  ASSERT_STR_EQ("a.B_c:9-", o->ns);
  EQ(2, o->replicas);
  ASSERT(o->strict);
  EQ(500000000, o->timeout_ns);
  uvs__redis_free_options(o);
  PASS();
}

TEST a_user_or_a_password_may_be_alone(void) {
  EQ(0, read_url("redis://:secret@h"));
  ASSERT(o->user == NULL);
  ASSERT_STR_EQ("secret", o->password);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis://user@h"));
  ASSERT_STR_EQ("user", o->user);
  ASSERT_STR_EQ("", o->password);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis://user:a@b@h")); /* the last @ ends the password */
  ASSERT_STR_EQ("a@b", o->password);
  ASSERT_STR_EQ("h", o->host);
  uvs__redis_free_options(o);
  PASS();
}

TEST addresses_of_ipv6_stand_in_brackets(void) {
  EQ(0, read_url("redis://[::1]:6380/1?timeout=3s"));
  ASSERT_STR_EQ("::1", o->host);
  EQ(6380, o->port);
  EQ(1, o->db);
  EQ(3000000000, o->timeout_ns);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis://[fe80::1%eth0]"));
  ASSERT_STR_EQ("fe80::1%eth0", o->host);
  uvs__redis_free_options(o);
  REFUSED("redis://::1", "host");
  REFUSED("redis://[::1", "host");
  PASS();
}

TEST a_unix_socket_has_a_path(void) {
  EQ(0, read_url("redis+unix:///run/redis/a%20b%3F.sock?db=3&ns=n"));
  ASSERT_STR_EQ("/run/redis/a b?.sock", o->path);
  ASSERT(o->host == NULL);
  EQ(3, o->db);
  ASSERT_STR_EQ("n", o->ns);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis+unix://u:p%2F@/run/a@b?ns=n"));
  ASSERT_STR_EQ("u", o->user);
  ASSERT_STR_EQ("p/", o->password);
  ASSERT_STR_EQ("/run/a@b", o->path);
  uvs__redis_free_options(o);
  EQ(0, read_url("redis+unix:///run/a@b"));
  ASSERT(o->user == NULL && o->password == NULL);
  uvs__redis_free_options(o);
  REFUSED("redis+unix://run/redis.sock", "begin with /");
  REFUSED("redis+unix://", "begin with /");
  REFUSED("redis+unix:///%zz", "path");
  REFUSED("redis+unix:///0123456789012345678901234567890123456789012345678901234567890123456789"
          "012345678901234567890123456789012345678901234567890123456789",
          "too long");
  PASS();
}

TEST a_list_has_its_settings_behind_the_last_server(void) {
  EQ(0, read_url("redis://u:p@h1/1,redis+sentinel://s1,s2/jobs,redis+unix:///a?db=2,"
                 "redis://h2?ns=x&timeout=500ms&strict=1&replicas=3"));
  ASSERT_STR_EQ("h1", o->host);
  ASSERT_STR_EQ("p", o->password);
  EQ(1, o->db);
  ASSERT_STR_EQ("s1,s2", o->next->sentinels);
  ASSERT_STR_EQ("jobs", o->next->service);
  ASSERT_STR_EQ("/a", o->next->next->path);
  EQ(2, o->next->next->db);
  ASSERT_STR_EQ("h2", o->next->next->next->host);
  ASSERT(o->next->next->next->next == NULL);
  for (const struct uvs__redis_options *one = o; one != NULL; one = one->next) {
    ASSERT_STR_EQ("x", one->ns);
    EQ(500000000, one->timeout_ns);
    ASSERT(one->strict);
    EQ(3, one->replicas);
  }
  uvs__redis_free_options(o);
  REFUSED("redis://h1?ns=x,redis://h2", "server 1 of the list: ns= must follow the last");
  REFUSED("redis://h1,redis://h2/x", "server 2 of the list: the database");
  REFUSED("redis://h1,h2", "the host");
  REFUSED("redis://h1,redis://h1:6379/0", "servers 1 and 2 of the list are the same");
  REFUSED("redis://h1,rediss://h2", "server 2 of the list: TLS");
  REFUSED("redis://h1,redis+sentinel://h2/my jobs", "server 2 of the list: its address");
  PASS();
}

TEST at_most_64_servers_are_in_a_list(void) {
  char list[3000] = "redis://h0";

  for (int i = 1; i < 64; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), ",redis://h%d", i);
  EQ(0, read_url(list));
  uvs__redis_free_options(o);
  strcat(list, ",redis://h64");
  REFUSED(list, "more than 64 servers");
  PASS();
}

TEST a_server_has_a_name_without_user_and_settings(void) {
  static const char *const names[] = {"redis://h1:6379/0", "redis://[::1]:7000/3",
                                      "redis+unix:///run/a%20b?db=2",
                                      "redis+sentinel://s1,s2:7/jobs/1"};
  struct uvs__redis_options *given, *server;
  char name[UVS__REDIS_SERVER_NAME];

  EQ(0, read_url("redis://u1:p1@h1,redis://u2:p2@[::1]:7000/3,redis+unix://:p3@/run/a%20b?db=2,"
                 "redis+sentinel://s1,s2:7/jobs/1?ns=x"));
  given = o;
  for (size_t i = 0; i < 4; i++, o = o->next) {
    ASSERT(uvs__redis_server_name(o, name));
    ASSERT_STR_EQ(names[i], name);
    EQ(0, uvs__redis_server_options(names[i], given, &server, text, sizeof text));
    ASSERT(server->user == o->user && server->password == o->password);
    ASSERT_STR_EQ("x", server->ns);
    EQ(o->db, server->db);
    uvs__redis_free_options(server);
  }
  EQ(0, uvs__redis_server_options("redis://h9:6379/0", given, &server, text, sizeof text));
  ASSERT_STR_EQ("p1", server->password); /* of the first server */
  uvs__redis_free_options(server);
  EQ(UV_EINVAL, uvs__redis_server_options("h9", given, &server, text, sizeof text));
  uvs__redis_free_options(given);
  PASS();
}

TEST sentinels_and_the_service_are_read(void) {
  EQ(0, read_url("redis+sentinel://u:p@h1:1,[::2],h3/jobs/4?ns=x"));
  ASSERT_STR_EQ("h1:1,[::2],h3", o->sentinels);
  ASSERT_STR_EQ("jobs", o->service);
  ASSERT_STR_EQ("u", o->user);
  ASSERT_STR_EQ("p", o->password);
  ASSERT(o->host == NULL && o->path == NULL);
  EQ(4, o->db);
  uvs__redis_free_options(o);
  REFUSED("redis+sentinel://", "sentinels are missing");
  REFUSED("redis+sentinel://h1", "service is missing");
  REFUSED("redis+sentinel://h1/", "service is missing");
  REFUSED("redis+sentinel://h1,/jobs", "a sentinel");
  REFUSED("redis+sentinel://h1,,h2/jobs", "a sentinel");
  REFUSED("redis+sentinel://h1:0/jobs", "a sentinel");
  PASS();
}

TEST what_is_wrong_is_named(void) {
  REFUSED("redis:", "none of");
  REFUSED("redis:/host", "none of");
  REFUSED("redis+tls://host", "none of");
  REFUSED("rediss://host", "TLS");
  REFUSED("redis://", "host is missing");
  REFUSED("redis://user@", "host is missing");
  REFUSED("redis:///1", "host is missing");
  REFUSED("redis://a b", "host");
  REFUSED("redis://a,b", "host");
  REFUSED("redis://h:", "PORT");
  REFUSED("redis://h:0", "PORT");
  REFUSED("redis://h:65536", "PORT");
  REFUSED("redis://h:12x", "PORT");
  REFUSED("redis://h/x", "database");
  REFUSED("redis://h/-1", "database");
  REFUSED("redis://h/1000001", "database");
  REFUSED("redis://h/1/2", "database");
  REFUSED("redis://%zz:x@h", "user");
  REFUSED("redis://u:%4@h", "password");
  REFUSED("redis://u:%00@h", "password");
  REFUSED("redis://h?", "unknown setting");
  REFUSED("redis://h?foo=1", "foo");
  REFUSED("redis://h?ns", "unknown setting");
  REFUSED("redis://h?ns=", "ns is not");
  REFUSED("redis://h?ns=a{b", "ns is not");
  REFUSED("redis://h?ns=0123456789012345678901234567890123456789012345678901234567890123x",
          "ns is not");
  REFUSED("redis://h?ns=a&ns=b", "ns is given twice");
  REFUSED("redis://h/1?db=1", "db is given twice");
  REFUSED("redis://h?replicas=-1", "replicas");
  REFUSED("redis://h?replicas=1001", "replicas");
  REFUSED("redis://h?strict=yes", "strict");
  REFUSED("redis://h?timeout=5", "timeout");
  REFUSED("redis://h?timeout=9ms", "timeout");
  REFUSED("redis://h?timeout=601s", "timeout");
  REFUSED("redis://h?timeout=99999999999999999999s", "timeout");
  REFUSED("redis://h?timeout=1s&", "unknown setting");
  PASS();
}

TEST a_password_is_never_said(void) {
  static const char *const names[] = {
      "redis://user:77?cret@host", "redis://user:se?cret@host",  "redis://user:se/cret@host",
      "redis://user:secret@",      "redis://user:secret@h:x",    "redis://user:secret%@h",
      "redis://user:secret@h/x",   "redis://user:?secret=1@h",   "redis+sentinel://u:secret@h",
      "redis://u:a?ns=x&cret=@h",  "redis://user:secret@h?ns=}", "rediss://user:secret@h",
      "redis+x://user:secret@h"};

  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    EQ(UV_EINVAL, read_url(names[i]));
    if (strstr(text, "cret") != NULL)
      FAILm(text);
  }
  PASS();
}

/* Texts from parts of good names, with random changes. */
TEST random_names_are_read_or_refused(void) {
  static const char *const parts[] = {"redis://",
                                      "redis+unix://",
                                      "redis+sentinel://",
                                      "rediss://",
                                      "user",
                                      ":",
                                      "@",
                                      "/",
                                      "host",
                                      "[::1]",
                                      ",",
                                      "?",
                                      "&",
                                      "ns=",
                                      "db=",
                                      "replicas=",
                                      "strict=1",
                                      "timeout=",
                                      "5s",
                                      "500ms",
                                      "%41",
                                      "%",
                                      "%0",
                                      "99999",
                                      "1",
                                      "",
                                      "\n",
                                      "\xff"};
  uint64_t random = test_seed;
  long good = 0;

  for (int i = 0; i < 200000; i++) {
    char name[400] = "";
    size_t n = test_random_below(&random, 12);

    if (test_random_below(&random, 8) != 0)
      strcpy(name, parts[test_random_below(&random, 3)]);
    for (size_t j = 0; j < n; j++)
      strcat(name, parts[test_random_below(&random, sizeof parts / sizeof *parts)]);
    if (*name != '\0' && test_random_below(&random, 4) == 0)
      name[test_random_below(&random, strlen(name))] = (char)(1 + test_random_below(&random, 255));
    if (read_url(name) != 0)
      continue;
    good++;
    ASSERT((o->host != NULL) + (o->path != NULL) + (o->sentinels != NULL) == 1);
    ASSERT(o->sentinels == NULL || *o->service != '\0');
    ASSERT(o->path != NULL || o->sentinels != NULL || (o->port > 0 && o->port < 65536));
    ASSERT(strlen(o->ns) > 0 && strlen(o->ns) <= 64);
    ASSERT(o->timeout_ns > 0);
    uvs__redis_free_options(o);
  }
  ASSERT(good > 1000);
  PASS();
}

SUITE(url) {
  RUN_TEST(a_host_alone_gets_the_defaults);
  RUN_TEST(all_parts_of_an_address_are_read);
  RUN_TEST(a_user_or_a_password_may_be_alone);
  RUN_TEST(addresses_of_ipv6_stand_in_brackets);
  RUN_TEST(a_unix_socket_has_a_path);
  RUN_TEST(a_list_has_its_settings_behind_the_last_server);
  RUN_TEST(at_most_64_servers_are_in_a_list);
  RUN_TEST(a_server_has_a_name_without_user_and_settings);
  RUN_TEST(sentinels_and_the_service_are_read);
  RUN_TEST(what_is_wrong_is_named);
  RUN_TEST(a_password_is_never_said);
  RUN_TEST(random_names_are_read_or_refused);
}

TEST_MAIN(RUN_SUITE(url));
