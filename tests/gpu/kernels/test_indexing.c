/*
 * test_indexing.c: CUDA kernels of indexing beside the CPU's, on the same operands: taken by index
 * tensors, put, added and joined in the order of the elements, so to the same bits. Tables are
 * whole or a box of the whole, indices come several times, or from the end.
 */
#include "both_devices.h"

#include <weft/types.h>

static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16,
                                    WEFT_I32, WEFT_I64, WEFT_U8};
enum { DTYPES = 7, MARGIN = 2 };

/* A table of which a rank has a box where `box`: in the dims that are counted the whole has MARGIN
 * more elements on both sides. */
static struct operand table_new(weft_dtype dtype, enum lie lie, const struct sizes *s,
                                const int *counted, int n, bool box)
{
    struct operand o = operand_new(dtype, lie, s->ndim, s->n);

    operand_whole(&o, 7, 5);
    for (int i = 0; i < n && box; i++) {
        o.desc.offset[counted[i]] = MARGIN;
        o.desc.global[counted[i]] += 2 * MARGIN;
    }
    return o;
}

/* Indices of a dim of `global` elements, every third from the end where `wrap`. */
static struct operand indices_new(enum lie lie, const struct sizes *s, int64_t global, bool wrap,
                                  int seed)
{
    struct operand o = operand_new(seed % 2 ? WEFT_I32 : WEFT_I64, lie, s->ndim, s->n);

    for (int64_t i = 0; i < o.desc.numel; i++) {
        int64_t v = (i * (5 + seed) + i / 7) % global;

        o.values[i] = (double)(wrap && i % 3 == 0 ? v - global : v);
    }
    operand_write(&o);
    return o;
}

static void expect_alike(struct operand *y, const char *what)
{
    expect_same_bits(y, what);
    both_operands_free(y);
}

/* ---- whole dims: index, index_put, index_add ---- */

struct of_dims {
    struct sizes table, index[2], rows;
    int n, counted[2], at;
};

static const struct of_dims of_dims[] = {
    {{3, {6, 5, 8}}, {{1, {7}}}, {3, {6, 7, 8}}, 1, {1}, 1},
    {{3, {6, 5, 8}}, {{2, {3, 40}}}, {4, {3, 40, 5, 8}}, 1, {0}, 0},
    {{3, {6, 5, 9}}, {{1, {11}}}, {3, {6, 5, 11}}, 1, {2}, 2},
    {{3, {6, 5, 8}}, {{2, {2, 3}}, {1, {3}}}, {3, {2, 3, 5}}, 2, {0, 2}, 0},
    {{1, {6}}, {{1, {300}}}, {1, {300}}, 1, {0}, 0},
    {{2, {6, 5}}, {{1, {0}}}, {2, {0, 5}}, 1, {0}, 0},
    {{2, {600, 3}}, {{1, {700}}}, {2, {700, 3}}, 1, {0}, 0},
};
enum { OF_DIMS = sizeof of_dims / sizeof *of_dims };

/* `which`: 0 index, 1 index_put, 2 index_add; for these with a table or without. */
static void check_of_dims(const struct of_dims *c, int which, weft_dtype dtype, enum lie lie,
                          bool box, bool with_table)
{
    static const struct kernel kernels[] = {KERNEL(index), KERNEL(index_put), KERNEL(index_add)};
    union wf_op_attrs attrs = {.index_put = {.at = c->at, .wrap = lie % 2}};
    struct operand table = table_new(dtype, lie, &c->table, c->counted, c->n, box), index[2];
    struct operand rows = operand_new(dtype, lie, c->rows.ndim, c->rows.n), y[2];
    struct operand *in[4] = {&table, &index[0], &index[1]};

    memset(attrs.index_put.dim, -1, sizeof attrs.index_put.dim);
    for (int i = 0; i < c->n; i++) {
        attrs.index_put.dim[i] = (int8_t)c->counted[i];
        index[i] = indices_new(lie, &c->index[i], table.desc.global[c->counted[i]], lie % 2, i);
    }
    if (which == 0) {
        union wf_op_attrs of_index = {.index = {.at = c->at, .wrap = attrs.index_put.wrap}};

        memcpy(of_index.index.dim, attrs.index_put.dim, sizeof of_index.index.dim);
        for (int i = 0; i < 2; i++) y[i] = operand_new(dtype, PLAIN, c->rows.ndim, c->rows.n);
        run_both(&kernels[0], y, 1 + c->n, in, &of_index, NULL);
    } else {
        struct operand *put[] = {&rows, &index[0], with_table ? &table : NULL, &index[1]};

        operand_whole(&rows, 11, 9);
        for (int i = 0; i < 2; i++)
            y[i] = table_new(dtype, PLAIN, &c->table, c->counted, c->n, box);
        run_both(&kernels[which], y, 2 + c->n, put, &attrs, NULL);
    }
    expect_alike(y, kernels[which].name);
    OPERANDS_FREE(&table, &rows);
    for (int i = 0; i < c->n; i++) operand_free(&index[i]);
}

