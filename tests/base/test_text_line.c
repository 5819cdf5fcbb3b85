/* test_text_line.c: text put together piece by piece: what fits, what is counted. */
#include <string.h>

#include "base/text/text_line.h"
#include "support/mpi_check.h"

static int put(char *text, size_t bytes)
{
    struct wf_text_line line = wf_text_line_begin(text, bytes);

    wf_text_line_append(&line, "%s", "ab");
    wf_text_line_append(&line, "%s", "");
    wf_text_line_append(&line, "%d%c", 12, '!');
    return line.length;
}

WT_UNIT(text_line__is_cut_where_there_is_no_room)
{
    static const char whole[] = "ab12!";

    for (size_t bytes = 1; bytes < 8; bytes++) {
        char text[9] = "########", want[9] = "########";
        size_t fits = bytes - 1 < strlen(whole) ? bytes - 1 : strlen(whole);

        memcpy(want, whole, fits);
        want[fits] = '\0';
        ck_assert_int_eq(put(text, bytes), (int)strlen(whole));
        ck_assert_mem_eq(text, want, sizeof text);
    }
}

WT_UNIT(text_line__without_room_is_counted)
{
    char text[] = "#";

    ck_assert_int_eq(put(text, 0), 5);
    ck_assert_str_eq(text, "#");
    ck_assert_int_eq(put(NULL, 0), 5);
    ck_assert_int_eq(put(NULL, 10), 5);
}

WT_UNIT(text_line__is_empty_before_the_first_piece)
{
    char text[] = "#";

    ck_assert_int_eq(wf_text_line_begin(text, sizeof text).length, 0);
    ck_assert_str_eq(text, "");
}

int main(void) { return wt_unit_main("text_line"); }
