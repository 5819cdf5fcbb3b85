/* state_value.c: things that are no tensors, as text and back. Reals are written in base 16, which
 * keeps every bit, as whole numbers times powers of two: a decimal point is another character
 * elsewhere. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint/state.h"

static char *bytes_to_hex_text(const unsigned char *bytes, size_t count)
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

static char *format_real(double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);

    if (!isfinite(value)) return wf_format("real %a", value);
    return wf_format("real %s0x%llxp%d", signbit(value) ? "-" : "",
                     (unsigned long long)ldexp(fabs(fraction), DBL_MANT_DIG),
                     exponent - DBL_MANT_DIG);
}

char *wf_state_value_text(const struct wf_state_item *item)
{
    unsigned char state[WEFT_GENERATOR_BYTES];

    switch (item->kind) {
    case WF_STATE_INT:
        return wf_format("int %lld", (long long)*(const int64_t *)item->where);
    case WF_STATE_REAL:
        return format_real(*(const double *)item->where);
    case WF_STATE_OPTIM_STEPS:
        return wf_format("int %lld", (long long)weft_optim_step_count(item->where));
    case WF_STATE_OPTIM_LR:
        return format_real(weft_optim_lr(item->where));
    case WF_STATE_OPTIM_UPDATES:
        return wf_format("int %lld", (long long)weft_optim_update_count(item->where, item->tensor));
    case WF_STATE_GENERATOR:
        weft_generator_state(item->where, state);
        return bytes_to_hex_text(state, sizeof state);
    default:
        return bytes_to_hex_text(item->where, item->bytes);
    }
}

static bool parse_int(const char *text, int64_t *value)
{
    char *end;

    if (strncmp(text, "int ", 4) != 0) return false;
    errno = 0;
    *value = strtoll(text + 4, &end, 10);
    return errno == 0 && end != text + 4 && *end == '\0';
}

static bool parse_real(const char *text, double *value)
{
    char *end;

    if (strncmp(text, "real ", 5) != 0) return false;
    *value = strtod(text + 5, &end);
    return end != text + 5 && *end == '\0';
}

static int hex_digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* With `bytes` NULL it is only checked. */
static bool parse_hex_bytes(const char *text, unsigned char *bytes, size_t count)
{
    if (strncmp(text, "bytes ", 6) != 0 || strlen(text) != 6 + 2 * count) return false;
    for (size_t i = 0; i < count; i++) {
        int high = hex_digit_value(text[6 + 2 * i]), low = hex_digit_value(text[7 + 2 * i]);

        if (high < 0 || low < 0) return false;
        if (bytes) bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool store_int_value(const struct wf_state_item *item, int64_t value)
{
    if (item->kind == WF_STATE_INT) {
        *(int64_t *)item->where = value;
        return true;
    }
    if (item->kind == WF_STATE_OPTIM_STEPS)
        return weft_optim_set_step_count(item->where, value) == WEFT_OK;
    return weft_optim_set_update_count(item->where, item->tensor, value) == WEFT_OK;
}

bool wf_state_value_parse(const struct wf_state_item *item, const char *text, bool put)
{
    unsigned char state[WEFT_GENERATOR_BYTES];
    int64_t whole;
    double real;

    switch (item->kind) {
    case WF_STATE_INT:
        return parse_int(text, &whole) && (!put || store_int_value(item, whole));
    case WF_STATE_OPTIM_STEPS:
    case WF_STATE_OPTIM_UPDATES:
        return parse_int(text, &whole) && whole >= 0 && (!put || store_int_value(item, whole));
    case WF_STATE_REAL:
        if (!parse_real(text, &real)) return false;
        if (put) *(double *)item->where = real;
        return true;
    case WF_STATE_OPTIM_LR:
        if (!parse_real(text, &real)) return false;
        if (put) weft_optim_set_lr(item->where, real);
        return true;
    case WF_STATE_GENERATOR:
        return parse_hex_bytes(text, state, sizeof state) &&
               (!put || weft_generator_set_state(item->where, state) == WEFT_OK);
    default:
        return parse_hex_bytes(text, put ? item->where : NULL, item->bytes);
    }
}
