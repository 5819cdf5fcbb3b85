/* test_names.c: models under the names and with the shapes that Hugging Face's files have. */
/* mpi: 2 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scratch.h"
#include "support/worlds.h"

enum { VOCAB = 19, CONTEXT = 8, WIDTH = 12, HEADS = 3, LAYERS = 2, HEAD = WIDTH / HEADS };

static weft_module *gpt(uint64_t seed)
{
    weft_manual_seed(seed);
    return weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = CONTEXT, .width = WIDTH, .heads = HEADS, .layers = LAYERS});
}

/* Spread by heads; three heads are no multiple of most numbers of ranks. */
static weft_module *spread_gpt(struct wt_world *w, uint64_t seed)
{
    weft_module *m = gpt(seed);

    WT_EQ(weft_parallelize_module(m, w->mesh,
                                  (weft_plan[]){{"wte", weft_rowwise_parallel()},
                                                {"blocks.*.attn.qkv", weft_colwise_parallel()},
                                                {"blocks.*.attn.proj", weft_rowwise_parallel()},
                                                {"blocks.*.mlp.up", weft_colwise_parallel()},
                                                {"blocks.*.mlp.down", weft_rowwise_parallel()},
                                                {"head", weft_colwise_parallel()},
                                                {0}}),
          WEFT_OK);
    return m;
}

struct pair {
    weft_module *other;
    bool same;
    int count;
};

static weft_status compare(weft_module *m, const char *name, weft_tensor *t, void *payload)
{
    struct pair *pair = payload;
    char path[128];

    snprintf(path, sizeof path, "%s%s%s", weft_module_path(m), weft_module_path(m)[0] ? "." : "",
             name);
    pair->same &= wt_near_tensors(t, weft_module_parameter(pair->other, path), WT_EXACT);
    pair->count++;
    return WEFT_OK;
}

static bool same_models(weft_module *a, weft_module *b)
{
    struct pair pair = {.other = b, .same = true};

    weft_module_each_parameter(a, compare, &pair);
    return pair.same && pair.count == weft_module_parameter_count(b);
}

static bool has_shape(const weft_weight *w, int ndim, int64_t a, int64_t b)
{
    return w && w->ndim == ndim && w->shape[0] == a && (ndim < 2 || w->shape[1] == b);
}

/* Spread to file to plain, and back; the file has the shapes and the order that GPT-2's have. */
WT_TEST_IN_WORLD(gpt2__a_model_goes_to_a_file_and_comes_back_in_another_layout, w)
{
    const weft_weight_names *names = weft_weight_names_of_family("gpt2");
    weft_module *spread = spread_gpt(w, 1), *plain = gpt(2), *again = spread_gpt(w, 3);
    const char *path = wt_scratch("gpt.safetensors");
    weft_weights *file;

    WT_EQ(weft_weights_save(spread, path, names), WEFT_OK);
    file = weft_weights_open(path);
    WT_EQ(weft_weights_count(file), weft_module_parameter_count(plain));
    WT_ALL(has_shape(weft_weights_find(file, "transformer.h.1.attn.c_attn.weight"), 2, WIDTH,
                     3 * WIDTH));
    WT_ALL(has_shape(weft_weights_find(file, "transformer.h.0.attn.c_attn.bias"), 1, 3 * WIDTH, 0));
    WT_ALL(
        has_shape(weft_weights_find(file, "transformer.h.0.attn.c_proj.weight"), 2, WIDTH, WIDTH));
    WT_ALL(
        has_shape(weft_weights_find(file, "transformer.h.0.mlp.c_fc.weight"), 2, WIDTH, 4 * WIDTH));
    WT_ALL(has_shape(weft_weights_find(file, "transformer.wte.weight"), 2, VOCAB, WIDTH));
    WT_ALL(weft_weights_find(file, "lm_head.weight") != NULL);
    WT_EQ(weft_weights_load(plain, file, names), WEFT_OK);
    WT_EQ(weft_weights_load(again, file, names), WEFT_OK);
    WT_ALL(same_models(spread, plain));
    WT_ALL(same_models(again, plain));
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, spread, plain, again);
}

