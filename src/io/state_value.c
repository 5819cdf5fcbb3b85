/* state_value.c: things that are no tensors, as text and back. Reals are written in base 16, which
 * keeps every bit, as whole numbers times powers of two: a decimal point is another character
 * elsewhere. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/state.h"

static char *hex(const unsigned char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    char *text = wf_malloc(2 * count + 7);

    memcpy(text, "bytes ", 6);
    for (size_t i = 0; i < count; i++) {
        text[6 + 2 * i] = digits[bytes[i] >> 4];
        text[7 + 2 * i] = digits[bytes[i] & 15];
    }
    text[6 + 2 * count] = '\0';
    return text;
}

static char *real_text(double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);

    if (!isfinite(value)) return wf_format("real %a", value);
    return wf_format("real %s0x%llxp%d", signbit(value) ? "-" : "",
                     (unsigned long long)ldexp(fabs(fraction), DBL_MANT_DIG),
                     exponent - DBL_MANT_DIG);
}

char *wf_value_text(const struct wf_item *item)
{
    unsigned char state[WEFT_GENERATOR_BYTES];

    switch (item->thing) {
    case WF_THING_INT:
        return wf_format("int %lld", (long long)*(const int64_t *)item->where);
    case WF_THING_REAL:
        return real_text(*(const double *)item->where);
    case WF_THING_STEPS:
        return wf_format("int %lld", (long long)weft_optim_steps(item->where));
    case WF_THING_RATE:
        return real_text(weft_optim_lr(item->where));
    case WF_THING_UPDATES:
        return wf_format("int %lld", (long long)weft_optim_updates(item->where, item->tensor));
    case WF_THING_GENERATOR:
        weft_generator_state(item->where, state);
        return hex(state, sizeof state);
    default:
        return hex(item->where, item->bytes);
    }
}

static bool read_int(const char *text, int64_t *value)
{
    char *end;

    if (strncmp(text, "int ", 4) != 0) return false;
    errno = 0;
    *value = strtoll(text + 4, &end, 10);
    return errno == 0 && end != text + 4 && *end == '\0';
}

static bool read_real(const char *text, double *value)
{
    char *end;

    if (strncmp(text, "real ", 5) != 0) return false;
    *value = strtod(text + 5, &end);
    return end != text + 5 && *end == '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* With `bytes` NULL it is only checked. */
static bool read_bytes(const char *text, unsigned char *bytes, size_t count)
{
    if (strncmp(text, "bytes ", 6) != 0 || strlen(text) != 6 + 2 * count) return false;
    for (size_t i = 0; i < count; i++) {
        int high = digit(text[6 + 2 * i]), low = digit(text[7 + 2 * i]);

        if (high < 0 || low < 0) return false;
        if (bytes) bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool put_int(const struct wf_item *item, int64_t value)
{
    if (item->thing == WF_THING_INT) {
        *(int64_t *)item->where = value;
        return true;
    }
    if (item->thing == WF_THING_STEPS) return weft_optim_set_steps(item->where, value) == WEFT_OK;
    return weft_optim_set_updates(item->where, item->tensor, value) == WEFT_OK;
}

bool wf_value_read(const struct wf_item *item, const char *text, bool put)
{
    unsigned char state[WEFT_GENERATOR_BYTES];
    int64_t whole;
    double real;

    switch (item->thing) {
    case WF_THING_INT:
        return read_int(text, &whole) && (!put || put_int(item, whole));
    case WF_THING_STEPS:
    case WF_THING_UPDATES:
        return read_int(text, &whole) && whole >= 0 && (!put || put_int(item, whole));
    case WF_THING_REAL:
        if (!read_real(text, &real)) return false;
        if (put) *(double *)item->where = real;
        return true;
    case WF_THING_RATE:
        if (!read_real(text, &real)) return false;
        if (put) weft_optim_set_lr(item->where, real);
        return true;
    case WF_THING_GENERATOR:
        return read_bytes(text, state, sizeof state) &&
               (!put || weft_generator_set_state(item->where, state) == WEFT_OK);
    default:
        return read_bytes(text, put ? item->where : NULL, item->bytes);
    }
}
