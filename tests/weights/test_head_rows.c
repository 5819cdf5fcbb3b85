/* test_head_rows.c: a checkpoint of attention with packed queries, keys and values is loaded by one
 * with `by_heads`, and back, bit by bit. */
/* mpi: 2 4 */
#include <stdio.h>

#include "support/scratch.h"
#include "support/worlds.h"

enum { HEADS = 6, GROUPS = 2, SHARERS = HEADS / GROUPS };

struct model {
    weft_module *module;
    weft_optim *optim;
    weft_state *state;
};

static weft_module *llama(bool by_heads, int64_t groups, weft_dtype dtype, uint64_t seed)
{
    weft_manual_seed(seed);
    return weft_llama((weft_llama_config){.vocab = 11,
                                          .width = 12,
                                          .heads = HEADS,
                                          .kv_heads = groups,
                                          .head_dim = 4,
                                          .layers = 2,
                                          .hidden = 10,
                                          .attention_bias = true,
                                          .by_heads = by_heads,
                                          .dtype = dtype});
}

/* Attention and the MLP are spread over the mesh's last axis; NULL: nowhere. */
static struct model open_model(weft_mesh *mesh, weft_module *module)
{
    const weft_plan plan[] = {{"blocks.*.attn.qkv", weft_colwise_parallel()},
                              {"blocks.*.attn.proj", weft_rowwise_parallel()},
                              {"blocks.*.mlp.up", weft_colwise_parallel()},
                              {"blocks.*.mlp.down", weft_rowwise_parallel()},
                              {0}};
    struct model m = {.module = module, .state = weft_state_new()};

    if (mesh) WT_EQ(weft_parallelize_module(module, mesh, plan), WEFT_OK);
    m.optim = weft_adamw(module, (weft_adamw_config){.lr = 0.01});
    WT_EQ(weft_state_add_module(m.state, "model", module), WEFT_OK);
    WT_EQ(weft_state_add_optim(m.state, "optim", m.optim, module), WEFT_OK);
    return m;
}

static void close_model(struct model *m)
{
    weft_state_release(m->state);
    weft_optim_release(m->optim);
    weft_module_release(m->module);
}

static weft_tensor *tokens(void)
{
    static const int64_t shape[] = {2, 5}, data[] = {1, 4, 9, 2, 10, 0, 3, 3, 7, 5};

    return weft_from_data(WEFT_I64, shape, 2, data);
}

static void train(struct model *m)
{
    for (int step = 0; step < 2; step++) {
        weft_scope *scope = weft_scope_open();

        WT_EQ(weft_backward(weft_gpt_loss(m->module, tokens(), tokens())), WEFT_OK);
        WT_EQ(weft_step(m->optim), WEFT_OK);
        weft_scope_close(scope);
    }
}

static void copy_through(const char *name, struct model *from, struct model *to)
{
    weft_status status;

    WT_EQ(weft_checkpoint_save(wt_scratch(name), from->state), WEFT_OK);
    status = weft_checkpoint_load(wt_scratch(name), to->state);
    wt_note("%s", weft_error_message());
    WT_EQ(status, WEFT_OK);
}

static weft_tensor *whole_of(const struct model *m, const char *name)
{
    weft_tensor *t = weft_state_tensor(m->state, name);

    wt_note("%s", name);
    WT_ALL(t != NULL);
    return weft_full_tensor(t);
}

/* Every tensor of one list is that of the other. */
static bool same_tensors(const struct model *a, const struct model *b)
{
    bool same = weft_state_count(a->state) == weft_state_count(b->state);

    for (int64_t i = 0; i < weft_state_count(a->state); i++) {
        const char *name = weft_state_name(a->state, i);

        if (!weft_state_tensor(a->state, name)) continue;
        same &= wt_near_tensors(whole_of(a, name), whole_of(b, name), WT_EXACT);
    }
    return same;
}

/* The rows `from` to `to` of each group, with or without groups and rows as dims of their own. */
static weft_tensor *rows(weft_tensor *packed, int64_t from, int64_t to, bool merged)
{
    int64_t shape[WEFT_MAX_DIMS] = {GROUPS * (to - from)};
    weft_tensor *part = weft_contiguous(weft_slice(packed, 1, from, to));

    if (!merged) return part;
    for (int d = 2; d < weft_ndim(part); d++) shape[d - 1] = weft_size(part, d);
    return weft_reshape(part, shape, weft_ndim(part) - 1);
}

/* `tail`: "weight" or "bias", and a state of the optimizer. */
static bool has_the_rows(const struct model *by_heads, const struct model *packed,
                         const char *prefix, const char *tail)
{
    char name[3][96];
    weft_tensor *whole;
    bool same;

    snprintf(name[0], sizeof name[0], "%s.blocks.1.attn.qkv.%s", prefix, tail);
    snprintf(name[1], sizeof name[1], "%s.blocks.1.attn.qkv.q_%s", prefix, tail);
    snprintf(name[2], sizeof name[2], "%s.blocks.1.attn.qkv.kv_%s", prefix, tail);
    whole = whole_of(packed, name[0]);
    same = wt_near_tensors(whole_of(by_heads, name[1]), rows(whole, 0, SHARERS, true), WT_EXACT);
    return same && wt_near_tensors(whole_of(by_heads, name[2]),
                                   rows(whole, SHARERS, SHARERS + 2, false), WT_EXACT);
}