/* Element by element: column (k, h, d) of c_attn is row [k, h, d] of ours, and row h d of c_proj is
 * column [h, d]. */
WT_TEST_IN_WORLD(gpt2__fused_and_transposed_matrices_are_what_they_say, w)
{
    weft_module *m = gpt(1);
    weft_weights *file;
    double *ours, *theirs;
    bool same = true;

    WT_EQ(
        weft_weights_save(m, wt_scratch("stored.safetensors"), weft_weight_names_of_family("gpt2")),
        WEFT_OK);
    file = weft_weights_open(wt_scratch("stored.safetensors"));
    ours = wt_values(weft_module_parameter(m, "blocks.1.attn.qkv.weight"));
    theirs =
        wt_values(weft_weights_read(file, "transformer.h.1.attn.c_attn.weight", 0, NULL, NULL));
    for (int row = 0; row < 3 * WIDTH; row++) /* ((k * HEADS) + h) * HEAD + d */
        for (int c = 0; c < WIDTH; c++)
            same &= ours[row * WIDTH + c] == theirs[c * 3 * WIDTH + row];
    WT_ALL(same);
    free(ours);
    free(theirs);
    ours = wt_values(weft_module_parameter(m, "blocks.0.attn.proj.weight"));
    theirs =
        wt_values(weft_weights_read(file, "transformer.h.0.attn.c_proj.weight", 0, NULL, NULL));
    for (int out = 0; out < WIDTH; out++)
        for (int in = 0; in < WIDTH; in++)
            same &= ours[out * WIDTH + in] == theirs[in * WIDTH + out];
    WT_ALL(same);
    free(ours);
    free(theirs);
    weft_weights_close(file);
    weft_module_release(m);
}

/* As the files of the hub are: no prefix, no head of its own, masks among the weights. */
WT_TEST_IN_WORLD(gpt2__names_without_prefix_tied_heads_and_masks_are_taken, w)
{
    const weft_weight_names *names = weft_weight_names_of_family("gpt2");
    weft_module *from = gpt(1), *to = spread_gpt(w, 2);
    const char *path = wt_scratch("hub.safetensors");
    weft_named_tensor list[64];
    char text[64][64];
    weft_weights *file, *hub;
    int n = 0;

    WT_EQ(weft_weights_save(from, wt_scratch("full.safetensors"), names), WEFT_OK);
    file = weft_weights_open(wt_scratch("full.safetensors"));
    for (int64_t i = 0; i < weft_weights_count(file); i++) {
        const char *name = weft_weights_at(file, i)->name;

        if (strcmp(name, "lm_head.weight") == 0) continue;
        snprintf(text[n], sizeof text[n], "%s", name + strlen("transformer."));
        list[n] = (weft_named_tensor){text[n], weft_weights_read(file, name, 0, NULL, NULL)};
        n++;
    }
    list[n++] = (weft_named_tensor){"h.0.attn.bias", wt_constant(CONTEXT, CONTEXT, 1)};
    list[n++] = (weft_named_tensor){"h.1.attn.masked_bias", weft_full(WEFT_F32, NULL, 0, -1e4)};
    WT_EQ(weft_weights_write(path, list, n), WEFT_OK);
    hub = weft_weights_open(path);
    WT_EQ(weft_weights_load(to, hub, names), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_module_parameter(to, "head.weight"),
                           weft_module_parameter(from, "wte.weight"), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_module_parameter(to, "blocks.1.mlp.down.weight"),
                           weft_module_parameter(from, "blocks.1.mlp.down.weight"), WT_EXACT));
    WT_RELEASE(weft_weights_close, file, hub);
    WT_RELEASE(weft_module_release, from, to);
}

/* Made without elements, spread, and filled: no rank ever has the whole. */
WT_TEST_IN_WORLD(gpt2__a_model_without_elements_gets_them_from_the_file, w)
{
    const weft_weight_names *names = weft_weight_names_of_family("gpt2");
    weft_module *from = gpt(1), *to;
    weft_weights *file;

    WT_EQ(weft_weights_save(from, wt_scratch("meta.safetensors"), names), WEFT_OK);
    weft_set_default_device(WEFT_META);
    to = spread_gpt(w, 2);
    weft_set_default_device(WEFT_CPU);
    file = weft_weights_open(wt_scratch("meta.safetensors"));
    WT_FAILS(weft_weights_load(to, file, names), WEFT_ERR_STATE, "'wte.weight' has no elements");
    WT_EQ(weft_module_materialize(to, WEFT_CPU), WEFT_OK);
    WT_EQ(weft_weights_load(to, file, names), WEFT_OK);
    WT_ALL(same_models(from, to));
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, from, to);
}

