/* test_safetensors.c: every breach of the format has a sentence of its own, and no bytes whatever
 * bring the reader down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "support/mpi_check.h"

static char problem[1024];

static weft_status parse(const void *bytes, size_t size)
{
    struct wf_safetensors file;
    weft_status status = wf_safetensors_parse(&file, "x.safetensors", bytes, size);

    snprintf(problem, sizeof problem, "%s", weft_error_message());
    weft_error_clear();
    if (status == WEFT_OK) wf_safetensors_close(&file);
    return status;
}

/* A file of this header and `data` bytes of data; the caller frees. */
static unsigned char *file_of(const char *header, size_t length, size_t data, size_t *size)
{
    unsigned char *bytes;

    *size = 8 + length + data;
    bytes = calloc(1, *size + 1);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> 8 * i);
    memcpy(bytes + 8, header, length);
    return bytes;
}

static weft_status parse_header(const char *header, size_t data)
{
    size_t size;
    unsigned char *bytes = file_of(header, strlen(header), data, &size);
    weft_status status = parse(bytes, size);

    free(bytes);
    return status;
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data;
} good[] = {
    {"{}", 0},
    {"{}   ", 0},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 8},
    {"{\"a\":" T("F32", "[]", "[0,4]") "}", 4},
    {"{\"a\":" T("F32", "[0,7]", "[0,0]") "}", 0},
    {"{\"a\":" T("F32", "[1099511627776,0,1099511627776]", "[0,0]") "}", 0},
    {"{\"a\":" T("F4", "[2]", "[0,1]") "}", 1},
    {"{\"b\":" T("U8", "[1]", "[1,2]") ",\"a\":" T("U8", "[1]", "[0,1]") "}", 2},
    {"{\"a\":" T("U8", "[0]", "[0,0]") ",\"b\":" T("U8", "[0]", "[0,0]") "}", 0},
    {"{\"__metadata__\":{\"k\":\"v\\u00e9\\ud83d\\ude00\"},\"a\":" T("I64", "[1]", "[0,8]") "}", 8},
    {"{\"a\":{\"dtype\":\"U8\",\"later\":[{\"x\":null}],\"shape\":[],\"data_offsets\":[0,1]}}", 1},
};

WT_UNIT_TIMES(safetensors__what_the_format_allows_is_read, sizeof good / sizeof good[0])
{
    ck_assert_msg(parse_header(good[_i].header, good[_i].data) == WEFT_OK, "%s: %s",
                  good[_i].header, problem);
}

