/*
 * reduce.c: the reduction tree over ranks, in blocks that stay in the first cache: every input is
 * read once, every output is written once, whatever the number of ranks.
 */
#include "comm/reduce.h"

#include <stdint.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/settings/knob.h"

enum {
    BLOCK_BYTES = 4096, /* of the type in which terms are combined */
    MAX_DEPTH = 17      /* of the tree: 65536 ranks */
};

typedef void combine_loop(void *out, const void *left, const void *right, size_t n);

struct loops {
    combine_loop *combine[WEFT_DTYPE_COUNT][WEFT_REDUCE_COUNT];
    void (*widen[WF_FLOAT_DTYPES])(float *out, const void *in, size_t n); /* 16-bit floats only */
    void (*narrow[WF_FLOAT_DTYPES])(void *out, const float *in, size_t n);
};

#define LOOP(name) name##_plain
#define LOOP_TARGET
#include "comm/reduce_loops.h"
#undef LOOP
#undef LOOP_TARGET

#if defined(__x86_64__)
#define LOOP(name) name##_avx2
#define LOOP_TARGET __attribute__((target("avx2")))
#include "comm/reduce_loops.h"
#undef LOOP
#undef LOOP_TARGET

static const struct loops *choose_loops_for_cpu(void)
{
    bool allowed = wf_knobs.isa == 0 || wf_knobs.isa >= 3;

    return allowed && __builtin_cpu_supports("avx2") ? &loops_avx2 : &loops_plain;
}
#else
static const struct loops *choose_loops_for_cpu(void) { return &loops_plain; }
#endif

struct tree {
    const struct loops *loops;
    combine_loop *combine;
    weft_dtype dtype;
    const void *const *ins;
    size_t in_bytes, sum_bytes; /* of one element, as read and as combined */
    bool widen;
    size_t first, n; /* the block */
    _Alignas(64) char scratch[MAX_DEPTH + 1][BLOCK_BYTES];
};

static const void *tree_leaf(struct tree *tree, int index, int depth)
{
    const char *in = (const char *)tree->ins[index] + tree->first * tree->in_bytes;

    if (!tree->widen) return in;
    tree->loops->widen[tree->dtype]((float *)(void *)tree->scratch[depth], in, tree->n);
    return tree->scratch[depth];
}

/* The terms [low, low + n) of the block: an input itself, or in scratch[depth]. */
static const void *reduce_subtree(struct tree *tree, int low, int n, int depth)
{
    int split;
    const void *left, *right;

    if (n == 1) return tree_leaf(tree, low, depth);
    split = wf_tree_split(n);
    left = reduce_subtree(tree, low, split, depth);
    right = reduce_subtree(tree, low + split, n - split, depth + 1);
    tree->combine(tree->scratch[depth], left, right, tree->n);
    return tree->scratch[depth];
}

/* The root writes to its place directly: element by element, after both sides are read. */
static void reduce_block(struct tree *tree, int n, void *out, bool narrow)
{
    int split = n > 1 ? wf_tree_split(n) : 1;
    const void *left = reduce_subtree(tree, 0, split, 0);
    const void *right = n > 1 ? reduce_subtree(tree, split, n - split, 1) : NULL;

    if (narrow) {
        if (right) tree->combine(tree->scratch[0], left, right, tree->n);
        tree->loops->narrow[tree->dtype](
            out, (const float *)(const void *)(right ? tree->scratch[0] : left), tree->n);
    } else if (right) {
        tree->combine(out, left, right, tree->n);
    } else if (out != left) {
        memcpy(out, left, tree->n * tree->sum_bytes);
    }
}

void wf_reduce_tree_wide(void *const *outs, int n_outs, const void *const *ins, int n, size_t count,
                         weft_dtype dtype, weft_reduce reduce, enum wf_reduce_wide wide)
{
    bool half = wf_dtype_is_16_bit_float(dtype);
    size_t element = weft_dtype_size(dtype), sum_bytes = half ? sizeof(float) : element;
    size_t out_bytes = wide == WF_WIDE_OUT ? sum_bytes : element;
    size_t block = BLOCK_BYTES / sum_bytes;
    bool narrow = half && wide != WF_WIDE_OUT;
    struct tree tree;

    tree.loops = choose_loops_for_cpu();
    tree.combine = tree.loops->combine[dtype][reduce];
    tree.dtype = dtype;
    tree.ins = ins;
    tree.sum_bytes = sum_bytes;
    tree.in_bytes = wide == WF_WIDE_IN ? sum_bytes : element;
    tree.widen = half && wide != WF_WIDE_IN;
    for (size_t first = 0; first < count; first += block) {
        char *out = (char *)outs[0] + first * out_bytes;

        tree.first = first;
        tree.n = count - first < block ? count - first : block;
        reduce_block(&tree, n, out, narrow);
        for (int i = 1; i < n_outs; i++)
            memcpy((char *)outs[i] + first * out_bytes, out, tree.n * out_bytes);
    }
}

void wf_reduce_tree(void *const *outs, int n_outs, const void *const *ins, int n, size_t count,
                    weft_dtype dtype, weft_reduce reduce)
{
    wf_reduce_tree_wide(outs, n_outs, ins, n, count, dtype, reduce, WF_NARROW);
}
