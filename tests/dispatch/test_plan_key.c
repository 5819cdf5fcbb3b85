/*
 * test_plan_key.c: attributes are the key of a plan: calls that differ in one have two plans, equal
 * calls have one, whatever the stack held before.
 */
/* ranks: 1 3 */
#include <string.h>

#include "dtensor/dispatch/plan_cache.h"
#include "support/worlds.h"
#include <weft/extend/plan_cache.h>

/* ---- every op of the table: each byte of its attributes counts ---- */

/* A call that gives `words` of the attributes of op. */
static void check_each_byte(enum wf_op op, int words)
{
    union wf_op_attrs attrs, other;
    struct wf_op_args args = {.attr_words = words, .attrs = &other};
    struct wf_op_plan plan = {.op = (uint16_t)op, .attr_words = (uint8_t)words};
    size_t bytes = (size_t)words * sizeof(uint64_t);

    memset(&attrs, 0, sizeof attrs);
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)&attrs)[i] = (unsigned char)(i * 37 + 11);
    memcpy(&plan.attrs, &attrs, sizeof attrs);
    memset(&other, 0x5a, sizeof other); /* what a call does not give may be anything */
    memcpy(&other, &attrs, bytes);
    WT_ALL(wf_op_plan_is_of_call(&plan, op, NULL, 0, &args));
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)&other)[i] ^= 1;
        WT_ALL(!wf_op_plan_is_of_call(&plan, op, NULL, 0, &args));
        ((unsigned char *)&other)[i] ^= 1;
    }
    if (!words) return;
    args.attr_words = words - 1;
    WT_ALL(!wf_op_plan_is_of_call(&plan, op, NULL, 0, &args));
}

WT_TEST(every_op__each_byte_of_its_attributes_is_in_the_key)
{
    for (int op = 0; op < WF_OP_COUNT; op++) {
        const struct wf_attrs_info *kind = &wf_attrs_table[wf_ops[op].attrs];
        size_t bytes = 0;

        for (int f = 0; f < kind->n_fields; f++)
            bytes += kind->fields[f].size * (size_t)kind->fields[f].n;
        WT_EQ((int)(bytes / sizeof(uint64_t)), kind->words);
        WT_ALL(bytes % sizeof(uint64_t) == 0);
        check_each_byte((enum wf_op)op, kind->words);
    }
}

/* ---- the public functions: each attribute that they pass on ---- */

struct operands {
    weft_mesh *mesh;
    weft_tensor *x, *w, *w3, *table, *index, *q, *qkv, *positive, *row, *spread;
};

/* Call number `way`: 0 is where the others differ from in one attribute. */
typedef weft_tensor *call_fn(const struct operands *o, int way);

static weft_tensor *call_matmul(const struct operands *o, int way)
{
    return weft_matmul_t(o->x, o->x, way == 1, way == 2);
}

static weft_tensor *call_linear(const struct operands *o, int way)
{
    return weft_linear_with(
        o->x, o->w, NULL,
        (weft_linear_options){.transposed = way == 1, .wide = way == 2, .wide_gradient = way == 3});
}

static weft_tensor *call_linear_dims(const struct operands *o, int way)
{
    return weft_linear(o->w3, o->w3, NULL, 1 + way);
}

static weft_tensor *call_sum(const struct operands *o, int way)
{
    int dim = way == 1;

    return way == 3 ? weft_mean(o->x, &dim, 1, false) : weft_sum(o->x, &dim, 1, way == 2);
}

static weft_tensor *call_max(const struct operands *o, int way)
{
    int dim = way == 1;

    return weft_amax(o->x, &dim, 1, way == 2);
}

static weft_tensor *call_topk(const struct operands *o, int way)
{
    return weft_topk(o->x, 2 + way, -1, NULL);
}

static weft_tensor *call_softmax(const struct operands *o, int way)
{
    return weft_softmax(o->x, way);
}

static weft_tensor *call_log_softmax(const struct operands *o, int way)
{
    return weft_log_softmax(o->x, way);
}

static weft_tensor *call_cat(const struct operands *o, int way)
{
    return weft_cat((weft_tensor *[]){o->x, o->w}, 2, way);
}

static weft_tensor *call_slice(const struct operands *o, int way)
{
    return weft_slice(o->x, way == 1, 0, 2 + (way == 2));
}

static weft_tensor *call_embedding(const struct operands *o, int way)
{
    return weft_embedding_with(o->table, o->index, (weft_embedding_options){.padding_idx = way});
}

static weft_tensor *call_attention(const struct operands *o, int way)
{
    return weft_attention(o->q, o->q, o->q, way == 1, 0.5);
}

static weft_tensor *call_attention_packed(const struct operands *o, int way)
{
    return weft_attention_packed_with(
        o->qkv, (weft_attention_options){.causal = way == 1, .grouped = way == 2, .scale = 0.5});
}

static weft_tensor *call_rotary(const struct operands *o, int way)
{
    weft_rotary_options r = {.low = 1, .high = 4, .length = 64, .factor = 2, .base = 100};

    if (way == 1) r.interleaved = true;
    if (way == 2) r.dims = 2;
    if (way == 3) r.heads = 1;
    if (way == 4) r.length = r.low = r.high = 0;
    if (way == 5) r.base = 101;
    if (way == 6) r.factor = 3;
    if (way == 7) r.low = 2;
    if (way == 8) r.high = 5;
    if (way == 9) r.length = 65;
    return weft_rotary(o->q, NULL, r);
}

