/* test_printable.c: what examples print of a model's bytes never upsets a terminal. */
#include <check.h>
#include <string.h>

#include "common/printable.h"
#include "support/mpi_check.h"

/* The bytes as they are shown, written in pieces of `step`. */
static const char *shown(const char *bytes, size_t count, size_t step)
{
    static char text[256];
    struct printable p = {.out = fmemopen(text, sizeof text, "w")};

    for (size_t i = 0; i < count; i += step)
        printable_write(&p, bytes + i, step < count - i ? step : count - i);
    printable_end(&p);
    fclose(p.out);
    return text;
}

#define SHOWN(bytes, wanted)                                                                       \
    for (size_t step_ = 1; step_ < sizeof(bytes) + 1; step_++)                                     \
    ck_assert_str_eq(shown(bytes, sizeof(bytes) - 1, step_), wanted)

/* trial 4.9 */
WT_UNIT(printable__text_is_unchanged)
{
    SHOWN("a\tb\n", "a\tb\n");
    SHOWN("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80.", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80.");
    SHOWN("\xc2\xa0\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf",
          "\xc2\xa0\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf");
}

WT_UNIT(printable__control_characters_are_not_sent)
{
    SHOWN("\x1b[2J\r\b\x7f\0.", "?[2J????.");
    SHOWN("\xc2\x9b"
          "2J",
          "?2J"); /* the same as ESC [ on some terminals */
}

WT_UNIT(printable__bytes_that_are_no_characters_are_not_sent)
{
    SHOWN("\xff\xfe\x80.", "???.");
    SHOWN("\xe2\x82.", "?.");               /* incomplete */
    SHOWN("\xe2\x82\xc3\xa9", "?\xc3\xa9"); /* and another begins */
    SHOWN("a\xf0\x9f", "a?");
    SHOWN("\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", "????"); /* longer than they need to be */
    SHOWN("\xed\xa0\x80\xf4\x90\x80\x80", "??");
}

int main(void) { return wt_unit_main("printable"); }
