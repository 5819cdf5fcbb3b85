/*
 * weights.h: weights in safetensors files, with the names that Hugging Face gives them.
 *
 * Files are mapped, and each rank touches its own slices only, whatever the mesh and placements.
 * A file is checked to its last byte before anything of it is used. Ranks read the same files, so
 * what is wrong with one is an error on all of them; where only some ranks can see it (another
 * machine's copy, a full disk), the functions that all ranks call together tell everybody.
 * docs/howto/load-hugging-face-weights.md shows it from the outside.
 */
#pragma once

#include <stdio.h>

#include <weft/dtensor.h>
#include <weft/module.h>
#include <weft/nn.h>

typedef struct weft_weights weft_weights;

/** One tensor in a file. `dtype` is the file's word for it: "F32", "BF16", "F8_E4M3". */
typedef struct weft_weight {
    const char *name, *file, *dtype;
    int ndim;
    const int64_t *shape;
    int64_t bytes;
} weft_weight;

/* ---- reading ---- */

/**
 * Open weights: a .safetensors file; an index ("model.safetensors.index.json") of several; or a
 * folder with either, by its usual name.
 *
 * ranks: any; local; every rank may map the same file
 * gives: closed by weft_weights_close
 * fails: WEFT_ERR_NOT_FOUND without such a file; WEFT_ERR_IO for one that breaks the format, naming
 *        file and tensor
 */
WEFT_API weft_weights *weft_weights_open(const char *path);

/** Unmap the files; NULL is allowed. ranks: any; local */
WEFT_API weft_status weft_weights_close(weft_weights *weights);

/** How many tensors there are; one of them, in the order of names; the one with a name (also where
 *  a note says that it is stored under another: tied weights), NULL when there is none.
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API int64_t weft_weights_count(const weft_weights *weights);
WEFT_API const weft_weight *weft_weights_at(const weft_weights *weights, int64_t index);
WEFT_API const weft_weight *weft_weights_find(const weft_weights *weights, const char *name);

/** A note of the first file that has it (its __metadata__), NULL when none has.
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API const char *weft_weights_note(const weft_weights *weights, const char *key);

/**
 * Read a tensor into one that there is, in any layout: shapes must be equal, numbers are converted.
 *
 * Floats become floats of any width (rounded to nearest even), integers become floats and integers
 * that can hold them.
 * ranks: any; local; each rank reads what it holds
 * fails: WEFT_ERR_NOT_FOUND; WEFT_ERR_SHAPE; WEFT_ERR_DTYPE; WEFT_ERR_LAYOUT for a partial
 *        reduction; WEFT_ERR_STATE for a tensor without elements (WEFT_META) and for the result of
 *        a recorded op. A NULL `weights` that follows a failure ends the job, since other ranks may
 *        have opened theirs; in a world of one rank that failure is passed on
 */
WEFT_API weft_status weft_weights_read_into(weft_weights *weights, const char *name,
                                            weft_tensor *t);

/**
 * Read a tensor: spread over `mesh` by `placements` as weft_distribute_tensor would, but without
 * communication; plain when both are NULL.
 *
 * `as`: WEFT_AS(dtype); 0: the file's, and of integers without a sign but U8 the next wider type
 * ranks: any; local; all ranks of the mesh alike
 * gives: a tensor owned by the open scope
 * fails: as weft_weights_read_into, and WEFT_ERR_LAYOUT for placements that do not fit
 */
WEFT_API weft_tensor *weft_weights_read(weft_weights *weights, const char *name, unsigned as,
                                        weft_mesh *mesh, const weft_placement *placements);

/* ---- writing ---- */

typedef struct weft_named_tensor {
    const char *name;
    weft_tensor *tensor;
} weft_named_tensor;

/**
 * Write tensors, spread or plain, to one safetensors file: nothing is gathered, each rank writes
 * what it holds to its place, replicas once. A tensor that stands in the list twice is stored once,
 * under its first name; a note says so, and weft_weights_find knows both names.
 *
 * The file appears under its name when it is complete and on disk; until then what was there stays.
 * What a save that was killed left beside it (.weft-*.part) is removed by one that ends an hour or
 * more later.
 * ranks: all of the world, with equal lists
 * fails: WEFT_ERR_ARG for a name that is empty, no UTF-8 or stands twice, WEFT_ERR_LAYOUT for a
 *        partial result, WEFT_ERR_STATE for tensors without elements, WEFT_ERR_IO; on all ranks
 */
WEFT_API weft_status weft_weights_write(const char *path, const weft_named_tensor *tensors,
                                        int64_t count);

/* ---- names: whose weight is which ---- */

/**
 * One line: which names in a file make a parameter.
 *
 * `parameter` is a pattern of paths in the module, as those of plans
 * (docs/concepts/conventions.md). `name` says where it is in the file, each '*' replaced by what
 * the pattern's stood for, in order:
 *
 *     h.*.ln_1.weight            that one
 *     [transformer.]wte.weight   with or without what is in brackets
 *     lm_head.weight|wte.weight  the first of these that is there
 *     q.weight+k.weight+v.weight all of these, one behind another along the dim `join`
 *
 * The parameter may have its dims split further than the file ([3, heads, head, in] from
 * [3 heads head, in]): only the order of elements counts. A transposed matrix is [in, out] in the
 * file (GPT-2's Conv1D). `rows` matters when writing: how many leading dims of the parameter are
 * the first dim of the file's matrix, 0 meaning one; of joined names each but the first gets one
 * index of the dim `join`.
 */
typedef struct weft_weight_rule {
    const char *parameter, *name;
    int rows, join;
    bool transposed;
} weft_weight_rule;

/** How a family of models names its weights. `ignored`: patterns, of the same dialect, of names
 * that a file may have beside; ended by NULL. */