static weft_tensor *call_cast(const struct operands *o, int way)
{
    return weft_cast(o->x, way ? WEFT_F64 : WEFT_I32);
}

static weft_tensor *call_multinomial(const struct operands *o, int way)
{
    return weft_multinomial(o->positive, 2 + (way == 1), way == 2, NULL);
}

static weft_tensor *call_reshape(const struct operands *o, int way)
{
    static const int64_t shapes[][3] = {{2, 8}, {8, 2}, {2, 8, 1}};

    return weft_reshape(o->x, shapes[way], way == 2 ? 3 : 2);
}

static weft_tensor *call_permute(const struct operands *o, int way)
{
    static const int orders[][3] = {{0, 2, 1}, {1, 0, 2}, {2, 1, 0}};

    return weft_permute(o->w3, orders[way]);
}

static weft_tensor *call_expand(const struct operands *o, int way)
{
    static const int64_t shapes[][3] = {{2, 4}, {3, 4}, {1, 2, 4}};

    return weft_expand(o->row, shapes[way], way == 2 ? 3 : 2);
}

static weft_tensor *call_redistribute(const struct operands *o, int way)
{
    static const char *const to[] = {"R,S(0)", "S(0),R", "S(1),R", "S(1),S(0)"};
    weft_placement placements[2];

    return weft_placements_parse(placements, 2, to[way]) == 2
               ? weft_redistribute(o->spread, placements)
               : NULL;
}

static weft_tensor *call_to_local(const struct operands *o, int way)
{
    const weft_placement gradients[][2] = {{weft_replicate(), weft_replicate()},
                                           {weft_partial(WEFT_SUM), weft_replicate()},
                                           {weft_replicate(), weft_partial(WEFT_SUM)}};

    return weft_to_local(o->spread, gradients[way]);
}

static weft_tensor *call_from_local(const struct operands *o, int way)
{
    const weft_placement whole[] = {weft_replicate(), weft_replicate()},
                         split[] = {weft_shard(0), weft_replicate()};
    const int64_t shape[] = {4 * weft_mesh_axis_size(o->mesh, 0), 4}, stride[] = {4, 1};
    weft_from_local_options options = {.grad_placements = way == 2 ? split : NULL};

    if (way == 3) options.shape = shape, options.stride = stride;
    return weft_from_local_with(o->x, o->mesh, way == 0 ? whole : split, options);
}

static const struct call {
    const char *name;
    call_fn *run;
    int ways;
} calls[] = {{"matmul", call_matmul, 3},
             {"linear", call_linear, 4},
             {"linear, dims", call_linear_dims, 2},
             {"sum, mean", call_sum, 4},
             {"max", call_max, 3},
             {"topk", call_topk, 2},
             {"softmax", call_softmax, 2},
             {"log_softmax", call_log_softmax, 2},
             {"cat", call_cat, 2},
             {"slice", call_slice, 3},
             {"embedding", call_embedding, 3},
             {"attention", call_attention, 2},
             {"attention_packed", call_attention_packed, 3},
             {"rotary", call_rotary, 10},
             {"cast", call_cast, 2},
             {"multinomial", call_multinomial, 3},
             {"reshape", call_reshape, 3},
             {"permute", call_permute, 3},
             {"expand", call_expand, 3},
             {"redistribute", call_redistribute, 4},
             {"to_local", call_to_local, 3},
             {"from_local", call_from_local, 4}};
enum { CALLS = sizeof calls / sizeof *calls };

/* What a call that sets too little of its attributes would find in them. */
__attribute__((noinline)) static void fill_stack(int byte)
{
    volatile unsigned char room[8192];

    for (size_t i = 0; i < sizeof room; i++) room[i] = (unsigned char)byte;
}

static int64_t count_new_plans(const struct operands *o, const struct call *call, int way, int byte)
{
    int64_t before = wf_plan_cache_stats().misses;

    fill_stack(byte);
    WT_ALL(call->run(o, way) != NULL);
    return wf_plan_cache_stats().misses - before;
}

WT_TEST_IN(public_calls__that_differ_in_one_attribute_have_two_plans, w,
           wt_world_open_mesh("dp=1,tp=%d", wt_ranks()))
{
    struct operands o = {
        .mesh = w->mesh,
        .x = wt_whole(WEFT_F32, 0, 4, 4),
        .w = wt_whole(WEFT_F32, 1, 4, 4),
        .w3 = wt_whole3(WEFT_F32, 2, 4, 4, 4),
        .table = wt_whole(WEFT_F32, 3, 5, 4),
        .index = weft_full(WEFT_I64, (int64_t[]){3}, 1, 2),
        .positive = weft_full(WEFT_F32, (int64_t[]){2, 5}, 2, 1),
        .row = wt_whole(WEFT_F32, 4, 1, 4),
    };

    o.q = weft_reshape(wt_whole3(WEFT_F32, 5, 2, 4, 12), (int64_t[]){2, 4, 3, 4}, 4);
    o.qkv = weft_reshape(wt_whole3(WEFT_F32, 6, 2, 4, 36), (int64_t[]){2, 4, 3, 3, 4}, 5);
    o.spread = wt_spread(w, o.x, "R,R");
    weft_plan_cache_clear();
    for (int c = 0; c < CALLS; c++)
        for (int way = 0; way < calls[c].ways; way++) {
            WT_ALL(count_new_plans(&o, &calls[c], way, 0xff) > 0);
            WT_EQ(count_new_plans(&o, &calls[c], way, 0x5a), 0);
        }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "plan_key"); }
