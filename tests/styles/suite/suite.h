/*
 * suite.h: the regression suite of the styles: what its parts share. Rows are in rows.def.
 *
 *   cases.c      the product of the rows: names, layouts, filters, pairs
 *   absent.c     what does not exist, and why
 *   numbers.c    sizes, and the numbers that go in
 *   layers.c     the modules of the rows and their parameters
 *   apply.c      the styles of the rows
 *   reference.c  what one device computes
 *   moves.c      closed forms of what is communicated
 *   compare.c    tensors against arrays, and what a rank has to complain about
 *   watch.c      what must not change
 *   compiled.c   modules that are called compiled
 *   trial.c      one case: run it on all ranks and compare
 *   matrix.c     results as tables
 *   options.c    the command line
 *   main.c       meshes, ranks, the loop over cases, the self-test
 */
#pragma once

#include <weft/weft.h>

/* ---- rows ---- */

enum ws_layer_id {
#define WS_LAYER(id, make, input, output, known, depth) WS_##id,
#include "rows.def"
#undef WS_LAYER
    WS_LAYERS
};

enum ws_size {
#define WS_SIZE(id, name) WS_##id,
#include "rows.def"
#undef WS_SIZE
    WS_SIZES
};

enum ws_reason {
#define WS_ABSENT(test, reason) WS_ABSENT_##test,
#include "rows.def"
#undef WS_ABSENT
    WS_REASONS
};

enum ws_style_id {
    WS_COLWISE,
    WS_ROWWISE,
    WS_SEQUENCE,
    WS_LOSS,
    WS_CUSTOM,
    WS_PREPARE_INPUT,
    WS_PREPARE_OUTPUT,
    WS_PREPARE_BOTH,
    WS_PLAN,
    WS_READY,
    WS_READY_SEQUENCE
};

/** What a layer sends by itself. */
enum ws_own { WS_NOTHING, WS_SUMS, WS_GATHER };

struct ws_layer {
    const char *input, *output; /* dims, a letter each */
    int known, depth;
};

struct ws_subject {
    const char *name;
    enum ws_style_id style;
    enum ws_layer_id layer;
    const char *wants, *gives, *back;
    enum ws_own own;
    int times;
    const char *parameters;
};

/** How a tensor comes or goes. */
struct ws_way {
    const char *name, *layout; /* NULL: the style's own */
    bool distributed;
};

enum { WS_SUBJECTS = 32, WS_VALUES = 16, WS_NAME = 160, WS_PARAMETERS = 16 };

extern const struct ws_subject ws_subjects[];
extern const int ws_n_subjects;
extern const struct ws_layer ws_layers[WS_LAYERS];
extern const char *const ws_reasons[WS_REASONS];

/* ---- cases ---- */

enum ws_column {
    WS_INPUT,
    WS_OUTPUT,
    WS_SIZE_COLUMN,
    WS_MESH,
    WS_DTYPE,
    WS_BIAS,
    WS_FROZEN,
    WS_COLUMNS
};

/** A subject and a value of each column. */
struct ws_case {
    uint8_t subject, at[WS_COLUMNS];
};

/** What a number of ranks offers. */
struct ws_grid {
    int ranks;
    int ways[2]; /* ranks along the axis of the styles, per value of the mesh column; 0: no mesh */
};

int ws_column_values(enum ws_column column);
const char *ws_value_name(enum ws_column column, int value);

const struct ws_subject *ws_subject_of(const struct ws_case *c);
const struct ws_layer *ws_layer_of(const struct ws_case *c);
const struct ws_way *ws_input_of(const struct ws_case *c);
const struct ws_way *ws_output_of(const struct ws_case *c);
weft_dtype ws_dtype_of(const struct ws_case *c);
bool ws_has_bias(const struct ws_case *c);
bool ws_is_frozen(const struct ws_case *c);

/** "colwise/linear/in=S(0)/out=R/uneven/n4/2d/bf16/bias/frozen" */
void ws_case_name(char text[WS_NAME], const struct ws_case *c, const struct ws_grid *grid);

/** The first reason for which a combination does not exist; WS_REASONS: it does. */
int ws_reason_of(const struct ws_case *c, const struct ws_grid *grid);

/** How many combinations do not exist, by reason and subject. */
typedef int64_t ws_absences[WS_REASONS][WS_SUBJECTS];