static weft_status add_local_bytes(weft_module *m, const char *name, weft_tensor *t, void *payload)
{
    (void)m;
    (void)name;
    *(int64_t *)payload += weft_local_numel(t) * 4;
    return WEFT_OK;
}

/* What is said is what the layout holds: over all ranks each byte as often as it is held. trial 4.6
 */
WT_TEST_IN_WORLD(reads__are_those_of_the_parts_that_a_rank_holds, w)
{
    weft_module *whole = gpt(1), *spread;
    const weft_weight_names *names = weft_weight_names_of_family("gpt2-conv1d");
    weft_weights *file;
    int64_t all = 0, mine = 0, held = 0;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    WT_EQ(weft_weights_save(whole, wt_scratch("reads.safetensors"), names), WEFT_OK);
    file = weft_weights_open(wt_scratch("reads.safetensors"));
    WT_EQ(weft_weights_reads_print(&all, whole, file, names, NULL), WEFT_OK);
    WT_EQ(all, weft_module_numel(whole) * 4);
    weft_set_default_device(WEFT_META);
    spread = spread_gpt(w, 2);
    weft_set_default_device(WEFT_CPU);
    weft_module_each_parameter(spread, add_local_bytes, &held);
    WT_EQ(weft_weights_reads_print(&mine, spread, file, names, out), WEFT_OK);
    fclose(out);
    WT_EQ(mine, held);
    WT_ALL(wt_ranks() == 1 ? mine == all : mine < all);
    WT_ALL(strstr(text, "blocks.1.norm1.bias: ") != NULL && strstr(text, " 48 of 48 bytes 0+12\n"));
    free(text);
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, whole, spread);
}

static bool is_there(const char *folder, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Of all tensors in the file of one. */
static int64_t bytes_beside(weft_weights *file, const weft_weight *of)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < weft_weights_count(file); i++)
        if (strcmp(weft_weights_at(file, i)->file, of->file) == 0)
            bytes += weft_weights_at(file, i)->bytes;
    return bytes;
}

/* trial 4.6 */
WT_TEST_IN_WORLD(shards__of_a_model_are_files_with_an_index, w)
{
    enum { MOST = 3000 };
    weft_module *m = spread_gpt(w, 5), *whole = gpt(6), *again = spread_gpt(w, 7);
    const weft_weight_names *names = weft_weight_names_of_family("gpt2-conv1d");
    const char *folder = wt_scratch("shards");
    weft_weights *file;

    if (wt_rank() == 0) mkdir(folder, 0777);
    WT_ALL(true);
    WT_EQ(weft_weights_save_shards(m, folder, 0, names), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "shards of at most 0 bytes");
    WT_EQ(weft_weights_save_shards(m, folder, MOST, names), WEFT_OK);
    WT_ALL(is_there(folder, "model.safetensors.index.json"));
    WT_ALL(!is_there(folder, "model.safetensors"));
    file = weft_weights_open(folder);
    for (int64_t i = 0; i < weft_weights_count(file); i++) {
        const weft_weight *of = weft_weights_at(file, i);
        int64_t bytes = bytes_beside(file, of);

        WT_ALL(bytes <= MOST || bytes == of->bytes);
        WT_ALL(strstr(of->file, "/model-0000") != NULL && bytes < weft_module_numel(whole) * 4);
    }
    WT_EQ(weft_weights_load(whole, file, names), WEFT_OK);
    WT_EQ(weft_weights_load(again, file, names), WEFT_OK);
    WT_ALL(same_models(m, whole) && same_models(m, again));
    weft_weights_close(file);
    WT_EQ(weft_weights_save_shards(m, wt_scratch("."), 1 << 30, names), WEFT_OK);
    WT_ALL(is_there(wt_scratch("."), "model.safetensors"));
    WT_RELEASE(weft_module_release, m, whole, again);
}

