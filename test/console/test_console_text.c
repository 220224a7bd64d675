/* SPDX-License-Identifier: MIT
 *
 * The rooms of the console that need no loop: JSON, targets of requests, and refusals.
 */
#include "lib/unit.h"

#include <stdlib.h>

#include "console/guard.h"
#include "console/json.h"
#include "console/query.h"

/* ---- JSON ---- */

static struct {
  char text[20000];
  size_t size;
  int pieces, refuse_at;
} got;

static int collect(const char *data, size_t size, void *arg) {
  (void)arg;
  if (++got.pieces == got.refuse_at)
    return 77;
  if (size > sizeof got.text - 1 - got.size)
    return UV_E2BIG;
  memcpy(got.text + got.size, data, size);
  got.size += size;
  got.text[got.size] = 0;
  return 0;
}

static const char *json_of(const char *text) {
  struct uvs__json j;

  memset(&got, 0, sizeof got);
  uvs__json_init(&j, collect, NULL);
  uvs__json_string(&j, NULL, text);
  uvs__json_end(&j);
  return got.text;
}

TEST commas_and_brackets_are_json(void) {
  struct uvs__json j;

  memset(&got, 0, sizeof got);
  uvs__json_init(&j, collect, NULL);
  uvs__json_open(&j, NULL, '{');
  uvs__json_open(&j, "empty", '[');
  uvs__json_close(&j, ']');
  uvs__json_open(&j, "a", '[');
  uvs__json_int(&j, NULL, INT64_MIN);
  uvs__json_uint(&j, NULL, UINT64_MAX);
  uvs__json_open(&j, NULL, '{');
  uvs__json_close(&j, '}');
  uvs__json_close(&j, ']');
  uvs__json_bool(&j, "b", true);
  uvs__json_ns(&j, "never", UVS_NEVER);
  uvs__json_id(&j, "id", UINT64_C(9007199254740993));
  uvs__json_id(&j, "none", 0);
  uvs__json_close(&j, '}');
  ASSERT_EQ(0, uvs__json_end(&j));
  ASSERT_STR_EQ("{\"empty\":[],\"a\":[-9223372036854775808,18446744073709551615,{}],\"b\":true,"
                "\"never\":null,\"id\":\"9007199254740993\",\"none\":null}",
                got.text);
  PASS();
}

/* C7 */
TEST no_text_can_leave_its_string_or_become_markup(void) {
  ASSERT_STR_EQ("\"a\\u0022\\u005cb\"", json_of("a\"\\b"));
  ASSERT_STR_EQ("\"\\u003c/script\\u003e\\u0026\\u0027\"", json_of("</script>&'"));
  ASSERT_STR_EQ("\"\\u000a\\u000d\\u0001\\u007f\"", json_of("\n\r\x01\x7f"));
  ASSERT_STR_EQ("\"\\u2028\\u2029\xe2\x80\xa7\"", json_of("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7"));
  PASS();
}