/**
 * All cases that exist and are chosen, the same on every rank; the caller frees.
 *
 * `filter` is a pattern on the name (without wildcards: a part of it), NULL for all. With `pairs`
 * only as many as it takes for every two values of two columns to meet. What the filter matches but
 * does not exist is counted in `absent`.
 */
struct ws_case *ws_cases(int *count, ws_absences absent, const struct ws_grid *grid,
                         const char *filter, bool pairs);

/* ---- layouts of a case: placements on the axis, with dims counted from the front ---- */

struct ws_layouts {
    weft_placement given; /* of the input */
    weft_placement wants, gives;
    weft_placement out;  /* of the output */
    weft_placement back; /* of the gradient that the layer makes of the input */
    bool has_back;
};

void ws_layouts_of(struct ws_layouts *layouts, const struct ws_case *c);
/** NULL: R */
weft_placement ws_placement(const char *text, int ndim);
/** What a gradient of a tensor placed so comes as: a partial sum's is whole. */
weft_placement ws_gradient_of(weft_placement p);

/* ---- sizes, numbers, modules ---- */

/** The size of a dim ('B'), and the shape of several ("BTC"); returns their number. */
int64_t ws_size_of(char letter, enum ws_size size, int ways);
int ws_shape(int64_t *shape, const char *dims, enum ws_size size, int ways);

/** What every number follows from. */
struct ws_source {
    uint64_t seed;
    int group; /* which group of ranks shares the layer */
};

/** The module of a case, plain, its parameters the same whenever it is made; the caller frees. */
weft_module *ws_module(const struct ws_case *c, int ways, uint64_t seed);
/** The first input, whole and plain, and what else the layer is called with (NULL: nothing).
 * Numbers are multiples of 1/16 in [-1, 1], so that bf16 has them and sums of some of them exactly.
 */
weft_tensor *ws_input(const struct ws_case *c, int ways, struct ws_source source);
weft_tensor *ws_target(const struct ws_case *c, int ways, struct ws_source source);
/** The gradient of the output, whole and plain. */
weft_tensor *ws_output_gradient(const weft_tensor *y, struct ws_source source);
/** The term of rank `index` of `ways` in a partial sum that is the first input; as exact. */
weft_tensor *ws_input_term(const struct ws_case *c, int index, int ways, struct ws_source source);

/** The parameters of a tree, each with its path without the model around it. */
struct ws_parameters {
    int n;
    struct {
        char name[64];
        weft_tensor *tensor;
    } at[WS_PARAMETERS];
};
void ws_parameters_of(struct ws_parameters *p, weft_module *m);

/** The layout that the rows name for a parameter over so many ranks; false: it stays plain.
 *  `later`: its gradient waits. */
bool ws_parameter_layout(weft_placement *layout, bool *later, const struct ws_case *c,
                         const char *name, const weft_tensor *parameter, int ways);

/** Put the style of the case on a module. */
weft_status ws_apply(weft_module *m, weft_mesh *mesh, const struct ws_case *c);

/* ---- one device ---- */

/** Numbers of a tensor, row-major. */
struct ws_numbers {
    double *of;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], n;
    double largest; /* magnitude */
};

struct ws_reference {
    bool made;
    struct ws_case of; /* columns that it does not depend on are 0 */
    int ways;
    weft_module *module;
    weft_tensor *x, *target, *y, *g; /* retained */
    struct ws_numbers y_numbers, x_gradient, gradient[WS_PARAMETERS];
    struct ws_parameters parameters;
    uint64_t draws; /* of the generator in forward and backward */
};

/** Make it anew where the case needs another one. fails: with the error recorded */
weft_status ws_reference_for(struct ws_reference *r, const struct ws_case *c, int ways,
                             struct ws_source source);
void ws_reference_clear(struct ws_reference *r);
/** Call the module as it was called then. */
weft_tensor *ws_reference_again(const struct ws_reference *r, uint64_t seed);

/* ---- closed forms ---- */

enum { WS_KINDS = 4 }; /* all-reduce, all-gather, reduce-scatter, all-to-all */

struct ws_tally {
    int64_t count[WS_KINDS], bytes[WS_KINDS], sent[WS_KINDS];
    int64_t others; /* collectives of other kinds or directions */
};

