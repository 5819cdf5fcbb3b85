/* test_pass_overlap.c: the pass overlap: what does not need a collective's result runs between its
 * start and its wait. */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "passes.h"

#define FUNCTION(name)                                                                             \
    static weft_status name(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,                  \
                            weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED,                      \
                            void *state CK_ATTRIBUTE_UNUSED)

/* Two gathers, and products that need one of them, or none. */
FUNCTION(gathers_and_products)
{
    weft_tensor *z = weft_mul(in[0], in[0]);
    weft_tensor *x = wt_to(in[0], "R");
    weft_tensor *a = weft_matmul(in[2], in[3]);
    weft_tensor *y = wt_to(in[1], "R");
    weft_tensor *b = weft_matmul(x, a);

    out[0] = weft_matmul(b, y);
    out[1] = wt_to(z, "R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

/* Line of the first / last node with this word. */
static int line_of(const weft_compiled *compiled, const char *word, bool last)
{
    char *text = NULL, *next;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int n = 0, found = -1;

    weft_compiled_print(compiled, true, out);
    fclose(out);
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next), n++) {
        if (strstr(line, ", backward")) break;
        if (strstr(line, word) && (last || found < 0)) found = n;
    }
    free(text);
    return found;
}

WT_TEST_TIMES_IN_WORLD(kernels__run_between_start_and_wait, w, i, 4)
{
    struct pass_case c = {.function = gathers_and_products,
                          .n_in = 4,
                          .n_out = 2,
                          .rows = {8 + i, 8 + i, 8 + i, 8 + i},
                          .columns = {8 + i, 8 + i, 8 + i, 8 + i},
                          .placements = {"S(0)", "S(0)", "R", "R"},
                          .gradients = i % 2 == 1};
    weft_compiled *with = given_compiled(w, &c, NULL), *without = given_compiled(w, &c, "overlap");

    if (weft_world_size() == 1) return;
    WT_ALL(line_of(without, "wait(", false) < line_of(without, "matmul(", false));
    WT_ALL(line_of(with, "wait(", false) > line_of(with, "matmul(", false));
    WT_ALL(line_of(with, "start ", true) < line_of(with, "matmul(", true));
}

/* The source is written after the collective began: the wait comes first. */
FUNCTION(source_is_written)
{
    weft_tensor *x = wt_to(in[0], "R");

    if (!weft_add_(in[0], in[1])) return weft_error_status();
    out[0] = weft_matmul(x, x);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(writes_to_what_is_sent__come_after_the_wait, w)
{
    struct pass_case c = {.function = source_is_written,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {8, 8},
                          .columns = {8, 8},
                          .placements = {"S(0)", "S(0)"}};
    weft_compiled *with = given_compiled(w, &c, NULL);

    if (weft_world_size() > 1)
        WT_ALL(line_of(with, "wait(", false) < line_of(with, "<- add(", false));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_overlap"); }