static const struct {
    const char *header;
    size_t data;
    const char *says; /* each its own */
} bad[] = {
    {"", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {"{} x", 0, "something follows"},
    {"{}{}", 0, "something follows"},
    {"{", 0, "a key is missing"},
    {"{\"a\"", 0, "':' is missing"},
    {"{\"a\":", 0, "no value where an object"},
    {"{\"a\":{}", 0, "no dtype"},
    {"{\"a\":{},}", 0, "no dtype"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",}", 1, "a key is missing"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") " \"b\"}", 1, "'}' is missing"},
    {"{\"a\":[]}", 0, "an array where an object"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "stands twice"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[1,2]") "}", 2,
     "\"a\" stands twice"},
    {"{\"\\ud83d\\ude00\":" T("U8", "[1]", "[0,1]") ",\"\xf0\x9f\x98\x80\":" T("U8", "[1]",
                                                                               "[1,2]") "}",
     2, "stands twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "\"dtype\" stands twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "\"k\" stands twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" stands twice"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "a number where a string"},
    {"{\"__metadata__\":{\"k\":null}}", 0, "null where a string"},
    {"{\"__metadata__\":[]}", 0, "an array where an object"},
    {"{\"__metadata__\":{\"k\":{\"k\":\"v\"}}}", 0, "an object where a string"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "no shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "no data_offsets"},
    {"{\"a\":" T("u8", "[1]", "[0,1]") "}", 1, "unknown dtype \"u8\""},
    {"{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "a number where a string"},
    {"{\"a\":" T("U8", "1", "[0,1]") "}", 1, "a number where an array"},
    {"{\"a\":" T("U8", "[-1]", "[0,1]") "}", 1, "size -1"},
    {"{\"a\":" T("U8", "[1.0]", "[0,1]") "}", 1, "1.0 is no integer"},
    {"{\"a\":" T("U8", "[1e0]", "[0,1]") "}", 1, "1e0 is no integer"},
    {"{\"a\":" T("U8", "[\"1\"]", "[0,1]") "}", 1, "a string where a number"},
    {"{\"a\":" T("U8", "[NaN]", "[0,1]") "}", 1, "no value where a number"},
    {"{\"a\":" T("U8", "[01]", "[0,1]") "}", 1, "malformed number"},
    {"{\"a\":" T("U8", "[+1]", "[0,1]") "}", 1, "no value where a number"},
    {"{\"a\":" T("U8", "[1,]", "[0,1]") "}", 1, "no value where a number"},
    {"{\"a\":" T("U8", "[true]", "[0,1]") "}", 1, "true where a number"},
    {"{\"a\":" T("U8", "[null]", "[0,1]") "}", 1, "null where a number"},
    {"{\"a\":" T("U8", "[99999999999999999999]", "[0,1]") "}", 1, "does not fit 64 bits"},
    {"{\"a\":" T("U8", "[1099511627776,1099511627776]", "[0,1]") "}", 1,
     "more elements than can be counted"},
    {"{\"a\":" T("F64", "[2305843009213693952]", "[0,0]") "}", 0,
     "more elements than can be counted"},
    {"{\"a\":" T("U8", "[1]", "[\"0\",\"1\"]") "}", 1, "a string where a number"},
    {"{\"a\":" T("U8", "[1]", "[0.0,1.0]") "}", 1, "0.0 is no integer"},
    {"{\"a\":" T("U8", "[1]", "[-1,0]") "}", 1, "data offset -1"},
    {"{\"a\":" T("U8", "[1]", "[0]") "}", 1, "fewer than two data_offsets"},
    {"{\"a\":" T("U8", "[1]", "[]") "}", 1, "fewer than two data_offsets"},
    {"{\"a\":" T("U8", "[1]", "[0,1,2]") "}", 1, "more than two data_offsets"},
    {"{\"a\":" T("U8", "[1]", "[1,0]") "}", 1, "ends at 0, before it begins at 1"},
    {"{\"a\":" T("F32", "[2]", "[0,7]") "}", 7, "take 8 bytes, data_offsets 7"},
    {"{\"a\":" T("U8", "[0]", "[0,1]") "}", 1, "take 0 bytes, data_offsets 1"},
    {"{\"a\":" T("F4", "[1]", "[0,1]") "}", 1, "4 bits are no whole number of bytes"},
    {"{\"a\":" T("F6_E2M3", "[3]", "[0,2]") "}", 2, "18 bits are no whole number of bytes"},
    {"{\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "leave a hole after 0"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("U8", "[1]", "[2,3]") "}", 3,
     "leave a hole after 1"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[1,3]") "}", 3,
     "inside those of 'a'"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2,
     "inside those of 'a'"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") "}", 1, "cut short"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") "}", 3, "1 bytes follow the last tensor"},
    {"{}", 1, "1 bytes follow the last tensor"},
    {"{\"\\u0000\":{}}", 0, "\\u0000"},
    {"{\"a\\u0000b\":{}}", 0, "\\u0000"},
    {"{\"\\ud800\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\ud800\\u0041\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\udc00\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\uzzzz\":{}}", 0, "four hexadecimal digits"},
    {"{\"\\q\":{}}", 0, "unknown escape"},
    {"{\"a\nb\":{}}", 0, "control character"},
    {"{\"a", 0, "a string without end"},
    {"{\"a\\", 0, "unknown escape"},
    {"{\"\xff\":{}}", 0, "not UTF-8"},
    {"{\"\xc0\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xf4\x90\x80\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xe2\x82\":{}}", 0, "not UTF-8"},
    {"{'a':{}}", 0, "a key is missing"},
    {"{\"a\":{}/**/}", 0, "no dtype"},
};

WT_UNIT_TIMES(safetensors__each_breach_has_its_sentence, sizeof bad / sizeof bad[0])
{
    ck_assert_msg(parse_header(bad[_i].header, bad[_i].data) == WEFT_ERR_IO, "read: %s",
                  bad[_i].header);
    ck_assert_msg(strstr(problem, bad[_i].says), "%s: %s, not %s", bad[_i].header, problem,
                  bad[_i].says);
    ck_assert_msg(strstr(problem, "x.safetensors"), "no file in: %s", problem);
}