enum ws_phase { WS_FORWARD, WS_BACKWARD, WS_LATER };

/** What this rank of the axis should send in a phase; `parameters` are those of one device. */
struct ws_tally ws_expected(const struct ws_case *c, enum ws_phase phase,
                            const struct ws_parameters *parameters, weft_mesh *mesh);
/** What a ledger has heard; anything in another direction counts as others. */
struct ws_tally ws_heard(const weft_ledger *ledger, weft_direction direction);
extern const char *const ws_kind_names[WS_KINDS];

/* ---- running ---- */

/** What the self-test spoils, so that a case must fail. */
enum ws_spoil {
    WS_SPOIL_NOTHING,
#define WS_SPOIL(id, name) WS_SPOIL_##id,
#include "rows.def"
#undef WS_SPOIL
    WS_SPOILS
};

/** What one rank needs to run cases. */
struct ws_run {
    struct ws_grid grid;
    weft_mesh *world; /* one axis of all ranks, for verdicts */
    weft_mesh *tp[2]; /* per value of the mesh column */
    uint64_t seed;
    struct ws_source source[2];
    struct ws_reference reference;
    enum ws_spoil spoil;
    bool compile, whole; /* modules are called compiled, in segments or as a whole */
    bool spoiled;        /* it came to that in this case, on this rank */
    char failure[512];   /* of this rank in this case; "" none */
};

/** Run a case. ranks: all of the world. gives: true on all ranks when it passed on all; else
 *  `*rank` is the first that has a failure to show */
bool ws_try(struct ws_run *run, const struct ws_case *c, int *rank);

/** Record a failure of this rank, unless there is one. */
void ws_fail(struct ws_run *run, const char *format, ...) WEFT_PRINTF(2, 3);
/** The spoiled number is to be used here, and it is noted that it was. */
bool ws_spoils(struct ws_run *run, enum ws_spoil spoil);

/** A distributed tensor is placed so, or there is something to complain of. */
bool ws_check_layout(struct ws_run *run, const char *what, weft_tensor *t, weft_placement layout);
/** A distributed tensor against its reference: layout, and every element of this rank. ranks:
 *  collective over its mesh when it is partial */
void ws_compare(struct ws_run *run, const char *what, weft_tensor *t, weft_placement layout,
                const struct ws_numbers *want, int depth, enum ws_spoil spoil);
/** Of this rank's elements; equal ones have equal hashes. */
uint64_t ws_hash(const weft_tensor *t, uint64_t before);

/** What a thread has set, and the bytes of its tensors. */
struct ws_watch {
    weft_mesh *mesh;
    weft_guard guard;
    weft_implicit_replication replication;
    weft_device device;
    bool training;
    uint64_t seed, reference, parameters;
    int64_t live;
};
void ws_watch_begin(struct ws_watch *w, const struct ws_run *run, const struct ws_parameters *p);
/** Complain of what is not as it was. */
void ws_watch_end(const struct ws_watch *w, struct ws_run *run, const struct ws_parameters *p);

/* ---- compiled modules ---- */

/** What an immediate call of a module gave, and the same module compiled. */
struct ws_compiled {
    weft_module *module;
    weft_compiled *compiled;
    uint64_t bits;
};

/** Compile: an immediate call, then compiled ones until a list is replayed, each with its backward
 * from `g` where the output wants a gradient. Gradients are cleared. NULL target: one input */
void ws_compiled_begin(struct ws_compiled *c, struct ws_run *run, weft_module *m, weft_tensor *x,
                       weft_tensor *target, weft_tensor *g, const struct ws_parameters *p);
weft_tensor *ws_compiled_call(struct ws_compiled *c, weft_tensor *x, weft_tensor *target);
/** Complain unless output and gradients have the bits of the immediate call. */
void ws_compiled_check(const struct ws_compiled *c, struct ws_run *run, weft_tensor *x,
                       weft_tensor *y, const struct ws_parameters *p);

/* ---- results ---- */

struct ws_results {
    int64_t passed, failed;
    int64_t counts[WS_SUBJECTS][WS_COLUMNS][WS_VALUES][2]; /* failed, passed */
    ws_absences absent;
};

void ws_results_add(struct ws_results *results, const struct ws_case *c, bool passed);
void ws_matrix_print(const struct ws_results *results);