/* trial 4.6 */
WT_TEST_IN_WORLD(head_rows__packed_and_by_heads_load_each_other, w)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    int outer = wt_ranks() % 2 ? 1 : 2;
    weft_mesh *two = weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", outer, wt_ranks() / outer);
    weft_mesh *inner = weft_mesh_sub(two, "tp");

    for (int i = 0; i < 2; i++) {
        struct model a = open_model(w->mesh, llama(false, GROUPS, dtypes[i], 1));
        struct model b = open_model(w->mesh, llama(true, GROUPS, dtypes[i], 2));
        struct model plain = open_model(NULL, llama(true, GROUPS, dtypes[i], 3));
        struct model c = open_model(inner, llama(false, GROUPS, dtypes[i], 4));

        train(&a);
        copy_through("packed", &a, &plain);
        copy_through("packed", &a, &b);
        WT_ALL(has_the_rows(&b, &a, "model", "weight") && has_the_rows(&b, &a, "model", "bias"));
        WT_ALL(has_the_rows(&b, &a, "optim", "weight.exp_avg"));
        WT_ALL(has_the_rows(&b, &a, "optim", "bias.exp_avg_sq"));
        WT_ALL(!i || has_the_rows(&b, &a, "optim", "weight.master"));
        WT_ALL(same_tensors(&plain, &b));
        WT_EQ(weft_optim_update_count(
                  b.optim, weft_module_parameter(b.module, "blocks.0.attn.qkv.kv_weight")),
              2);
        WT_ALL(wt_near_tensors(weft_full_tensor(weft_call(a.module, tokens())),
                               weft_full_tensor(weft_call(plain.module, tokens())),
                               WT_WITHIN(i ? 0.05 : 1e-5)));
        copy_through("by_heads", &b, &c);
        WT_ALL(same_tensors(&a, &c));
        WT_EQ(weft_optim_update_count(c.optim,
                                      weft_module_parameter(c.module, "blocks.1.attn.qkv.weight")),
              2);
        close_model(&a);
        close_model(&b);
        close_model(&plain);
        close_model(&c);
    }
    WT_RELEASE(weft_mesh_release, inner, two);
}

/* trial 4.6 */
WT_TEST_IN_WORLD(head_rows__what_cannot_be_one_is_refused_before_anything_is_changed, w)
{
    struct model b = open_model(w->mesh, llama(true, GROUPS, WEFT_F32, 1));
    struct model c = open_model(w->mesh, llama(false, GROUPS, WEFT_F32, 2));
    struct model other = open_model(w->mesh, llama(false, 3, WEFT_F32, 2));
    struct model as_made = open_model(NULL, llama(false, GROUPS, WEFT_F32, 2));

    train(&b);
    WT_EQ(weft_optim_set_update_count(
              b.optim, weft_module_parameter(b.module, "blocks.1.attn.qkv.kv_bias"), 7),
          WEFT_OK);
    WT_EQ(weft_checkpoint_save(wt_scratch("differ"), b.state), WEFT_OK);
    WT_EQ(weft_checkpoint_load(wt_scratch("differ"), c.state), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "'optim.blocks.1.attn.qkv.q_bias.updates' (int 2) and "
                              "'optim.blocks.1.attn.qkv.kv_bias.updates' (int 7) differ");
    WT_FAILS(weft_checkpoint_load(wt_scratch("differ"), other.state), WEFT_ERR_SHAPE,
             "is [6,4,12], not [3,4,4,12] nor convertible to "
             "model.blocks.0.attn.qkv.weight");
    WT_ALL(same_tensors(&c, &as_made));
    WT_EQ(weft_optim_step_count(c.optim), 0);
    close_model(&b);
    close_model(&c);
    close_model(&other);
    close_model(&as_made);
}

/* trial 4.6: [3,3,D,C] may be three groups of one head, or queries, keys and values of three */
WT_TEST_IN_WORLD(head_rows__three_heads_that_share_nothing_are_not_taken_for_groups, w)
{
    weft_attention_config config = {.width = 12, .heads = 3};
    weft_module *packed = weft_attention_new(config), *apart;
    weft_state *from = weft_state_new(), *to = weft_state_new();

    config.by_heads = true;
    apart = weft_attention_new(config);
    WT_EQ(weft_state_add_module(from, "m", packed), WEFT_OK);
    WT_EQ(weft_state_add_module(to, "m", apart), WEFT_OK);
    WT_EQ(weft_checkpoint_save(wt_scratch("three"), from), WEFT_OK);
    WT_EQ(weft_checkpoint_load(wt_scratch("three"), to), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "'m.qkv.weight' is [3,3,4,12]");
    WT_RELEASE(weft_state_release, from, to);
    WT_RELEASE(weft_module_release, packed, apart);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "head_rows")); }