/* C7 */
TEST bytes_that_are_not_utf8_become_replacement_characters(void) {
  static const char *const good[] = {"\xc2\x80",        "\xdf\xbf",     "\xe0\xa0\x80",
                                     "\xed\x9f\xbf",    "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                                     "\xf4\x8f\xbf\xbf"};
  static const char *const bad[] = {"\x80",
                                    "\xbf",
                                    "\xc0\xaf",
                                    "\xc1\xbf",
                                    "\xe0\x9f\xbf",
                                    "\xed\xa0\x80",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xff"};
  char text[64];

  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    snprintf(text, sizeof text, "\"%s\"", good[i]);
    ASSERT_STR_EQ(text, json_of(good[i]));
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    json_of(bad[i]);
    ASSERT_EQ_FMT(2 + 6 * strlen(bad[i]), strlen(got.text), "%zu"); /* one for each byte */
    ASSERT(strstr(got.text, "\\ufffd") != NULL);
  }
  ASSERT_STR_EQ("\"\\ufffd\\ufffd\"", json_of("\xe2\x82")); /* cut off */
  ASSERT_STR_EQ("\"\\ufffd(\"", json_of("\xc3("));
  PASS();
}

TEST long_texts_come_in_pieces_and_a_refusal_ends_the_writing(void) {
  char text[5000];
  struct uvs__json j;

  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  json_of(text);
  ASSERT_EQ_FMT(sizeof text + 1, got.size, "%zu");
  ASSERT(got.pieces > 1);
  memset(&got, 0, sizeof got);
  got.refuse_at = 2;
  uvs__json_init(&j, collect, NULL);
  uvs__json_string(&j, NULL, text);
  ASSERT_EQ(77, uvs__json_end(&j));
  ASSERT_EQ(2, got.pieces);
  PASS();
}

/* ---- targets ---- */

TEST parameters_are_decoded_and_checked(void) {
  static const char *const words[] = {"any", "dead", NULL};
  char text[8];
  uint64_t n = 5;
  int word = 0;

  ASSERT(uvs__query_path_is("/a?x=1", "/a"));
  ASSERT(!uvs__query_path_is("/ab", "/a"));
  ASSERT(!uvs__query_path_is("/a/", "/a"));
  ASSERT_EQ(3, uvs__query_text("/?xy=1&x=a%20b&x=c", "x", text, sizeof text));
  ASSERT_STR_EQ("a b", text);
  ASSERT_EQ(2, uvs__query_text("/?x=%C3%a9", "x", text, sizeof text));
  ASSERT_STR_EQ("\xc3\xa9", text);
  ASSERT_EQ(0, uvs__query_text("/?x=&y", "x", text, sizeof text));
  ASSERT_EQ(UV_ENOENT, uvs__query_text("/?xx=1&y", "x", text, sizeof text));
  ASSERT_EQ(UV_ENOENT, uvs__query_text("/", "x", text, sizeof text));
  ASSERT_EQ(7, uvs__query_text("/?x=1234567", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=12345678", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=%", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=%4", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=%4g", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=%00", "x", text, sizeof text));
  ASSERT_EQ(UV_EINVAL, uvs__query_text("/?x=%4&y=1", "x", text, sizeof text));
  ASSERT_EQ(0, uvs__query_uint("/?n=10", "n", 1, 10, &n));
  ASSERT_EQ(10, (int)n);
  ASSERT_EQ(0, uvs__query_uint("/?m=10", "n", 1, 10, &n));
  ASSERT_EQ(UV_EINVAL, uvs__query_uint("/?n=11", "n", 1, 10, &n));
  ASSERT_EQ(UV_EINVAL, uvs__query_uint("/?n=-1", "n", 0, 10, &n));
  ASSERT_EQ(UV_EINVAL, uvs__query_uint("/?n=", "n", 0, 10, &n));
  ASSERT_EQ(UV_EINVAL, uvs__query_uint("/?n=18446744073709551616", "n", 0, UINT64_MAX, &n));
  ASSERT_EQ(0, uvs__query_uint("/?n=18446744073709551615", "n", 0, UINT64_MAX, &n));
  ASSERT(n == UINT64_MAX);
  ASSERT_EQ(0, uvs__query_word("/?w=dead", "w", words, &word));
  ASSERT_EQ(1, word);
  ASSERT_EQ(UV_EINVAL, uvs__query_word("/?w=deadx", "w", words, &word));
  PASS();
}

/* ---- which requests are refused ---- */

static struct uvs__guard guard(const char *address, bool loopback, bool any) {
  struct uvs__guard g = {.loopback = loopback, .any_address = any};

  snprintf(g.address, sizeof g.address, "%s", address);
  return g;
}

/* C4 */
TEST only_our_own_names_are_hosts(void) {
  static const char *const good[] = {"127.0.0.1",   "127.0.0.1:7788", "localhost",
                                     "LOCALHOST:1", "[::1]:65535",    "[::1]"};
  static const char *const bad[] = {"",
                                    "evil.example",
                                    "localhost.evil.example",
                                    "127.0.0.1.evil.example",
                                    "localhost:",
                                    "localhost:x",
                                    "localhost:123456",
                                    "localhost:80:80",
                                    "127.0.0.2",
                                    "[::1",
                                    "[::1]x",
                                    "[::2]",
                                    "0",
                                    "evil@localhost",
                                    "localhost/",
                                    " localhost",
                                    "[::1]:",
                                    "2130706433",
                                    "0x7f.1",
                                    "[]",
                                    "proxy.example.evil"};
  struct uvs__guard g = guard("127.0.0.1", true, false);
  char hosts[] = "a.example,proxy.example";

  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
    ASSERTm(good[i], uvs__guard_host(&g, good[i]));
  g.hosts = hosts;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ASSERTm(bad[i], !uvs__guard_host(&g, bad[i]));
  ASSERT(uvs__guard_host(&g, "Proxy.example:443"));
  ASSERT(uvs__guard_host(&g, "a.example"));
  g = guard("192.0.2.1", false, false);
  ASSERT(uvs__guard_host(&g, "192.0.2.1:80"));
  ASSERT(!uvs__guard_host(&g, "localhost"));
  ASSERT(!uvs__guard_host(&g, "192.0.2.2"));
  g = guard("0.0.0.0", false, true);
  ASSERT(uvs__guard_host(&g, "192.0.2.2:80"));
  ASSERT(uvs__guard_host(&g, "[2001:db8::1]"));
  ASSERT(!uvs__guard_host(&g, "evil.example"));
  ASSERT(!uvs__guard_host(&g, "1.2.3.4.example"));
  PASS();
}

/* C5 */
TEST pages_of_other_sites_are_refused(void) {
  const char *h = "127.0.0.1:7788";

  ASSERT(uvs__guard_site(h, NULL, NULL, NULL, false)); /* curl */
  ASSERT(uvs__guard_site(h, "http://127.0.0.1:7788", "same-origin", "cors", false));
  ASSERT(uvs__guard_site(h, NULL, "none", "navigate", true));
  ASSERT(uvs__guard_site(h, NULL, "cross-site", "navigate", true)); /* a link to "/" */
  ASSERT(uvs__guard_site("proxy.example", "https://proxy.example", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, "http://evil.example", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, "http://evil.example", NULL, "navigate", true));
  ASSERT(!uvs__guard_site(h, "null", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, "", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, "http://127.0.0.1:7789", NULL, NULL, false)); /* another port */
  ASSERT(!uvs__guard_site(h, "http://127.0.0.1:7788.evil.example", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, "ftp://127.0.0.1:7788", NULL, NULL, false));
  ASSERT(!uvs__guard_site(h, NULL, "cross-site", "no-cors", false));
  ASSERT(!uvs__guard_site(h, NULL, "cross-site", "no-cors", true));
  ASSERT(!uvs__guard_site(h, NULL, "same-site", "cors", false));      /* another port of the host */
  ASSERT(!uvs__guard_site(h, NULL, "cross-site", "navigate", false)); /* a link to data */
  PASS();
}

/* C6 */
TEST only_the_whole_token_is_the_token(void) {
  char token[] = "0123456789abcdef";
  struct uvs__guard g = guard("127.0.0.1", true, false);

  ASSERT(!uvs__guard_token(&g, "Bearer ")); /* there is none */
  g.token = token;
  ASSERT(uvs__guard_token(&g, "Bearer 0123456789abcdef"));
  ASSERT(uvs__guard_token(&g, "bearer 0123456789abcdef"));
  ASSERT(!uvs__guard_token(&g, NULL));
  ASSERT(!uvs__guard_token(&g, ""));
  ASSERT(!uvs__guard_token(&g, "Bearer "));
  ASSERT(!uvs__guard_token(&g, "Bearer 0123456789abcdeF"));
  ASSERT(!uvs__guard_token(&g, "Bearer 0123456789abcde"));
  ASSERT(!uvs__guard_token(&g, "Bearer 0123456789abcdef0"));
  ASSERT(!uvs__guard_token(&g, "Basic 0123456789abcdef"));
  ASSERT(!uvs__guard_token(&g, "0123456789abcdef"));
  ASSERT(uvs__guard_is_token(token));
  ASSERT(!uvs__guard_is_token("0123456789abcde"));
  ASSERT(!uvs__guard_is_token("0123456789 abcdef"));
  ASSERT(!uvs__guard_is_token("0123456789\xc3\xa9"
                              "abcdef"));
  PASS();
}

SUITE(console_text) {
  RUN_TEST(commas_and_brackets_are_json);
  RUN_TEST(no_text_can_leave_its_string_or_become_markup);
  RUN_TEST(bytes_that_are_not_utf8_become_replacement_characters);
  RUN_TEST(long_texts_come_in_pieces_and_a_refusal_ends_the_writing);
  RUN_TEST(parameters_are_decoded_and_checked);
  RUN_TEST(only_our_own_names_are_hosts);
  RUN_TEST(pages_of_other_sites_are_refused);
  RUN_TEST(only_the_whole_token_is_the_token);
}

TEST_MAIN(RUN_SUITE(console_text));
