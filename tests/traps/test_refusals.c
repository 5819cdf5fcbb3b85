/*
 * test_refusals.c: badly formed input is refused with an error that says what is wrong, by all
 * ranks alike; nothing has changed, nothing was sent, and the next collective works. The calls are
 * in refusals.def.
 */
/* mpi: 3 */
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const int64_t VAST = (int64_t)1 << 32;

struct operands {
    weft_mesh *mesh, *two;
    weft_tensor *plain, *rows, *whole, *sum, *integers, *result, *elsewhere;
    weft_placement at[WEFT_MAX_AXES]; /* S(0), ... */
    weft_dtensor_spec flat;           /* of rows */
    weft_layout layout;               /* of rows */
    /* for what a call would write */
    weft_placement room[WEFT_MAX_AXES];
    weft_tensor *pieces[2];
    int64_t shape[WEFT_MAX_DIMS];
    int coordinates[WEFT_MAX_AXES];
    double numbers[3];
    char text[100];
};

/* On one axis or two, as the text says. */
static weft_tensor *spread(struct operands *o, weft_tensor *t, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES];
    int n = weft_placements_parse(p, WEFT_MAX_AXES, placements);

    return n < 0 ? NULL : weft_distribute_tensor(t, n == 1 ? o->mesh : o->two, p, -1);
}

#define WT_REFUSED(name, status, text, refused)                                                    \
    static bool name##_is_refused(struct operands *o)                                              \
    {                                                                                              \
        (void)o;                                                                                   \
        return refused;                                                                            \
    }
#include "traps/refusals.def"
#undef WT_REFUSED

static const struct refusal {
    const char *name;
    weft_status status;
    const char *text;
    bool (*refused)(struct operands *o);
} refusals[] = {
#define WT_REFUSED(name, status, text, refused) {#name, WEFT_ERR_##status, text, name##_is_refused},
#include "traps/refusals.def"
#undef WT_REFUSED
};

static void open_operands(struct wt_world *w, struct operands *o)
{
    int32_t numbers[] = {0, 1, 2, 0};

    memset(o, 0, sizeof *o);
    o->mesh = w->mesh;
    o->two = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks());
    o->at[0] = weft_shard(0);
    o->plain = wt_constant(4, 3, 1);
    o->rows = spread(o, o->plain, "S(0)");
    o->whole = spread(o, o->plain, "R");
    o->sum = spread(o, o->plain, "P");
    o->elsewhere = spread(o, o->plain, "R,S(0)");
    o->integers = weft_from_data(WEFT_I32, (int64_t[]){4}, 1, numbers);
    o->result = weft_mul_scalar(weft_set_requires_grad(wt_constant(4, 3, 1), true), 2);
    weft_dtensor_unwrap(o->rows, &o->flat);
    weft_layout_of(&o->layout, o->rows);
}

/* What a refusal must leave as it is: numbers, and the number of tensors that nobody else holds. */
static bool unchanged(struct operands *o, weft_scope *scope, int64_t tensors)
{
    weft_scope_close(scope);
    return wf_tensor_live_count() == tensors && wt_local_is_all(o->plain, 1) &&
           wt_local_is_all(o->rows, 1) && wt_local_is_all(o->result, 2);
}

static void check(struct operands *o, struct wt_world *w, const struct refusal *r)
{
    int64_t tensors = wf_tensor_live_count();
    weft_scope *scope = weft_scope_open();
    bool refused = r->refused(o), said;

    if (!refused) wt_note("%s is accepted", r->name);
    said = weft_error_status() == r->status && strstr(weft_error_message(), r->text) != NULL;
    if (refused && !said)
        wt_note("%s: %s: \"%s\"", r->name, weft_status_name(weft_error_status()),
                weft_error_message());
    weft_error_clear();
    WT_ALL(refused && said);
    WT_ALL(unchanged(o, scope, tensors));
    WT_STILL(w);
}

WT_TEST_IN_WORLD(refusals__name_what_is_wrong_and_change_nothing, w)
{
    struct operands o;

    open_operands(w, &o);
    wt_moved(w, WEFT_COLL_COUNT);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) check(&o, w, &refusals[i]);
    WT_ALL(weft_item(weft_full_tensor(weft_sum_all(o.rows))) == 12);
    WT_ALL(wt_is_all(o.sum, 1));
    weft_mesh_release(o.two);
}

/* Expressions are checked once at their end: what was not made flows through without a word. */
WT_TEST_IN_WORLD(nothing__gives_nothing, w)
{
    static const weft_redistribute_options options = {.async = true};
    weft_placement rows = weft_shard(0);
    weft_tensor *x = wt_spread(w, wt_constant(4, 3, 1), "S(0)");
    weft_tensor *made[] = {
        weft_distribute_tensor(NULL, w->mesh, &rows, 0),
        weft_from_local(NULL, w->mesh, &rows, NULL),
        weft_from_local_with(NULL, w->mesh, &rows, (weft_from_local_options){.run_check = true}),
        weft_to_local(NULL, NULL),
        weft_full_tensor(NULL),
        weft_redistribute(NULL, &rows),
        weft_redistribute_with(NULL, &rows, &options),
        weft_redistribute_to_mesh(NULL, w->mesh, &rows),
        weft_wait(NULL),
        weft_add(NULL, x),
        weft_matmul(x, NULL),
        weft_linear(x, NULL, NULL, 1),
        weft_sum_all(NULL),
        weft_softmax(NULL, 0),
        weft_embedding(NULL, x),
        weft_reshape(NULL, (int64_t[]){12}, 1),
        weft_cat((weft_tensor *[]){x, NULL}, 2, 0),
        weft_dropout(NULL, 0.5, NULL),
        weft_zeros_like(NULL),
        weft_set_requires_grad(NULL, true),
    };
    weft_mesh *meshes[] = {weft_mesh_sub(NULL, "tp"), weft_mesh_flatten(NULL, "a"),
                           weft_mesh_unflatten(NULL, 0, (int[]){1}, 1, "a"), weft_mesh_root(NULL)};

    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        if (made[i]) wt_note("number %d", (int)i);
        WT_ALL(!made[i]);
    }
    for (int i = 0; i < 4; i++) WT_ALL(!meshes[i]);
    WT_EQ(weft_error_status(), WEFT_OK);
    WT_STILL(w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "refusals"); }