typedef struct weft_weight_names {
    const char *family;
    int n_rules;
    const weft_weight_rule *rules; /* the first that fits a parameter counts */
    const char *const *ignored;
} weft_weight_names;

/**
 * The names of a family: "gpt2" for weft_gpt, "gpt2-conv1d" for one with transposed weights,
 * "llama" for weft_llama, "bert" for weft_bert.
 *
 * ranks: any; local
 * gives: borrowed
 * fails: WEFT_ERR_NOT_FOUND listing the families
 */
WEFT_API const weft_weight_names *weft_weight_names_of_family(const char *family);

/**
 * The same names for a module that is a part of another, at the path `prefix` ("bert"): the paths
 * of its parameters get longer, the names in files stay. What the rest of the model has needs rules
 * of its own; a file is loaded into the part alone with the family's own table.
 *
 * ranks: any; local
 * gives: a table owned by the caller (weft_weight_names_release; NULL is allowed), which reads the
 *        texts of `names` where they are
 * fails: WEFT_ERR_ARG for ""
 */
WEFT_API weft_weight_names *weft_weight_names_under(const weft_weight_names *names,
                                                    const char *prefix);
WEFT_API void weft_weight_names_release(weft_weight_names *names);

/**
 * Fill a module's parameters, as they are spread. `names` NULL: the file's names are paths.
 *
 * Everything is looked up before anything is written: parameters for which the file has nothing,
 * names in the file that nothing asks for, and shapes that do not fit are reported together.
 * ranks: all of the world; nothing is sent but the verdict
 * fails: WEFT_ERR_NOT_FOUND, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE; as weft_weights_read_into; a NULL
 *        `weights` gives the failure that made it NULL, on all ranks
 */
WEFT_API weft_status weft_weights_load(weft_module *module, weft_weights *weights,
                                       const weft_weight_names *names);

/**
 * What weft_weights_load would read on this rank, without reading it: `*bytes` (NULL: not asked) in
 * all, and in `out` (NULL: nothing) a line per tensor of a file, with its bytes and slices:
 *
 *     blocks.0.mlp.up.weight: model.safetensors h.0.mlp.c_fc.weight: 4608 of 9216 bytes 0+48;0+24
 *
 * The numbers are first+count of the indices in the file, along each dim of the parameter. The
 * module may be on WEFT_META: so a model of any size is asked about before there is memory for it.
 *
 * ranks: any; local
 * fails: as weft_weights_load, of what its names, shapes and dtypes are
 */
WEFT_API weft_status weft_weights_reads_print(int64_t *bytes, weft_module *module,
                                              weft_weights *weights, const weft_weight_names *names,
                                              FILE *out);

/** Write a module's parameters under those names, stored as their rules say.
 *  ranks, fails: as weft_weights_write; WEFT_ERR_NOT_FOUND for a parameter without a rule */
WEFT_API weft_status weft_weights_save(weft_module *module, const char *path,
                                       const weft_weight_names *names);

/**
 * The same as Hugging Face's save_pretrained lays it out: model-00001-of-0000N.safetensors, ... of
 * at most `most_bytes` bytes of data each (a tensor that is larger has a file of its own) and
 * model.safetensors.index.json, in a folder that is there; model.safetensors when one file is
 * enough. The index is written last.
 *
 * What such a save left in the folder is replaced: names change when all files are complete, so the
 * disk needs room for both. Shards of other numbers, which nothing names any more, are removed.
 * ranks, fails: as weft_weights_save; when it fails, what was there stays. A job that is killed in
 *        the moment of renaming leaves a folder that weft_weights_open refuses, never one with
 *        weights of two saves
 */
WEFT_API weft_status weft_weights_save_shards(weft_module *module, const char *folder,
                                              int64_t most_bytes, const weft_weight_names *names);

/* ---- config.json ---- */

/**
 * A model's config.json: of GPT-2, Llama (also 3.1's stretched positions), BERT. Dropout is the
 * file's, of hidden states and of attention weights. The model is in f32 unless the
 * caller sets `dtype`.
 *
 * ranks: any; local
 * fails: WEFT_ERR_IO for what is no JSON; WEFT_ERR_ARG naming a key that is missing, of the wrong
 *        type, or set to what is not supported; *config is unchanged then. A file that this rank
 *        cannot open ends the job, since other ranks may; in a world of one rank it is
 *        WEFT_ERR_NOT_FOUND or WEFT_ERR_IO
 */
WEFT_API weft_status weft_gpt_config_read(weft_gpt_config *config, const char *path);
WEFT_API weft_status weft_llama_config_read(weft_llama_config *config, const char *path);
WEFT_API weft_status weft_bert_config_read(weft_bert_config *config, const char *path);

/**
 * The config.json that the transformers package reads beside a model's weights
 * (weft_weights_save_shards): weft_gpt_config_read and the others give the same config again, with
 * what is 0 by default as the size or number that it means.
 *
 * How a model is run (`by_heads`, `transposed`, `recompute`, `pooler`) is not in it. Llama's
 * longest text is written for stretched positions only, else it is transformers' 2048.
 *
 * ranks: all of the world, with equal configs; rank 0 writes. The file appears when it is complete,
 *        and until then what was there stays
 * fails: WEFT_ERR_ARG naming a key whose value is out of range or has no word (rotary.interleaved),
 *        WEFT_ERR_IO; on all ranks
 */
WEFT_API weft_status weft_gpt_config_write(const weft_gpt_config *config, const char *path);
WEFT_API weft_status weft_llama_config_write(const weft_llama_config *config, const char *path);
WEFT_API weft_status weft_bert_config_write(const weft_bert_config *config, const char *path);
