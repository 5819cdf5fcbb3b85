/* choose_placements.c: candidates of one axis at a time, and the cheapest of them in time. */
#include "dtensor/dispatch/choose_placements.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/shard_variants.h"
#include "dtensor/registration/registry.h"
#include "ops/op_functions.h"
#include "redistribute/redistribute.h"

struct candidate {
    weft_placement in[WF_MAX_IN], out[WF_MAX_OUT];
};

/*
 * Compared in this order. What the call takes comes first, in picoseconds so that a byte counts:
 * moving the inputs, where that is needed also moving the result to the layout that its caller
 * would like, or what a partial result costs later, and of a product of partial operands what their
 * gradients cost (docs/decisions/0041). Where no input moves, the layout that the caller would like
 * only decides among equals, because the caller may never ask for it; then operands rather stay as
 * they are. Last of all those that are not replicated: to change them is free on one rank, and a
 * message on more, and a program should have the same layouts on both.
 */
struct cost {
    int64_t time, wish, changes;
    int64_t inputs; /* of the time: not compared */
};

enum { CHANGE = 1, CHANGE_THAT_SENDS = WF_MAX_IN + 1 };

struct candidate_search {
    const struct wf_infer *call;
    const weft_mesh *mesh;
    struct wf_dim_labels labels;
    int ways[64]; /* ranks that already shard a label on earlier axes */
    int axis;
    struct wf_link link;   /* of this axis */
    bool product_of_terms; /* on this axis */
    /* the inputs with the axes before this one as they were chosen: what is left to move here */
    struct wf_layout now[WF_MAX_IN];
    /* best so far */
    struct candidate chosen[WEFT_MAX_AXES]; /* on the axes before this one */
    bool any;
    struct candidate best;
    struct cost cost;
    int label; /* of the best, 0 when it shards none */
};

static bool is_input_distributed(const struct wf_infer *call, int i)
{
    return call->in[i] && call->in[i]->mesh;
}

static bool is_cheaper(struct cost a, struct cost b)
{
    if (a.time != b.time) return a.time < b.time;
    return a.wish != b.wish ? a.wish < b.wish : a.changes < b.changes;
}

/* A collective has a start, so one that moves much may take less than three that move little. */
static int64_t transfer_time(const struct candidate_search *s, weft_placement from,
                             weft_placement to, int64_t bytes)
{
    int hops;

    if (bytes == 0 || bytes >= WF_REDIST_NEVER) return bytes;
    hops = wf_redist_kind_hops(wf_redist_kind_of(from, to), weft_mesh_axis_size(s->mesh, s->axis));
    return (int64_t)(1e6 * wf_collective_time(s->link, hops, (double)bytes));
}

static int64_t input_move_time(const struct candidate_search *s, int i, weft_placement from,
                               weft_placement to)
{
    return transfer_time(s, from, to, wf_redist_axis_bytes(&s->now[i], s->axis, from, to));
}

/* ---- what comes after the call ---- */

/* Does another axis cut output j? Of later axes: as the inputs lie now. */
static bool is_output_cut_on_other_axis(const struct candidate_search *s, int axis, int j)
{
    if (axis < s->axis) return wf_is_shard_or_strided(s->chosen[axis].out[j]);
    for (int i = 0; i < s->call->n_in; i++) {
        weft_placement p;
        int label;

        if (!is_input_distributed(s->call, i)) continue;
        p = s->call->in[i]->placements[axis];
        label = wf_is_shard_or_strided(p) ? s->labels.in[i][p.dim] : 0;
        if (label && wf_dim_of_label(s->labels.out[j], label) >= 0) return true;
    }
    return false;
}

/* A partial result is reduced some time: at best by a reduce-scatter. Of outputs from `first` on.
 */
static int64_t output_reduce_time(const struct candidate_search *s, const struct candidate *c,
                                  int first)
{
    int64_t time = 0, ranks = weft_mesh_axis_size(s->mesh, s->axis);

    for (int j = first; j < s->call->n_out; j++) {
        int64_t bytes = (int64_t)weft_dtype_size(s->call->out[j].dtype);

        if (s->call->out[j].ndim < 0 || !weft_is_partial(c->out[j])) continue;
        for (int d = 0; d < s->call->out[j].ndim; d++) bytes *= s->call->out[j].shape[d];
        for (int a = 0; a < weft_mesh_ndim(s->mesh); a++)
            if (a != s->axis && is_output_cut_on_other_axis(s, a, j))
                bytes /= weft_mesh_axis_size(s->mesh, a);
        time += transfer_time(s, c->out[j], weft_shard(0), bytes - bytes / ranks);
    }
    return time;
}