WT_UNIT(index_tensors__count_dims)
{
    for (int i = 0; i < OF_DIMS * DTYPES * 3; i++)
        for (int lie = 0; lie < LIES; lie++)
            check_of_dims(&of_dims[i % OF_DIMS], i / OF_DIMS % 3, dtypes[i / OF_DIMS / 3],
                          nth_lie(lie), (i + lie) % 2, lie % 3);
}

/* So many that places are taken in any order first; `heavy`: half of them for one row, too many to
 * be put in order by counting. */
static void check_many(int64_t table_rows, bool heavy)
{
    enum { MANY = 17000 };
    static const struct kernel kernels[] = {KERNEL(index_put), KERNEL(index_add)};
    union wf_op_attrs attrs = {.index_put = {.at = 0}};
    struct operand rows = operand_noise(WEFT_F32, PLAIN, 1, (int64_t[]){MANY}, 3);
    struct operand index = operand_new(WEFT_I32, PLAIN, 1, (int64_t[]){MANY});

    memset(attrs.index_put.dim, -1, sizeof attrs.index_put.dim);
    attrs.index_put.dim[0] = 0;
    for (int64_t i = 0; i < MANY; i++)
        index.values[i] = (double)(heavy && i % 2 ? 5 : i * i / 7 % table_rows);
    operand_write(&index);
    for (int k = 0; k < 2; k++) {
        struct operand y[2];

        for (int i = 0; i < 2; i++) y[i] = operand_new(WEFT_F32, PLAIN, 1, &table_rows);
        run_both(&kernels[k], y, 2, (struct operand *[]){&rows, &index}, &attrs, NULL);
        expect_alike(y, kernels[k].name);
    }
    OPERANDS_FREE(&rows, &index);
}

WT_UNIT(index_tensors__of_many_rows)
{
    check_many(3000, true);
    check_many(3000, false);
    check_many(270000, true); /* whose places do not fit into shared memory */
}

/* ---- a dim of each element: gather, scatter and its kin ---- */

static const struct sizes tables[] = {{1, {40}}, {2, {5, 9}}, {3, {4, 6, 5}}, {2, {700, 2}}};
static const struct sizes smaller[] = {{1, {90}}, {2, {4, 9}}, {3, {3, 6, 2}}, {2, {700, 1}}};

static void check_of_elements(int i, int dim, weft_dtype dtype, enum lie lie, bool box)
{
    static const struct kernel gather = KERNEL(gather),
                               puts[] = {KERNEL(scatter), KERNEL(scatter_add),
                                         KERNEL(scatter_reduce)};
    static const weft_reduce reduces[] = {WEFT_PRODUCT, WEFT_MAX, WEFT_MIN};
    struct operand table = table_new(dtype, lie, &tables[i], &dim, 1, box);
    struct operand index = indices_new(lie, &smaller[i], table.desc.global[dim], false, dim);
    struct operand rows = operand_new(dtype, lie, smaller[i].ndim, smaller[i].n), y[2];
    union wf_op_attrs of_gather = {.dim = {.dim = dim}};

    for (int k = 0; k < 2; k++) y[k] = operand_new(dtype, PLAIN, smaller[i].ndim, smaller[i].n);
    run_both(&gather, y, 2, (struct operand *[]){&table, &index}, &of_gather, NULL);
    expect_alike(y, gather.name);
    operand_whole(&rows, 11, 9);
    for (int which = 0; which < 5; which++) {
        union wf_op_attrs attrs = {.scatter = {.dim = dim, .size = tables[i].n[dim]}};
        struct operand *in[] = {&rows, &index, which % 2 ? NULL : &table};

        if (which >= 2) attrs.scatter.reduce = reduces[which - 2];
        for (int k = 0; k < 2; k++) y[k] = table_new(dtype, PLAIN, &tables[i], &dim, 1, box);
        run_both(&puts[which < 2 ? which : 2], y, 3, in, &attrs, NULL);
        expect_alike(y, puts[which < 2 ? which : 2].name);
    }
    OPERANDS_FREE(&table, &index, &rows);
}

WT_UNIT(index_tensors__of_each_element)
{
    for (int i = 0; i < 4 * DTYPES; i++)
        for (int dim = 0; dim < tables[i % 4].ndim; dim++)
            for (int lie = 0; lie < LIES; lie++)
                check_of_elements(i % 4, dim, dtypes[i / 4], nth_lie(lie), (i + lie) % 2);
}

int main(void) { return wt_unit_main("indexing"); }
