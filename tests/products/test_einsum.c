/*
 * test_einsum.c: einsum and tensordot against loops over all letters, in every pair of layouts,
 * with gradients against those of one device.
 */
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

/* Sizes of the letters a..z, even and uneven. */
static int64_t size_of(char letter, int k)
{
    static const char letters[] = "abcdfkmnxy";
    static const int64_t even[] = {4, 2, 3, 8, 4, 4, 8, 2, 3, 2},
                         uneven[] = {3, 5, 2, 1, 7, 3, 5, 2, 1, 4};
    size_t at = (size_t)(strchr(letters, letter) - letters);

    return k ? uneven[at] : even[at];
}

static weft_tensor *operand(int which, const char *letters, int k)
{
    int64_t shape[WEFT_MAX_DIMS], count = 1;
    int n = (int)strlen(letters);

    for (int d = 0; d < n; d++) count *= shape[d] = size_of(letters[d], k);
    return weft_reshape(wt_whole(WEFT_F64, which, 1, count), shape, n);
}

/* Row-major place of the indices of some letters. */
static int64_t place(const char *term, const int64_t *index, int k)
{
    int64_t at = 0;

    for (; *term; term++) at = at * size_of(*term, k) + index[*term - 'a'];
    return at;
}

static double *loops(const char *a, const char *b, const char *out, double *x, double *y, int k)
{
    int64_t count = 1, all = 1, index[26];
    char letters[32] = "";
    double *result;

    for (const char *c = out; *c; c++) count *= size_of(*c, k);
    result = calloc((size_t)count + 1, 8);
    for (int i = 0; i < 2; i++)
        for (const char *c = i ? b : a; *c; c++)
            if (!strchr(letters, *c)) letters[strlen(letters)] = *c;
    for (const char *c = letters; *c; c++) all *= size_of(*c, k);
    for (int64_t i = 0; i < all; i++) {
        int64_t left = i;

        for (const char *c = letters; *c; c++) {
            index[*c - 'a'] = left % size_of(*c, k);
            left /= size_of(*c, k);
        }
        result[place(out, index, k)] += x[place(a, index, k)] * (y ? y[place(b, index, k)] : 1);
    }
    return result;
}

static const char *const equations[][3] = {
    {"abc", "abc", "abc"},   {"mk", "kn", "mn"},      {"bmk", "bkn", "bmn"}, {"bmk", "kn", "bmn"},
    {"bmk", "k", "bm"},      {"abc", "ab", "abc"},    {"abd", "bf", "abfd"}, {"mk", "mk", ""},
    {"mk", "nk", "nm"},      {"bmkd", "bnkd", "bnm"}, {"abx", "ay", "a"},    {"amk", "kna", "nam"},
    {"mkd", "dkn", "nm"},    {"k", "k", ""},          {"ab", "c", "cab"},    {"bmk", "bk", "bm"},
    {"ambk", "bkn", "bnam"}, {"ab", "ab", "b"},
};

enum { EQUATIONS = sizeof equations / sizeof equations[0] };

static void spell(int n, char *text)
{
    const char *const *e = equations[n];

    strcpy(text, e[0]);
    strcat(strcat(strcat(strcat(text, ","), e[1]), "->"), e[2]);
}