static bool is_input_partial(const struct candidate_search *s, int i)
{
    return is_input_distributed(s->call, i) && weft_is_partial(s->call->in[i]->placements[s->axis]);
}

/* Two factors that both are partial, in an op with a gradient: where none is wanted the one that
 * costs less is reduced, and the result stays partial as in PyTorch. */
static bool is_product_of_partials(const struct candidate_search *s)
{
    uint32_t linear = s->call->row->linear, both = linear & linear >> 8; /* an addend is in both */
    int first = 0, second = 0;

    for (int i = 0; i < s->call->n_in; i++) {
        if (!is_input_partial(s, i) || both >> i & 1) continue;
        first += (int)(linear >> i & 1);
        second += (int)(linear >> (8 + i) & 1);
    }
    return s->call->row->vjp && first && second;
}

/* The gradient of a partial input is wanted whole. It comes sharded where the input was cut for
 * the call, and as terms where another factor was left partial. */
static int64_t input_gradient_time(const struct candidate_search *s, const struct candidate *c)
{
    const weft_placement whole = weft_replicate(), terms = weft_partial(WEFT_SUM);
    int64_t time = 0;

    for (int i = 0; i < s->call->n_in; i++) {
        bool others = false;

        if (!is_input_partial(s, i)) continue;
        for (int k = 0; k < s->call->n_in; k++) others |= k != i && weft_is_partial(c->in[k]);
        if (wf_is_shard_or_strided(c->in[i]))
            time += input_move_time(s, i, c->in[i], whole);
        else if (others)
            time += input_move_time(s, i, terms, whole);
    }
    return time;
}

/* ---- comparing ---- */

/* To the layout that the caller would like: part of the time where the call has to move something.
 */
static void add_output_redistribute_cost(struct cost *cost, const struct candidate_search *s,
                                         const struct candidate *c)
{
    const struct wf_layout *wish = s->call->want;
    weft_placement want = wish->placements[s->axis];
    int64_t bytes;

    if (weft_is_partial(want)) want = weft_replicate(); /* as a partial sum's gradient is */
    if (weft_placement_equal(c->out[0], want)) return;
    bytes = wf_redist_axis_bytes(wish, s->axis, c->out[0], want);
    cost->wish = 1 + bytes;
    if (cost->inputs > 0) cost->time += transfer_time(s, c->out[0], want, bytes);
}

static struct cost cost_of_candidate(const struct candidate_search *s, const struct candidate *c)
{
    const struct wf_infer *call = s->call;
    struct cost cost = {0};
    bool wished;

    for (int i = 0; i < call->n_in; i++) {
        weft_placement now;

        if (!is_input_distributed(call, i)) continue;
        now = call->in[i]->placements[s->axis];
        if (weft_placement_equal(now, c->in[i])) continue;
        cost.inputs += input_move_time(s, i, now, c->in[i]);
        cost.changes += weft_is_replicate(now) ? CHANGE : CHANGE_THAT_SENDS;
    }
    cost.time = cost.inputs;
    wished = call->want && call->want->mesh == s->mesh;
    if (wished) add_output_redistribute_cost(&cost, s, c);
    if (cost.inputs > 0 && (call->requires_grad || !s->product_of_terms))
        cost.time += output_reduce_time(s, c, wished);
    if (s->product_of_terms && call->requires_grad) cost.time += input_gradient_time(s, c);
    return cost;
}

static void consider_candidate(struct candidate_search *s, const struct candidate *c, int label)
{
    struct cost cost = cost_of_candidate(s, c);

    if (s->call->in_place && !weft_placement_equal(c->out[0], s->call->want->placements[s->axis]))
        return;
    if (s->any && !is_cheaper(cost, s->cost)) return;
    s->best = *c;
    s->cost = cost;
    s->any = true;
    s->label = label;
}