WT_TEST_IN_WORLD(load__what_is_wrong_is_told_at_once_and_nothing_is_written, w)
{
    weft_module *m = gpt(1), *same = gpt(1);
    weft_named_tensor list[] = {{"wte.weight", wt_whole(WEFT_F32, 1, VOCAB, WIDTH)},
                                {"wpe.weight", wt_whole(WEFT_F32, 1, CONTEXT + 1, WIDTH)},
                                {"h.0.attn.c_attn.weight", wt_whole(WEFT_F32, 1, 3 * WIDTH, WIDTH)},
                                {"surprise", wt_constant(1, 1, 1)}};
    weft_weights *file;

    WT_EQ(weft_weights_write(wt_scratch("wrong.safetensors"), list, 4), WEFT_OK);
    file = weft_weights_open(wt_scratch("wrong.safetensors"));
    WT_EQ(weft_weights_load(m, file, weft_weight_names_of_family("gpt2")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "25 parameters are not in the file: blocks.0.norm1.weight");
    WT_EQ(weft_weights_load(m, file, weft_weight_names_of_family("gpt2")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "1 names in the file are not asked for: surprise");
    WT_EQ(weft_weights_load(m, file, weft_weight_names_of_family("gpt2")), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "2 do not fit: wpe.weight F32 [9,12] for wpe.weight f32 [8,12], "
                              "h.0.attn.c_attn.weight F32 [36,12]");
    WT_ALL(same_models(m, same));
    WT_EQ(weft_weights_load(m, weft_weights_open(wt_scratch("none")), NULL), WEFT_ERR_NOT_FOUND);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "none");
    WT_ALL(!weft_weight_names_of_family("gpt5"));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "no family 'gpt5'; there are gpt2, gpt2-conv1d, llama, bert");
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, m, same);
}

/* ---- rules of one's own ---- */

static weft_module *fused(uint64_t seed)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(seed);
    weft_module_add_child(m, "qkv",
                          weft_linear_new((weft_linear_config){
                              .in = {WIDTH}, .out = {3, HEADS, HEAD}, .out_split = 1}));
    return m;
}

static const weft_weight_rule apart[] = {
    {.parameter = "qkv.*", .name = "a.query.* + a.key.* + a.value.*", .rows = 3}};
static const weft_weight_names apart_names = {.family = "apart", .n_rules = 1, .rules = apart};

/* Queries, keys and values of their own in the file, one parameter in the model. */
WT_TEST_IN_WORLD(rules__joined_names_are_one_parameter, w)
{
    weft_module *from = fused(1), *to = fused(2);
    weft_tensor *whole = weft_module_parameter(from, "qkv.weight");
    weft_weights *file;

    WT_EQ(
        weft_parallelize_module(to, w->mesh, (weft_plan[]){{"qkv", weft_colwise_parallel()}, {0}}),
        WEFT_OK);
    WT_EQ(weft_weights_save(from, wt_scratch("apart.safetensors"), &apart_names), WEFT_OK);
    file = weft_weights_open(wt_scratch("apart.safetensors"));
    WT_EQ(weft_weights_count(file), 6);
    WT_ALL(has_shape(weft_weights_find(file, "a.key.weight"), 2, WIDTH, WIDTH));
    WT_ALL(has_shape(weft_weights_find(file, "a.value.bias"), 1, WIDTH, 0));
    WT_ALL(wt_near_tensors(weft_weights_read(file, "a.key.weight", 0, NULL, NULL),
                           weft_reshape(weft_select(whole, 0, 1), (int64_t[]){WIDTH, WIDTH}, 2),
                           WT_EXACT));
    WT_EQ(weft_weights_load(to, file, &apart_names), WEFT_OK);
    WT_ALL(same_models(from, to));
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, from, to);
}

