/*
 * visit_tensors.c: walks over the tensors of a tree. One that several modules have (tied weights)
 * is met once, so that an optimizer does not update it twice.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "nn/module.h"

/* Tensors met so far: open addressing, at most half full. */
struct seen {
    const weft_tensor **slots;
    size_t mask;
};

int wf_module_count_tensors(const weft_module *m)
{
    int n = m->n_tensors;

    for (int i = 0; i < m->n_children; i++) n += wf_module_count_tensors(m->children[i]);
    return n;
}

static bool is_first_visit(struct seen *seen, const weft_tensor *t)
{
    size_t at = (size_t)(((uintptr_t)t >> 4) * 0x9E3779B1u);

    for (;; at++) {
        const weft_tensor **slot = &seen->slots[at & seen->mask];

        if (*slot == t) return false;
        if (*slot) continue;
        *slot = t;
        return true;
    }
}

struct walk {
    struct seen seen;
    const weft_module *root;
    weft_tensor_visitor *visit;
    void *payload;
};

static weft_status visit_tensor_at(const struct walk *walk, weft_module *m, int index)
{
    const struct wf_parameter *p = &m->parameters[index];
    const char *above = m->path + strlen(walk->root->path);
    char *path = wf_format("%s%s%s", above + (*above == '.'), m == walk->root ? "" : ".", p->name);
    weft_module_tensor it = {.path = path,
                             .module = m,
                             .name = p->name,
                             .tensor = p->tensor,
                             .buffer = index >= m->n_parameters,
                             .unsaved = p->unsaved};
    weft_status status = walk->visit(&it, walk->payload);

    wf_free(path);
    return status;
}

static weft_status visit_tensors_below(struct walk *walk, weft_module *m)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (is_first_visit(&walk->seen, m->parameters[i].tensor))
            WF_TRY(visit_tensor_at(walk, m, i));
    for (int i = 0; i < m->n_children; i++) WF_TRY(visit_tensors_below(walk, m->children[i]));
    return WEFT_OK;
}

weft_status weft_module_each_tensor(weft_module *m, weft_tensor_visitor *visit, void *payload)
{
    struct walk walk = {.seen = {.mask = 15}, .root = m, .visit = visit, .payload = payload};
    weft_status status;

    WF_NEED_GIVEN(m, "each tensor: the module is NULL");
    WF_NEED(visit, WEFT_ERR_ARG, "each tensor: the visitor is NULL");
    while (walk.seen.mask < 2 * (size_t)wf_module_count_tensors(m))
        walk.seen.mask = 2 * walk.seen.mask + 1;
    walk.seen.slots = wf_calloc(walk.seen.mask + 1, sizeof *walk.seen.slots);
    status = visit_tensors_below(&walk, m);
    wf_free(walk.seen.slots);
    return status;
}

struct of_parameters {
    weft_parameter_visitor *visit;
    void *payload;
};

static weft_status visit_if_parameter(const weft_module_tensor *it, void *payload)
{
    const struct of_parameters *to = payload;

    return it->buffer ? WEFT_OK : to->visit(it->module, it->name, it->tensor, to->payload);
}

weft_status weft_module_each_parameter(weft_module *m, weft_parameter_visitor *visit, void *payload)
{
    struct of_parameters to = {visit, payload};

    WF_NEED_GIVEN(m, "each parameter: the module is NULL");
    WF_NEED(visit, WEFT_ERR_ARG, "each parameter: the visitor is NULL");
    return weft_module_each_tensor(m, visit_if_parameter, &to);
}

struct tally {
    int parameters;
    int64_t elements;
};

static weft_status count_parameter(weft_module *m, const char *name, weft_tensor *parameter,
                                   void *payload)
{
    struct tally *tally = payload;

    (void)m;
    (void)name;
    tally->parameters++;
    tally->elements += weft_numel(parameter);
    return WEFT_OK;
}

static struct tally count_parameters_of_tree(weft_module *m)
{
    struct tally tally = {0};

    if (m) weft_module_each_parameter(m, count_parameter, &tally);
    return tally;
}

int weft_module_parameter_count(weft_module *m) { return count_parameters_of_tree(m).parameters; }

int64_t weft_module_numel(weft_module *m) { return count_parameters_of_tree(m).elements; }