/* Values and gradients of every layout of both operands. */
WT_TEST_TIMES_IN_WORLD(einsum__in_every_layout, w, k, 2 * EQUATIONS)
{
    const char *const *e = equations[k / 2];
    weft_tensor *whole[2] = {operand(0, e[0], k % 2), operand(1, e[1], k % 2)}, *want;
    double *x = wt_values(whole[0]), *y = wt_values(whole[1]);
    double *expected = loops(e[0], e[1], e[2], x, y, k % 2);
    char text[40];

    spell(k / 2, text);
    for (int i = 0; i < 2; i++) weft_set_requires_grad(whole[i], true);
    want = weft_einsum(text, whole, 2);
    WT_ALL(wt_near_full(want, expected, WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    for (int a = -1; a < (int)strlen(e[0]); a++)
        for (int b = -1; b < (int)strlen(e[1]); b++) {
            weft_placement p[2] = {weft_replicate(), weft_replicate()};
            weft_tensor *in[2], *got;

            if (a >= 0) p[0] = weft_shard(a);
            if (b >= 0) p[1] = weft_shard(b);
            wt_note("%s, dims %d and %d", text, a, b);
            for (int i = 0; i < 2; i++)
                in[i] = weft_set_requires_grad(
                    weft_distribute_tensor(weft_detach(whole[i]), w->mesh, &p[i], -1), true);
            got = weft_einsum(text, in, 2);
            WT_ALL(wt_near_full(got, expected, WT_WITHIN(1e-12)));
            WT_EQ(weft_backward(weft_sum_all(weft_square(got))), WEFT_OK);
            for (int i = 0; i < 2; i++)
                WT_ALL(wt_near_tensors(weft_grad(in[i]), weft_grad(whole[i]), WT_WITHIN(1e-11)));
        }
    free(x);
    free(y);
    free(expected);
}

/* One operand: sums and turns. Sizes of 1 repeat; an ellipsis. */
WT_TEST_IN_WORLD(einsum__of_one_and_of_repeated_dims, w)
{
    weft_tensor *x = wt_whole3(WEFT_F64, 0, 3, 5, 4), *y = wt_whole3(WEFT_F64, 1, 1, 4, 7), *in[2];

    in[0] = wt_spread(w, x, "S(1)");
    WT_ALL(wt_near_tensors(weft_einsum("abc->cb", in, 1),
                           weft_transpose(weft_sum(x, (int[]){0}, 1, false), 0, 1),
                           WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(weft_einsum("abc", in, 1), x, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_einsum("cab", in, 1), weft_permute(x, (int[]){1, 2, 0}), WT_EXACT));
    in[1] = wt_spread(w, y, "S(2)");
    WT_ALL(
        wt_near_tensors(weft_einsum("bmk,bkn->bmn", in, 2), weft_matmul(x, y), WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(weft_einsum("...mk,...kn->...mn", in, 2), weft_matmul(x, y),
                           WT_WITHIN(1e-13)));
    WT_ALL(weft_einsum("amk,kn->an", in, 2) == NULL);
    weft_error_clear();
    WT_ALL(weft_einsum("amk,ank->amn", in, 2) == NULL && weft_error_status() == WEFT_ERR_SHAPE);
    weft_error_clear();
}

/* What stays in its place: a dim of the left operand, of the right one, and terms. */
WT_TEST_IN_WORLD(einsum__sends_nothing, w)
{
    weft_tensor *x = wt_whole3(WEFT_F32, 0, 4, 8, 6), *weight = wt_whole(WEFT_F32, 1, 6, 12),
                *in[2];
    static const char *const rows[][4] = {{"bmk,kn->bmn", "S(1)", "R", "S(1)"},
                                          {"bmk,kn->bmn", "R", "S(1)", "S(2)"},
                                          {"bmk,kn->bmn", "S(2)", "S(0)", "P"},
                                          {"bmk,kn->nbm", "R", "S(1)", "S(0)"}};

    for (int i = 0; i < 4; i++) {
        weft_tensor *y;

        in[0] = wt_spread(w, x, rows[i][1]);
        in[1] = wt_spread(w, weight, rows[i][2]);
        weft_ledger_reset(w->ledger);
        y = weft_einsum(rows[i][0], in, 2);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, rows[i][3]));
    }
}

WT_TEST_TIMES_IN_WORLD(tensordot__sums_over_pairs_of_dims, w, k, 2)
{
    weft_tensor *a = wt_whole3(WEFT_F64, 0, 3, k ? 5 : 4, 2),
                *b = wt_whole3(WEFT_F64, 1, 2, 7, k ? 5 : 4);
    weft_tensor *want, *got;

    got = weft_tensordot(wt_spread(w, a, "S(1)"), wt_spread(w, b, "S(1)"), (int[]){1, 2},
                         (int[]){-1, 0}, 2);
    want = weft_einsum("abc,cdb->ad", (weft_tensor *[]){a, b}, 2);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-13)));
    got = weft_tensordot(wt_spread(w, a, "R"), wt_spread(w, weft_select(b, 0, 0), "S(0)"), NULL,
                         NULL, 0);
    WT_ALL(wt_has_shape(got, 5, (int64_t)3, (int64_t)(k ? 5 : 4), (int64_t)2, (int64_t)7,
                        (int64_t)(k ? 5 : 4)));
    WT_ALL(weft_tensordot(a, b, (int[]){0}, (int[]){0}, 1) == NULL);
    weft_error_clear();
    WT_ALL(weft_tensordot(a, b, (int[]){0, 0}, (int[]){0, 1}, 2) == NULL);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "einsum"); }
