/*
 * module.c: the tree: making modules, owning children, names and paths.
 *
 * Parameters are in parameter.c, running and hooks in module_call.c.
 */
#include "nn/module.h"

#include <string.h>

#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"

static weft_status check_module_class(const weft_module_class *kind)
{
    int least;

    WF_NEED(kind && kind->type && (kind->forward || kind->forward_n), WEFT_ERR_ARG,
            "new module: a class needs a type and a forward");
    WF_NEED(!kind->forward || !kind->forward_n, WEFT_ERR_ARG,
            "new module: %s has a forward and a forward_n", kind->type);
    WF_NEED(kind->inputs >= 0 && kind->optional >= 0 &&
                kind->inputs + kind->optional <= WEFT_MODULE_INPUTS,
            WEFT_ERR_ARG, "new module: %s takes %d + %d inputs; at most %d are possible",
            kind->type, kind->inputs, kind->optional, WEFT_MODULE_INPUTS);
    least = kind->forward_n ? 1 : 0;
    WF_NEED(kind->outputs >= least && kind->outputs <= (least ? WEFT_MODULE_OUTPUTS : 1),
            WEFT_ERR_ARG, "new module: %s gives %d outputs; a forward gives 1, a forward_n 1 to %d",
            kind->type, kind->outputs, WEFT_MODULE_OUTPUTS);
    return WEFT_OK;
}

weft_module *weft_module_new(const weft_module_class *kind, void *payload)
{
    weft_module *m;

    WF_TRY_PTR(check_module_class(kind));
    m = WF_NEW(weft_module);
    m->kind = kind;
    m->payload = payload;
    m->name = wf_strdup("");
    m->training = true;
    m->path = wf_module_path_acquire("");
    return m;
}

struct wf_module_watch *wf_module_watch(weft_module *m)
{
    if (!m->watch) {
        m->watch = WF_NEW(struct wf_module_watch);
        m->watch->refs = 1;
    }
    m->watch->refs++;
    return m->watch;
}

void wf_module_watch_release(struct wf_module_watch *watch)
{
    if (watch && --watch->refs == 0) wf_free(watch);
}

static void mark_changed(weft_module *m)
{
    if (m->watch) m->watch->changes++;
}

/* Of m's own tree: it was taken out of another one. */
static void mark_subtree_changed(weft_module *m)
{
    mark_changed(m);
    for (int i = 0; i < m->n_children; i++) mark_subtree_changed(m->children[i]);
}

/* Programs find children by paths from any module above. */
static void mark_ancestors_changed(weft_module *m)
{
    for (; m; m = m->parent) mark_changed(m);
}

static void free_module(weft_module *m)
{
    mark_changed(m);
    wf_module_watch_release(m->watch);
    for (int i = 0; i < m->n_children; i++) free_module(m->children[i]);
    wf_parameters_truncate(m, 0, 0);
    wf_hooks_truncate(m, 0);
    if (m->kind->free) m->kind->free(m->payload);
    wf_module_path_release(m->path);
    wf_free(m->name);
    wf_free(m->children);
    wf_free(m->parameters);
    wf_free(m);
}

void weft_module_release(weft_module *m)
{
    if (m && !m->parent) free_module(m);
}

void *weft_module_payload(const weft_module *m) { return WF_HANDLE(m)->payload; }

const char *weft_module_type(const weft_module *m) { return WF_HANDLE(m)->kind->type; }

const char *weft_module_name(const weft_module *m) { return WF_HANDLE(m)->name; }

const char *weft_module_path(const weft_module *m) { return WF_HANDLE(m)->path; }

int weft_module_child_count(const weft_module *m) { return WF_HANDLE(m)->n_children; }

weft_module *weft_module_child_at(const weft_module *m, int index)
{
    return index >= 0 && index < WF_HANDLE(m)->n_children ? m->children[index] : NULL;
}

static weft_module *find_child(const weft_module *m, const char *name, size_t length)
{
    for (int i = 0; i < m->n_children; i++) {
        weft_module *child = m->children[i];

        if (strlen(child->name) == length && !memcmp(child->name, name, length)) return child;
    }
    return NULL;
}

/* A child's path hangs on its parent's, so a subtree is renamed when it is put into a larger one.
 */
static void update_paths_below(weft_module *parent)
{
    for (int i = 0; i < parent->n_children; i++) {
        weft_module *child = parent->children[i];
        char *path = wf_format("%s%s%s", parent->path, parent->path[0] ? "." : "", child->name);

        wf_module_path_release(child->path);
        child->path = wf_module_path_acquire(path);
        wf_free(path);
        update_paths_below(child);
    }
}

weft_module *wf_module_root(weft_module *m)
{
    while (m && m->parent) m = m->parent;
    return m;
}

