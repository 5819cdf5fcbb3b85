/* weights_map.h: a module's parameters, each with the tensors of a file that make it. */
#pragma once

#include "io/weights/stored_rows.h"
#include "io/weights/weight_names.h"
#include "io/weights/weights.h"

struct wf_weight_fill {
    char *path;
    weft_tensor *tensor; /* borrowed from the module */
    int n_sources, join; /* joined along this dim */
    struct wf_weight_source {
        const struct wf_weight *item;
        struct wf_stored_rows rows;
    } sources[WF_JOINED];
};

struct wf_weights_map {
    struct wf_weight_fill *fills;
    int64_t count;
};

enum wf_map_use {
    WF_MAP_ELEMENTS, /* parameters are going to be filled */
    WF_MAP_SHAPES    /* they may be on WEFT_META */
};

/**
 * Look everything up and compare shapes and dtypes; nothing is written.
 *
 * fails: as weft_weights_load, with all that is wrong in one message
 */
weft_status wf_weights_map_build(struct wf_weights_map *map, weft_module *module,
                                 weft_weights *weights, const weft_weight_names *names,
                                 enum wf_map_use use);
void wf_weights_map_free(struct wf_weights_map *map);

/** A parameter's path: the module's, a dot, the name; wf_malloc'ed. */
char *wf_parameter_path(const weft_module *root, const weft_module *m, const char *name);
