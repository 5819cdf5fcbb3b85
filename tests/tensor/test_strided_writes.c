/*
 * test_strided_writes.c: ops in place on strided views. A rank whose shard has one row or none
 * cannot tell a view from a row-major tensor, so what is written and what is refused must not
 * follow from this rank's strides.
 */
/* mpi: 2 3 */
#include "support/worlds.h"

enum { COLUMNS = 3 };

/* Rows of the whole: even shards, some of one row, some empty. */
static int64_t rows_of(int which)
{
    return which == 0 ? 2 * wt_ranks() : which == 1 ? wt_ranks() + 1 : 1;
}
enum { SHAPES = 3 };

static const struct {
    const char *placements, *turned;
} layouts[] = {{"S(0)", "S(1)"}, {"S(1)", "S(0)"}, {"R", "R"}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

typedef void write_case(struct wt_world *w, int64_t rows, int layout);

static void for_all(write_case *body)
{
    for (int s = 0; s < SHAPES; s++)
        for (int l = 0; l < LAYOUTS; l++) {
            struct wt_world w = wt_world_open();

            wt_note("%s, %s", s ? "uneven" : "even", layouts[l].placements);
            body(&w, rows_of(s), l);
            wt_world_close(&w);
        }
}

static weft_tensor *turned(weft_tensor *t) { return weft_transpose(t, 0, 1); }

static void adds(struct wt_world *w, int64_t rows, int l)
{
    weft_tensor *whole = wt_whole(WEFT_F64, 1, rows, COLUMNS), *view;
    weft_tensor *b = wt_whole(WEFT_F64, 2, COLUMNS, rows);
    weft_tensor *t = wt_spread(w, whole, layouts[l].placements);
    int64_t before = weft_tensor_version(t);

    view = turned(t);
    WT_ALL(weft_add_(view, wt_spread(w, b, layouts[l].turned)) == view);
    WT_STILL(w);
    WT_ALL(weft_tensor_version(t) > before);
    WT_ALL(wt_near_tensors(t, weft_add(whole, turned(b)), WT_EXACT));
    WT_ALL(weft_add_(view, weft_full(WEFT_F64, NULL, 0, 2)) == view);
    WT_ALL(wt_near_tensors(t, weft_add_scalar(weft_add(whole, turned(b)), 2), WT_EXACT));
}

/* trial 2 */
WT_TEST(strided_writes__add_goes_through_strides) { for_all(adds); }

static void copies(struct wt_world *w, int64_t rows, int l)
{
    weft_tensor *b = wt_whole(WEFT_F64, 2, COLUMNS, rows);
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F64, 1, rows, COLUMNS), layouts[l].placements);

    WT_EQ(weft_copy_(turned(t), wt_spread(w, b, layouts[l].turned)), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(t, turned(b), WT_EXACT));
}

/* trial 2 */
WT_TEST(strided_writes__copy_goes_through_strides) { for_all(copies); }

static void draws(struct wt_world *w, int64_t rows, int l)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F64, 1, rows, COLUMNS), layouts[l].placements);
    weft_tensor *whole = weft_full(WEFT_F64, (int64_t[]){COLUMNS, rows}, 2, 0);
    weft_generator *g = weft_generator_new(7);

    WT_EQ(weft_uniform_(turned(t), 1, 2, g), WEFT_OK);
    weft_generator_reseed(g, 7);
    WT_EQ(weft_uniform_(whole, 1, 2, g), WEFT_OK);
    WT_ALL(wt_near_tensors(t, turned(whole), WT_EXACT));
    WT_EQ(weft_fill_(turned(t), 4), WEFT_OK);
    WT_ALL(wt_is_all(t, 4));
    weft_generator_release(g);
}

WT_TEST(strided_writes__draws_and_fills_go_through_strides) { for_all(draws); }

/* A result of another shape or layout, with the same text on all ranks. */
static void refusals(struct wt_world *w, int64_t rows, int l)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F64, 1, rows, COLUMNS), layouts[l].placements);
    weft_tensor *more = wt_whole3(WEFT_F64, 1, 2, COLUMNS, rows);
    const char *text = "in place: the result would have another shape, dtype or layout";
    int64_t before = weft_tensor_version(t);

    WT_FAILS(weft_add_(turned(t), wt_spread(w, more, "R")), WEFT_ERR_SHAPE, text);
    WT_ALL(!weft_add_(t, wt_spread(w, more, "R")) || rows == COLUMNS);
    weft_error_clear();
    WT_EQ(weft_copy_(turned(t), wt_spread(w, more, "R")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "copy_: shapes differ");
    WT_ALL(weft_tensor_version(t) == before);
    WT_ALL(wt_near_tensors(t, wt_whole(WEFT_F64, 1, rows, COLUMNS), WT_EXACT));
}

/* trial 2 */
WT_TEST(strided_writes__other_shapes_are_refused_alike) { for_all(refusals); }

/* The operand is another view of what is written: its old elements count. */
WT_TEST_IN_WORLD(strided_writes__operands_may_be_views_of_the_target, w)
{
    weft_tensor *whole = wt_whole(WEFT_F64, 1, COLUMNS, COLUMNS), *t, *row;

    t = wt_spread(w, whole, "R");
    WT_ALL(weft_add_(t, turned(t)) == t);
    WT_ALL(wt_near_tensors(t, weft_add(whole, turned(whole)), WT_EXACT));
    t = wt_spread(w, whole, "R");
    WT_EQ(weft_copy_(t, turned(t)), WEFT_OK);
    WT_ALL(wt_near_tensors(t, turned(whole), WT_EXACT));
    t = wt_spread(w, whole, "S(1)");
    row = weft_slice(t, 0, 0, 1);
    WT_ALL(weft_add_(t, row) == t);
    WT_ALL(wt_near_tensors(t, weft_add(whole, weft_slice(whole, 0, 0, 1)), WT_EXACT));
}

/* Which of several sums should stay? */
WT_TEST_IN_WORLD(strided_writes__repeated_elements_are_refused, w)
{
    weft_tensor *t = weft_full(WEFT_F64, (int64_t[]){1, COLUMNS}, 2, 1);
    weft_tensor *b = weft_full(WEFT_F64, (int64_t[]){2, COLUMNS}, 2, 1);
    weft_tensor *repeated = weft_expand(t, (int64_t[]){2, COLUMNS}, 2);

    WT_FAILS(weft_add_(repeated, b), WEFT_ERR_STATE, "add in place: several elements");
    WT_FAILS(weft_copy_(repeated, b), WEFT_ERR_STATE, "copy in place: several elements");
    WT_ALL(wt_is_all(t, 1));
    WT_EQ(weft_fill_(repeated, 5), WEFT_OK);
    WT_ALL(wt_is_all(t, 5));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "strided_writes"); }
