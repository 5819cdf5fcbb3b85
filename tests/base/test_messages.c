/* test_messages.c: what a failure says is one line that a terminal can show, whatever a file or a
 * user put into it. */
#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "support/mpi_check.h"

static const struct {
    const char *text, *shown;
} cases[] = {
    {"plain \"text\" \\ caf\xc3\xa9 \xf0\x9f\x98\x80",
     "plain \"text\" \\ caf\xc3\xa9 \xf0\x9f\x98\x80"},
    {"\xe2\x82\xac", "\xe2\x82\xac"}, /* of three bytes */
    {"a\nb\tc\r", "a\\nb\\tc\\r"},
    {"\x1b[31mred\x07\x7f", "\\x1b[31mred\\x07\\x7f"},
    {"\xc2\x9b"
     "31m \xc2\xa0",
     "\\xc2\\x9b31m \xc2\xa0"}, /* a control sequence in one character */
    {"\xff\xc3", "\\xff\\xc3"},
    {"", ""},
};

/* trial 3 */
WT_UNIT_TIMES(message__shows_control_characters_as_text, (int)(sizeof cases / sizeof *cases))
{
    char out[64];

    ck_assert_str_eq(wf_utf8_escape_control(out, sizeof out, cases[_i].text), cases[_i].shown);
    weft_error_clear();
    WF_FAIL(WEFT_ERR_IO, "file %s", cases[_i].text);
    ck_assert_msg(strncmp(weft_error_message() + 5, cases[_i].shown, strlen(cases[_i].shown)) == 0,
                  "%s", weft_error_message());
    weft_error_clear();
}

/* A cut leaves whole characters and whole escapes. */
WT_UNIT(message__is_cut_between_characters)
{
    char out[8];

    for (size_t room = 1; room <= sizeof out; room++) {
        wf_utf8_escape_control(out, room, "a\xc3\xa9\n\xf0\x9f\x98\x80");
        ck_assert_str_eq(out, room < 2   ? ""
                              : room < 4 ? "a"
                              : room < 6 ? "a\xc3\xa9"
                                         : "a\xc3\xa9\\n");
    }
}

/* However long the cause is, the place in the source stands behind it. */
WT_UNIT(message__ends_with_its_place)
{
    char text[2000];

    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    weft_error_clear();
    WF_FAIL(WEFT_ERR_IO, "%s", text);
    ck_assert(strstr(weft_error_message(), "test_messages.c:") != NULL);
    weft_error_clear();
}

int main(void) { return wt_unit_main("messages"); }
