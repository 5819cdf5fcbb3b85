/* weights_map.c: matching parameters with a file's tensors. All problems are collected into one
 * message. */
#include "io/weights/weights_map.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/element_type.h"
#include "tensor/tensor.h"

enum { LISTED = 6, LIST_TEXT = 420 };

/* Names of one kind of problem: the first few, and how many. */
struct problem_list {
    char text[LIST_TEXT];
    int64_t count;
};

static WEFT_PRINTF(2, 3) void add_to_problem_list(struct problem_list *problem_list,
                                                  const char *format, ...)
{
    size_t used = strlen(problem_list->text);
    va_list args;

    if (problem_list->count++ >= LISTED || used + 2 >= sizeof problem_list->text) return;
    if (used)
        used += (size_t)snprintf(problem_list->text + used, sizeof problem_list->text - used, ", ");
    va_start(args, format);
    vsnprintf(problem_list->text + used, sizeof problem_list->text - used, format, args);
    va_end(args);
}

/* " and N more", where there are, to stand behind a list. */
static const char *more_count_text(char *text, size_t room, const struct problem_list *problem_list)
{
    text[0] = '\0';
    if (problem_list->count > LISTED)
        snprintf(text, room, " and %lld more", (long long)(problem_list->count - LISTED));
    return text;
}

struct matching {
    struct wf_weights_map *map;
    weft_weights *weights;
    const weft_weight_names *names;
    bool *used; /* per item of the weights */
    enum wf_map_use use;
    struct problem_list missing, unexpected, misfits;
};

char *wf_parameter_path(const weft_module *root, const weft_module *m, const char *name)
{
    const char *path = weft_module_path(m);
    size_t above = strlen(weft_module_path(root));

    if (above) path += path[above] == '.' ? above + 1 : above;
    return path[0] ? wf_format("%s.%s", path, name) : wf_strdup(name);
}

/* The first alternative of which every name is there. */
static int choose_name_candidate(const struct wf_name_candidates *c,
                                 const struct matching *matching, const struct wf_weight **items)
{
    for (int i = 0; i < c->count; i++) {
        int found = 0;

        while (found < c->joined[i] &&
               (items[found] = wf_weights_find(matching->weights, c->names[i][found])))
            found++;
        if (found == c->joined[i]) return found;
    }
    return 0;
}

static void add_misfit(struct matching *matching, const struct wf_weight_fill *fill,
                       const struct wf_weight *item)
{
    char has[WF_SHAPE_TEXT], wants[WF_SHAPE_TEXT];
    weft_tensor *t = fill->tensor;

    add_to_problem_list(&matching->misfits, "%s %s %s for %s %s %s", item->info.name,
                        item->info.dtype, wf_shape_text(has, item->info.shape, item->info.ndim),
                        fill->path, weft_dtype_name(weft_tensor_dtype(t)),
                        wf_shape_text(wants, t->layout->desc.global, weft_ndim(t)));
}

static void match_shapes_and_dtypes(struct matching *matching, struct wf_weight_fill *fill,
                                    const struct wf_weight **items, const weft_weight_rule *rule)
{
    const int64_t *shape = fill->tensor->layout->desc.global;
    int ndim = weft_ndim(fill->tensor);
    weft_dtype dtype = weft_tensor_dtype(fill->tensor);
    int64_t first = 0;

    fill->join = rule ? rule->join : 0;
    for (int i = 0; i < fill->n_sources; i++) {
        const struct wf_weight *item = items[i];
        struct wf_stored_rows *rows = &fill->sources[i].rows;

        fill->sources[i].item = item;
        matching->used[item - matching->weights->items] = true;
        if (!wf_stored_rows_match(rows, fill->join, first, shape, ndim, rule && rule->transposed,
                                  item->info.shape, item->info.ndim) ||
            !wf_element_type_converts_to(item->entry->type, dtype)) {
            add_misfit(matching, fill, item);
            return;
        }
        first += rows->count;
    }
    if (ndim > 0 && first != shape[fill->join])
        add_misfit(matching, fill, items[fill->n_sources - 1]);
}

static weft_status match_parameter(const weft_module_tensor *it, void *payload)
{
    struct matching *matching = payload;
    struct wf_weights_map *map = matching->map;
    const struct wf_weight *items[WF_JOINED];
    struct wf_name_candidates candidates;
    struct wf_weight_fill *fill;
    char *path;
    weft_status status;

    if (it->unsaved) return WEFT_OK;
    path = wf_strdup(it->path);
    status = wf_name_candidates_of(&candidates, matching->names, path);
    if (status == WEFT_OK && matching->use == WF_MAP_ELEMENTS)
        status = wf_check_has_elements("load weights", path, it->tensor);
    map->fills = wf_array_grow(map->fills, map->count, sizeof *map->fills);
    fill = &map->fills[map->count++];
    *fill = (struct wf_weight_fill){.path = path, .tensor = it->tensor};
    if (status != WEFT_OK) {
        wf_name_candidates_free(&candidates);
        return status;
    }
    fill->n_sources = choose_name_candidate(&candidates, matching, items);
    if (fill->n_sources)
        match_shapes_and_dtypes(matching, fill, items, candidates.rule);
    else if (candidates.count)
        add_to_problem_list(&matching->missing, "%s (%s)", path, candidates.names[0][0]);
    else
        add_to_problem_list(&matching->missing, "%s (no rule)", path);
    wf_name_candidates_free(&candidates);
    return WEFT_OK;
}

static void list_unexpected_names(struct matching *matching)
{
    const weft_weights *w = matching->weights;

    for (int64_t i = 0; i < w->n_items; i++) {
        const char *name = w->items[i].info.name;

        if (!matching->used[i] && !wf_is_name_ignored(matching->names, name))
            add_to_problem_list(&matching->unexpected, "%s", name);
    }
}

static weft_status report_mismatches(const struct matching *matching)
{
    const struct problem_list *a = &matching->missing, *b = &matching->unexpected,
                              *c = &matching->misfits;
    char more[3][48];
    int64_t n = a->count + b->count + c->count;

    if (!n) return WEFT_OK;
    return WF_FAIL(
        c->count ? WEFT_ERR_SHAPE : WEFT_ERR_NOT_FOUND,
        "load weights: %lld parameters are not in the file: %.240s%s; %lld names in the "
        "file are not asked for: %.240s%s; %lld do not fit: %.240s%s",
        (long long)a->count, a->count ? a->text : "-", more_count_text(more[0], sizeof more[0], a),
        (long long)b->count, b->count ? b->text : "-", more_count_text(more[1], sizeof more[1], b),
        (long long)c->count, c->count ? c->text : "-", more_count_text(more[2], sizeof more[2], c));
}

weft_status wf_weights_map_build(struct wf_weights_map *map, weft_module *module,
                                 weft_weights *weights, const weft_weight_names *names,
                                 enum wf_map_use use)
{
    struct matching matching = {.map = map, .weights = weights, .names = names, .use = use};
    weft_status status;

    *map = (struct wf_weights_map){0};
    matching.used = wf_calloc((size_t)weights->n_items + 1, sizeof *matching.used);
    status = weft_module_each_tensor(module, match_parameter, &matching);
    if (status == WEFT_OK) {
        list_unexpected_names(&matching);
        status = report_mismatches(&matching);
    }
    wf_free(matching.used);
    return status;
}

void wf_weights_map_free(struct wf_weights_map *map)
{
    for (int64_t i = 0; i < map->count; i++) wf_free(map->fills[i].path);
    wf_free(map->fills);
    *map = (struct wf_weights_map){0};
}
