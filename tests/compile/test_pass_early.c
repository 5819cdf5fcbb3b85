/* test_pass_early.c: the pass early: what is communicated starts where it has been made. */
#include <stdlib.h>
#include <string.h>

#include "as_immediate.h"
#include "passes.h"
#include "texts.h"

static const int rows[] = {0};

/* A sum over rows that are spread, a product, and only then the sum is reduced. */
FUNCTION(sum_then_product)
{
    weft_tensor *sum = weft_sum(weft_mul(in[0], in[0]), rows, 1, false);

    out[1] = weft_matmul(in[1], in[2]);
    out[0] = wt_to(sum, "R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

FUNCTION(view_then_product)
{
    weft_tensor *sum = weft_sum(weft_mul(in[0], in[0]), rows, 1, true);

    sum = weft_transpose(sum, 0, 1);
    out[1] = weft_matmul(in[1], in[2]);
    out[0] = wt_to(sum, "R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

FUNCTION(written_then_product)
{
    weft_tensor *sum = weft_sum(weft_mul(in[0], in[0]), rows, 1, false);

    out[1] = weft_matmul(in[1], in[2]);
    if (weft_add_(sum, sum) == NULL) return weft_error_status();
    out[0] = wt_to(sum, "R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

/* The move stands before the product, as the list is read. */
static bool moves_first(const weft_compiled *compiled)
{
    char text[4000] = {0};
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    const char *move, *product;

    weft_compiled_print(compiled, false, out);
    fclose(out);
    move = strstr(text, "redistribute(");
    product = strstr(text, "matmul(");
    wt_note("%s", text);
    WT_ALL(move && product);
    return move < product;
}

WT_TEST_TIMES_IN_WORLD(sum__starts_its_way_before_the_product, w, i, 3)
{
    static weft_compiled_function *const functions[] = {sum_then_product, view_then_product,
                                                        written_then_product};
    struct pass_case c = {.function = functions[i],
                          .dtype = WEFT_F32,
                          .n_in = 3,
                          .n_out = 2,
                          .rows = {9, 8, 6},
                          .columns = {5, 6, 7},
                          .placements = {"S(0)", "S(0)", "R"}};

    WT_EQ(moves_first(given_compiled(w, &c, NULL)), i == 0 && wt_ranks() > 1);
    WT_ALL(!moves_first(given_compiled(w, &c, "early")));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_early"); }
