/*
 * numbers.c: sizes of the rows, and the numbers that go into layers. Everything follows from a seed
 * and global indexes, so every rank makes the same.
 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* ---- sizes ---- */

struct dim {
    char letter;
    int scale, unit, least;
};

static const struct dim dims[] = {
#define WS_DIM(letter, scale, unit, least) {letter, scale, unit, least},
#include "rows.def"
#undef WS_DIM
};

static int64_t scaled(int scale, enum ws_size size, int ways)
{
    int less = ways / 2 + scale % 2;

    if (size == WS_EVEN) return (int64_t)scale * ways;
    if (size == WS_UNEVEN) return (int64_t)(scale + 1) * ways - 1;
    return less < ways ? less : ways - 1;
}

int64_t ws_size_of(char letter, enum ws_size size, int ways)
{
    const struct dim *d = dims;
    int64_t n;

    if (letter >= '0' && letter <= '9') return letter - '0';
    while (d->letter != letter) d++;
    n = scaled(d->scale, size, ways) * d->unit;
    return n > d->least ? n : d->least;
}

int ws_shape(int64_t *shape, const char *letters, enum ws_size size, int ways)
{
    int ndim = (int)strlen(letters);

    for (int d = 0; d < ndim; d++) shape[d] = ws_size_of(letters[d], size, ways);
    return ndim;
}

/* ---- numbers ---- */

enum which { X, G, TARGET, TERM };

/* The finalizer of splitmix64 (Steele et al. 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(struct ws_source source, int which, int64_t i)
{
    return mix(mix(mix(source.seed) + (uint64_t)source.group * 16 + (uint64_t)which) + (uint64_t)i);
}

static double element(struct ws_source source, enum which which, int64_t i)
{
    return ((double)(draw(source, (int)which, i) % 33) - 16) / 16;
}

static double term_of(struct ws_source source, int index, int ways, int64_t i)
{
    double first = element(source, X, i), term = 0;

    for (int r = 1; r < ways; r++) {
        double of_r = ((double)(draw(source, TERM + r, i) % 9) - 4) / 16;

        if (r == index) term = of_r;
        first -= of_r;
    }
    return index ? term : first;
}

/* ---- tensors ---- */

static int64_t numel(int ndim, const int64_t *shape)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

/* Room for the elements of a tensor on the host. */
static void *new_numbers(int ndim, const int64_t *shape, size_t size)
{
    void *numbers = malloc(((size_t)numel(ndim, shape) + 1) * size);

    if (!numbers) abort();
    return numbers;
}

static enum ws_size class_of(const struct ws_case *c)
{
    return (enum ws_size)c->at[WS_SIZE_COLUMN];
}

/* Rows of a table, or classes. With `ignored` about a quarter says that it has no target. */
static weft_tensor *index_tensor(const struct ws_case *c, int ways, struct ws_source source,
                                 bool ignored)
{
    int64_t shape[WEFT_MAX_DIMS], rows = ws_size_of('V', class_of(c), ways), *of;
    int ndim = ws_shape(shape, "BT", class_of(c), ways);
    weft_tensor *t;

    of = new_numbers(ndim, shape, sizeof *of);
    for (int64_t i = 0; i < numel(ndim, shape); i++) {
        uint64_t drawn = draw(source, TARGET, i);

        of[i] = ignored && i % 4 == 1 ? -100 : (int64_t)(drawn % (uint64_t)rows);
    }
    t = weft_from_data(WEFT_I64, shape, ndim, of);
    free(of);
    return t;
}

/* Term `index` of the input; -1: all of it. */
static weft_tensor *input_tensor(const struct ws_case *c, int index, int ways,
                                 struct ws_source source)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = ws_shape(shape, ws_layer_of(c)->input, class_of(c), ways);
    double *of = new_numbers(ndim, shape, sizeof *of);
    weft_tensor *t;

    for (int64_t i = 0; i < numel(ndim, shape); i++)
        of[i] = index < 0 ? element(source, X, i) : term_of(source, index, ways, i);
    t = weft_from_data(WEFT_F64, shape, ndim, of);
    free(of);
    return weft_cast(t, ws_dtype_of(c));
}

weft_tensor *ws_input(const struct ws_case *c, int ways, struct ws_source source)
{
    if (ws_subject_of(c)->layer == WS_EMBEDDING) return index_tensor(c, ways, source, false);
    return input_tensor(c, -1, ways, source);
}

weft_tensor *ws_input_term(const struct ws_case *c, int index, int ways, struct ws_source source)
{
    return input_tensor(c, index, ways, source);
}

weft_tensor *ws_target(const struct ws_case *c, int ways, struct ws_source source)
{
    if (ws_subject_of(c)->layer != WS_CROSS_ENTROPY) return NULL;
    return index_tensor(c, ways, source, true);
}

weft_tensor *ws_output_gradient(const weft_tensor *y, struct ws_source source)
{
    int64_t shape[WEFT_MAX_DIMS] = {0};
    weft_tensor *t;
    double *of;

    for (int d = 0; d < weft_ndim(y); d++) shape[d] = weft_size(y, d);
    of = new_numbers(weft_ndim(y), shape, sizeof *of);
    for (int64_t i = 0; i < weft_numel(y); i++) of[i] = element(source, G, i);
    if (weft_ndim(y) == 0) of[0] = 0.75; /* a loss must not be lost */
    t = weft_from_data(WEFT_F64, shape, weft_ndim(y), of);
    free(of);
    return weft_cast(t, weft_tensor_dtype(y));
}