/* Every dim with the letter, in operands and results. */
static bool label_splits_evenly(const struct candidate_search *s, int label)
{
    int64_t ways = (int64_t)s->ways[label] * weft_mesh_axis_size(s->mesh, s->axis);

    for (int i = 0; i < s->call->n_in; i++) {
        int d = wf_dim_of_label(s->labels.in[i], label);

        if (d >= 0 && s->call->in[i] && s->call->in[i]->desc.global[d] % ways != 0) return false;
    }
    for (int j = 0; j < s->call->n_out; j++) {
        int d = wf_dim_of_label(s->labels.out[j], label);

        if (d >= 0 && s->call->out[j].shape[d] % ways != 0) return false;
    }
    return true;
}

/* What an output is that lacks the sharded letter. */
static weft_placement partial_output(const struct wf_infer *call)
{
    return call->row->reduce == WEFT_NORM ? weft_norm_partial(call->norm_power)
                                          : weft_partial(call->row->reduce);
}

static weft_placement shard_like(weft_placement shard, int dim)
{
    shard.dim = (int8_t)dim;
    return shard;
}

/* Where the row says how its result follows its input: consider the input placed so. */
static void consider_followed(struct candidate_search *s, weft_placement in)
{
    weft_placement all[WEFT_MAX_AXES];
    struct candidate c = {0};

    for (int a = 0; a < s->axis; a++) all[a] = s->chosen[a].in[0];
    all[s->axis] = c.in[0] = in;
    if (s->labels.follow(s->call, s->mesh, all, s->axis + 1, &c.out[0]))
        consider_candidate(s, &c, 0);
}

static void consider_shard_variant(struct candidate_search *s, int label, weft_placement shard)
{
    const struct wf_infer *call = s->call;
    uint32_t addends = call->row->linear >> WF_ADDEND_SHIFT & WF_MAX_ADDEND;
    struct candidate c = {0};
    int out_dim = wf_dim_of_label(s->labels.out[0], label);

    for (int i = 0; i < call->n_in; i++) {
        int d = wf_dim_of_label(s->labels.in[i], label);

        if (d >= 0)
            c.in[i] = shard_like(shard, d);
        else if (out_dim < 0 && addends >> i & 1 && call->in[i])
            c.in[i] = weft_partial(call->row->reduce);
    }
    for (int j = 0; j < call->n_out; j++) {
        int d = wf_dim_of_label(s->labels.out[j], label);

        c.out[j] = d >= 0 ? shard_like(shard, d) : partial_output(call);
    }
    if (s->labels.follow)
        consider_followed(s, c.in[0]);
    else
        consider_candidate(s, &c, label);
}

/* Terms with fewer elements in the dim than ranks are reduced for all rather than to shards, of
 * which some would be empty. */
static bool has_fewer_elements_than_ranks(const struct candidate_search *s, int label)
{
    bool too_short = false;

    for (int i = 0; i < s->call->n_in; i++) {
        int d = wf_dim_of_label(s->labels.in[i], label);

        if (d < 0 || !is_input_distributed(s->call, i)) continue;
        if (weft_shards(s->call->in[i]->placements[s->axis], d)) return false;
        too_short |= is_input_partial(s, i) &&
                     s->call->in[i]->desc.global[d] < weft_mesh_axis_size(s->mesh, s->axis);
    }
    return too_short;
}

static void consider_sharding_label(struct candidate_search *s, int label)
{
    struct wf_shard_variants variants;

    if (label < 32 && s->labels.even >> label & 1 && !label_splits_evenly(s, label)) return;
    if (has_fewer_elements_than_ranks(s, label)) return;
    wf_list_shard_variants(&variants, s->call, &s->labels, s->mesh, s->axis, label);
    for (int k = 0; k < variants.count; k++) consider_shard_variant(s, label, variants.shard[k]);
}

/* Masked terms beside other terms that are added up: together they are terms of a sum. */
static bool mixes_masked_terms(weft_placement p, weft_placement q)
{
    return p.reduce != q.reduce && (p.reduce == WEFT_MASKED || q.reduce == WEFT_MASKED) &&
           wf_partials_add_terms(p, q);
}

/* The placement of the set's inputs that are partial; false: none, or none that passes the op. */
static bool find_partial_input(const struct candidate_search *s, uint32_t set,
                               weft_placement *partial)
{
    bool found = false;

    for (int i = 0; i < s->call->n_in; i++) {
        weft_placement p;

        if (!(set >> i & 1) || !is_input_distributed(s->call, i)) continue;
        p = s->call->in[i]->placements[s->axis];
        if (!weft_is_partial(p)) continue;
        if (!found) *partial = p;
        if (mixes_masked_terms(p, *partial)) *partial = weft_partial(WEFT_SUM);
        found = true;
    }
    return found && wf_op_passes_partial(s->call, (weft_reduce)partial->reduce);
}