/* Without rules names are paths, and shapes are kept. */
WT_TEST_IN_WORLD(rules__none_means_paths, w)
{
    weft_module *from = fused(1), *to = fused(2);
    weft_weights *file;

    WT_EQ(weft_weights_save(from, wt_scratch("paths.safetensors"), NULL), WEFT_OK);
    file = weft_weights_open(wt_scratch("paths.safetensors"));
    WT_EQ(weft_weights_find(file, "qkv.weight")->ndim, 4);
    WT_EQ(weft_weights_load(to, file, NULL), WEFT_OK);
    WT_ALL(same_models(from, to));
    WT_FAILS(
        weft_weights_save(from, wt_scratch("x.safetensors"), weft_weight_names_of_family("gpt2")),
        WEFT_ERR_NOT_FOUND, "gpt2 has no name for parameter 'qkv.weight'");
    weft_weights_close(file);
    WT_RELEASE(weft_module_release, from, to);
}

/* Parameters without elements are in the file, too. */
WT_TEST_IN_WORLD(rules__parameters_may_be_empty, w)
{
    static const int64_t shapes[][3] = {{0}, {3, 0, 2}, {0, 4}, {2}};
    static const int ndims[] = {1, 3, 2, 1};
    static const char *const names[] = {"a", "b", "c", "d"};
    static const weft_weight_rule turned[] = {{.parameter = "c", .name = "c", .transposed = true},
                                              {.parameter = "*", .name = "*"}};
    static const weft_weight_names rules = {.family = "empty", .n_rules = 2, .rules = turned};
    const weft_weight_names *families[] = {NULL, &rules};

    for (int i = 0; i < 2; i++) {
        weft_module *m[] = {weft_sequential_new(), weft_sequential_new()};
        weft_weights *file;

        for (int k = 0; k < 8; k++)
            WT_EQ(weft_module_add_parameter(
                      m[k / 4], names[k % 4],
                      weft_full(WEFT_F32, shapes[k % 4], ndims[k % 4], 1 + k / 4)),
                  WEFT_OK);
        WT_EQ(weft_weights_save(m[0], wt_scratch("empty.safetensors"), families[i]), WEFT_OK);
        file = weft_weights_open(wt_scratch("empty.safetensors"));
        WT_EQ(weft_weights_count(file), 4);
        WT_EQ(weft_weights_load(m[1], file, families[i]), WEFT_OK);
        WT_ALL(same_models(m[0], m[1]));
        weft_weights_close(file);
        WT_RELEASE(weft_module_release, m[0], m[1]);
    }
}

/* Of a part of a model the names begin below it. */
WT_TEST_IN_WORLD(names__of_a_part_begin_below_it, w)
{
    weft_module *m = wt_own(gpt(1));
    weft_weights *file;

    WT_EQ(weft_weights_save(weft_module_child(m, "blocks.1.attn"), wt_scratch("part.safetensors"),
                            NULL),
          WEFT_OK);
    file = wt_own(weft_weights_open(wt_scratch("part.safetensors")));
    WT_ALL(weft_weights_find(file, "qkv.weight") != NULL);
}

/* A rule that cannot be meant is refused before a file is touched, by all ranks. */
WT_TEST_IN_WORLD(rules__beyond_the_dims_are_refused, w)
{
    static const weft_weight_rule wrong[] = {
        {.parameter = "qkv.*", .name = "a.*", .join = -1},
        {.parameter = "qkv.*", .name = "a.*", .join = WEFT_MAX_DIMS},
        {.parameter = "qkv.*", .name = "a.*", .rows = -2},
        {.parameter = "qkv.*"},
    };
    weft_module *m = fused(1);
    weft_weights *file;

    WT_EQ(weft_weights_save(m, wt_scratch("right.safetensors"), NULL), WEFT_OK);
    file = weft_weights_open(wt_scratch("right.safetensors"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_weight_names names = {.family = "wrong", .n_rules = 1, .rules = &wrong[i]};

        WT_FAILS(weft_weights_load(m, file, &names), WEFT_ERR_ARG, "the rule for 'qkv.*'");
        WT_EQ(weft_weights_save(m, wt_scratch("wrong.safetensors"), &names), WEFT_ERR_ARG);
        WT_FAILED(WEFT_ERR_ARG, "the rule for 'qkv.*'");
    }
    weft_weights_close(file);
    weft_module_release(m);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "names")); }