WT_UNIT(safetensors__a_message_names_the_tensor)
{
    ck_assert_int_eq(parse_header("{\"blocks.0.up\":" T("U8", "[1.5]", "[0,1]") "}", 1),
                     WEFT_ERR_IO);
    ck_assert_msg(strstr(problem, "tensor 'blocks.0.up'"), "%s", problem);
    ck_assert_int_eq(parse_header("{\"blocks.1.up\":" T("U8", "[1]", "[1,2]") "}", 2), WEFT_ERR_IO);
    ck_assert_msg(strstr(problem, "tensor 'blocks.1.up'"), "%s", problem);
}

/* The eight bytes of length, whatever they say. */
WT_UNIT(safetensors__the_length_is_checked_before_it_is_used)
{
    static const struct {
        unsigned char bytes[10];
        size_t size;
        const char *says;
    } cases[] = {{{0}, 0, "0 bytes; a safetensors file"},
                 {{2, 0, 0, 0, 0, 0, 0}, 7, "7 bytes; a safetensors file"},
                 {{0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'}, 10, "at most 100000000"},
                 {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, 10, "at most 100000000"},
                 {{1, 0xE1, 0xF5, 5, 0, 0, 0, 0, '{', '}'}, 10, "at most 100000000"},
                 {{0, 0xE1, 0xF5, 5, 0, 0, 0, 0, '{', '}'}, 10, "in a file of 10"},
                 {{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, 10, "a header of 3 bytes in a file of 10"},
                 {{0, 0, 0, 0, 0, 0, 0, 0}, 8, "does not begin with '{'"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(parse(cases[i].bytes, cases[i].size), WEFT_ERR_IO);
        ck_assert_msg(strstr(problem, cases[i].says), "%s, not %s", problem, cases[i].says);
    }
}

/* A parser that recurses without bound would run out of stack. */
WT_UNIT(safetensors__deep_nesting_is_refused)
{
    enum { DEEP = 100000 };
    char *header = malloc(DEEP + 64);
    int at = snprintf(header, 64, "{\"a\":{\"x\":");

    memset(header + at, '[', DEEP);
    header[at + DEEP] = '\0';
    ck_assert_int_eq(parse_header(header, 0), WEFT_ERR_IO);
    ck_assert_msg(strstr(problem, "nested deeper"), "%s", problem);
    for (int i = 0; i < DEEP / 5; i++) memcpy(header + at + 5 * i, "{\"k\":", 5);
    ck_assert_int_eq(parse_header(header, 0), WEFT_ERR_IO);
    ck_assert_msg(strstr(problem, "nested deeper"), "%s", problem);
    free(header);
}

/* Many names for one range: refused, and in no time. */
WT_UNIT(safetensors__many_tensors_with_one_range_are_refused)
{
    enum { MANY = 20000, ROOM = 80 };
    char *header = malloc((size_t)MANY * ROOM);
    size_t at = 1;

    header[0] = '{';
    for (int i = 0; i < MANY; i++)
        at += (size_t)snprintf(header + at, ROOM, "%s\"t%d\":" T("U8", "[8]", "[0,8]"),
                               i ? "," : "", i);
    memcpy(header + at, "}", 2);
    ck_assert_int_eq(parse_header(header, 8), WEFT_ERR_IO);
    ck_assert_msg(strstr(problem, "inside those of"), "%s", problem);
    free(header);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Flipped bits, other bytes, bytes doubled or left out, and cut ends; under ASan nothing may be
 * read outside. Copies are exactly as long as they are said to be. */
WT_UNIT(safetensors__mutated_files_do_no_harm)
{
    uint32_t state = 1;
    int refused = 0;

    for (int round = 0; round < 20000; round++) {
        size_t which = next_random(&state) % (sizeof good / sizeof good[0]), size;
        unsigned char *bytes =
            file_of(good[which].header, strlen(good[which].header), good[which].data, &size);
        unsigned char *copy;

        for (uint32_t flips = 1 + next_random(&state) % 4; flips > 0; flips--) {
            size_t at = next_random(&state) % size;
            uint32_t how = next_random(&state) % 4;

            if (how == 0) bytes[at] ^= (unsigned char)(1u << next_random(&state) % 8);
            if (how == 1) bytes[at] = (unsigned char)next_random(&state);
            if (how == 2) bytes[at] = bytes[next_random(&state) % size];
            if (how == 3 && size > 1) memmove(bytes + at, bytes + at + 1, --size - at);
        }
        copy = malloc(size);
        memcpy(copy, bytes, size);
        refused += parse(copy, size) != WEFT_OK;
        free(copy);
        free(bytes);
    }
    ck_assert_int_gt(refused, 10000);
}

int main(void) { return wt_unit_main("safetensors"); }