static weft_status check_new_child(weft_module *parent, const char *name, const weft_module *child)
{
    WF_NEED_GIVEN(parent && child, "add child: a module is NULL");
    WF_NEED(name && name[0] && !strchr(name, '.'), WEFT_ERR_ARG,
            "add child: '%s' is no name (not empty, no dots)", name ? name : "NULL");
    WF_NEED(!find_child(parent, name, strlen(name)), WEFT_ERR_ARG,
            "add child: module '%s' has a child '%s' already", parent->path, name);
    WF_NEED(!child->parent && child != wf_module_root(parent), WEFT_ERR_ARG,
            "add child: '%s' is part of a tree already (as '%s')", name, child->path);
    return WEFT_OK;
}

weft_status weft_module_add_child(weft_module *parent, const char *name, weft_module *child)
{
    weft_status status = check_new_child(parent, name, child);

    if (status != WEFT_OK) {
        if (child != wf_module_root(parent)) weft_module_release(child);
        return status;
    }
    parent->children = wf_array_grow(parent->children, parent->n_children, sizeof(weft_module *));
    parent->children[parent->n_children++] = child;
    child->parent = parent;
    mark_ancestors_changed(parent);
    wf_free(child->name);
    child->name = wf_strdup(name);
    update_paths_below(parent);
    return WEFT_OK;
}

static weft_status check_replacement_child(const weft_module *m, weft_module *old,
                                           const weft_module *child)
{
    WF_NEED(old != m, WEFT_ERR_ARG, "replace child: the path \"\" is the module itself (%s '%s')",
            m->kind->type, m->path);
    WF_NEED(!child->parent && child != wf_module_root(old), WEFT_ERR_ARG,
            "replace child '%s': the new one is part of a tree already (as '%s')", old->path,
            child->path);
    WF_NEED(!wf_module_view_hook(old), WEFT_ERR_STATE,
            "replace child '%s': it is a replica; replace it before weft_data_parallel", old->path);
    return WEFT_OK;
}

/* The parent's pointers and the name go over to the new child. */
static void swap_child(weft_module *old, weft_module *child)
{
    weft_module *parent = old->parent;
    int i = 0;
    char *name = child->name;

    while (parent->children[i] != old) i++;
    parent->children[i] = child;
    child->parent = parent;
    child->name = old->name;
    child->parent_slot = old->parent_slot;
    if (child->parent_slot) *child->parent_slot = child;
    old->parent = NULL;
    old->parent_slot = NULL;
    old->name = name;
    old->name[0] = '\0';
    wf_module_path_release(old->path);
    old->path = wf_module_path_acquire("");
    update_paths_below(old);
    update_paths_below(parent);
}

weft_module *weft_module_replace_child(weft_module *m, const char *path, weft_module *child)
{
    weft_module *old = m && child ? weft_module_child(m, path) : NULL;
    weft_status status;

    if (!m || !child) WF_FAIL(WEFT_ERR_ARG, "replace child: a module is NULL");
    status = old ? check_replacement_child(m, old, child) : weft_error_status();
    if (status != WEFT_OK) {
        if (child && child != wf_module_root(m)) weft_module_release(child);
        return NULL;
    }
    mark_subtree_changed(old);
    mark_ancestors_changed(old->parent);
    swap_child(old, child);
    return old;
}

weft_module *weft_module_child(weft_module *m, const char *path)
{
    const char *at = path;

    if (!m) return NULL;
    WF_NEED_PTR(path, WEFT_ERR_ARG, "module child: the path is NULL");
    while (*at) {
        size_t length = strcspn(at, ".");
        weft_module *child = find_child(m, at, length);

        WF_NEED_PTR(child, WEFT_ERR_NOT_FOUND,
                    "module path '%s': module '%s' (%s) has no child '%.*s'", path, m->path,
                    m->kind->type, (int)length, at);
        m = child;
        at += length + (at[length] == '.');
    }
    return m;
}

static void list_modules_below(weft_module *m, weft_module ***list, int *count)
{
    *list = wf_array_grow(*list, *count, sizeof **list);
    (*list)[(*count)++] = m;
    for (int i = 0; i < m->n_children; i++) list_modules_below(m->children[i], list, count);
}

weft_module **wf_module_list_tree(weft_module *root, int *count)
{
    weft_module **list = NULL;

    *count = 0;
    list_modules_below(root, &list, count);
    return list;
}

void weft_module_train(weft_module *m, bool training)
{
    if (!m) return;
    m->training = training;
    for (int i = 0; i < m->n_children; i++) weft_module_train(m->children[i], training);
}

bool weft_module_training(const weft_module *m) { return WF_HANDLE(m)->training; }