/* Nothing but a norm becomes a term of one: it would lose its sign. */
static bool all_can_become(const struct candidate_search *s, uint32_t set, weft_placement partial)
{
    for (int i = 0; partial.reduce == WEFT_NORM && i < s->call->n_in; i++)
        if (set >> i & 1 && is_input_distributed(s->call, i) &&
            !weft_placement_equal(s->call->in[i]->placements[s->axis], partial))
            return false;
    return true;
}

static void consider_partial_inputs(struct candidate_search *s, uint32_t set)
{
    const struct wf_infer *call = s->call;
    struct candidate c = {0};
    weft_placement partial;

    if (!set || !find_partial_input(s, set, &partial) || !all_can_become(s, set, partial)) return;
    for (int i = 0; i < call->n_in; i++) {
        if (!(set >> i & 1) || !call->in[i]) continue;
        if (!call->in[i]->mesh) return; /* a plain number cannot be counted once */
        c.in[i] = partial;
    }
    /* Masked terms are moved as such; what is computed of them, or added up, is a term as any. */
    if (partial.reduce == WEFT_MASKED && !(call->row->linear & (uint32_t)WF_ANY_REDUCE))
        partial = weft_partial(WEFT_SUM);
    for (int j = 0; j < call->n_out; j++) c.out[j] = partial;
    consider_candidate(s, &c, 0);
}

static uint64_t labels_in_use(const struct wf_dim_labels *labels, int n_in, int n_out)
{
    uint64_t used = 0;

    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        for (int i = 0; i < n_in; i++) used |= (uint64_t)1 << labels->in[i][d];
        for (int j = 0; j < n_out; j++) used |= (uint64_t)1 << labels->out[j][d];
    }
    return used & ~(uint64_t)1;
}

/* ---- strategies of a registered rule ---- */

enum { MAX_STRATEGIES = 256 };

struct weft_rule {
    const struct wf_infer *call;
    int count;
    struct candidate strategies[MAX_STRATEGIES];
};

weft_status weft_rule_accept(weft_rule *rule, const weft_placement *in, const weft_placement *out)
{
    const struct wf_infer *call;
    struct candidate *c;

    WF_NEED(rule, WEFT_ERR_ARG, "rule: a strategy is named inside a rule function");
    WF_NEED(in && out, WEFT_ERR_ARG, "rule: a strategy needs placements of inputs and outputs");
    call = rule->call;
    c = &rule->strategies[rule->count];
    WF_NEED(rule->count < MAX_STRATEGIES, WEFT_ERR_ARG,
            "%s: its rule names more than %d strategies", call->name, MAX_STRATEGIES);
    *c = (struct candidate){0};
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i])
            WF_TRY(
                wf_placements_normalize(&c->in[i], &in[i], 1, call->in[i]->desc.ndim, call->name));
    for (int j = 0; j < call->n_out; j++)
        if (call->out[j].ndim >= 0)
            WF_TRY(wf_placements_normalize(&c->out[j], &out[j], 1, call->out[j].ndim, call->name));
    rule->count++;
    return WEFT_OK;
}

/* A plain number is whole on every rank: no strategy that wants a shard or a term of it. */
static bool strategy_allows_plain_inputs(const struct wf_infer *call, const struct candidate *c)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && !call->in[i]->mesh && c->in[i].kind != WEFT_KIND_REPLICATE) return false;
    return true;
}

static void consider_user_strategies(struct candidate_search *s, const weft_rule *rule)
{
    for (int k = 0; k < rule->count; k++)
        if (strategy_allows_plain_inputs(s->call, &rule->strategies[k]))
            consider_candidate(s, &rule->strategies[k], 0);
}

static weft_status call_user_rule(const struct wf_infer *call, weft_rule **made)
{
    struct wf_user_rule rule = wf_user_rule(call->row, call->attrs);
    weft_op_info info;

    *made = NULL;
    if (!rule.function) {
        WF_NEED(call->row->attrs != WF_ATTRS_registered, WEFT_ERR_LAYOUT,
                "%s does not have a sharding strategy registered: %s", call->name,
                wf_infer_inputs_text(call));
        return WEFT_OK;
    }
    wf_fill_op_info(&info, call);
    *made = WF_NEW(weft_rule);
    (*made)->call = call;
    return rule.function(&info, *made, rule.payload);
}

/* ---- the search ---- */

/* Nothing that is looked at later can be cheaper. */
static bool best_candidate_is_free(const struct candidate_search *s)
{
    return s->any && s->cost.time == 0 && s->cost.wish == 0 && s->cost.changes == 0;
}

static void consider_op_row_rule(struct candidate_search *s, uint64_t used)
{
    if (s->labels.follow && is_input_distributed(s->call, 0) &&
        wf_is_shard_or_strided(s->call->in[0]->placements[s->axis]))
        consider_followed(s, s->call->in[0]->placements[s->axis]);
    for (uint64_t left = used; left && !best_candidate_is_free(s); left &= left - 1)
        consider_sharding_label(s, __builtin_ctzll(left));
    if (best_candidate_is_free(s)) return;
    consider_partial_inputs(s, s->call->row->linear & 0xff);
    consider_partial_inputs(s, s->call->row->linear >> 8 & 0xff);
}

static weft_status fail_no_placement_in_place(const struct wf_infer *call)
{
    char into[256];

    wf_layout_print(call->want, into, sizeof into);
    return WF_FAIL(WEFT_ERR_LAYOUT,
                   "%s in place: in-place operations that require placement changes are not "
                   "supported: %s would be another than %s",
                   call->name, wf_infer_inputs_text(call), into);
}

static weft_status choose_for_each_axis(struct candidate_search *s, const weft_rule *rule,
                                        struct wf_placement_choice *choice)
{
    int n_axes = weft_mesh_ndim(s->mesh);
    uint64_t used = 0;

    choice->cost = 0;
    choice->depends_on_requires_grad = false;
    s->label = 0;
    memset(&s->labels, 0, sizeof s->labels);
    if (!rule) {
        wf_label_dims(s->call, &s->labels);
        used = labels_in_use(&s->labels, s->call->n_in, s->call->n_out);
    }
    for (int label = 0; label < 64; label++) s->ways[label] = 1;
    for (int i = 0; i < s->call->n_in; i++)
        if (is_input_distributed(s->call, i)) s->now[i] = *s->call->in[i];
    for (s->axis = 0; s->axis < n_axes; s->axis++) {
        s->any = false;
        s->link = wf_link_of_axis(weft_mesh_axis_name(s->mesh, s->axis));
        s->product_of_terms = is_product_of_partials(s);
        choice->depends_on_requires_grad |= s->product_of_terms;
        consider_candidate(s, &(struct candidate){0}, 0); /* all zero is replicated */
        if (rule)
            consider_user_strategies(s, rule);
        else
            consider_op_row_rule(s, used);
        if (!s->any) return fail_no_placement_in_place(s->call);
        s->chosen[s->axis] = s->best;
        if (s->label) s->ways[s->label] *= weft_mesh_axis_size(s->mesh, s->axis);
        for (int i = 0; i < s->call->n_in; i++) {
            choice->in[i][s->axis] = s->best.in[i];
            s->now[i].placements[s->axis] = s->best.in[i];
        }
        for (int j = 0; j < s->call->n_out; j++) choice->out[j][s->axis] = s->best.out[j];
        choice->cost += s->cost.inputs;
    }
    /* Each axis was chosen by itself; turns and segments only mean something together. Operands
     * that share a letter have the same cuts of it, so they stay alike. */
    for (int i = 0; i < s->call->n_in; i++) wf_placements_renormalize(choice->in[i], n_axes);
    for (int j = 0; j < s->call->n_out; j++) wf_placements_renormalize(choice->out[j], n_axes);
    return WEFT_OK;
}

weft_status wf_choose_placements(const struct wf_infer *call, const weft_mesh *mesh,
                                 struct wf_placement_choice *choice)
{
    struct candidate_search s;
    weft_rule *rule;
    weft_status status = call_user_rule(call, &rule);

    s.call = call;
    s.mesh = mesh;
    if (status == WEFT_OK) status = choose_for_each_axis(&s, rule, choice);
    wf_free(rule);
    return status;
}
