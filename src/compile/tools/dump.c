/*
 * dump.c: FOLDER/NAME.K/rankR/graph.txt, calls.txt, graph.dot, schedule.txt and memory.txt of list
 * number K that this rank has made. In the log a list is one line of information and, beneath it,
 * one line for debugging per node.
 */
#include "compile/tools/dump.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "compile/list/print_list.h"
#include "compile/replay/memory_plan.h"
#include "compile/tools/names.h"

static _Thread_local int lists_written;

/* ---- which lists ---- */

static bool is_wanted(const struct wf_variant *variant)
{
    const char *only = wf_knobs.compile_only;

    if (!only[0] || fnmatch(only, variant->name, 0) == 0) return true;
    for (int i = 0; i < variant->forward->n_nodes; i++) {
        const char *module = variant->forward->nodes[i].module;

        if (module && fnmatch(only, module, 0) == 0) return true;
    }
    return false;
}

/* ---- the files ---- */

static void print_dot(const struct wf_op_list *list, const char *prefix, FILE *out)
{
    int *writer = wf_malloc(((size_t)list->n_storages + 1) * sizeof *writer);

    for (int s = 0; s < list->n_storages; s++) writer[s] = -1;
    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];

        fprintf(out, "  %s%d [label=\"%s\"];\n", prefix, i, node->name ? node->name : "");
        if (node->kind == WF_LIST_WAIT)
            fprintf(out, "  %s%d -> %s%d;\n", prefix, node->started, prefix, i);
        for (int k = 0; k < node->n_in; k++) {
            int s = node->in[k].storage;

            if (s >= 0 && writer[s] >= 0)
                fprintf(out, "  %s%d -> %s%d;\n", prefix, writer[s], prefix, i);
            else if (s >= 0)
                fprintf(out, "  \"%sstorage %d\" -> %s%d;\n", prefix, s, prefix, i);
        }
        for (int j = 0; j < node->n_out; j++)
            if (node->out[j].storage >= 0) writer[node->out[j].storage] = i;
        if (node->kind == WF_LIST_WAIT) writer[list->nodes[node->started].out[0].storage] = i;
    }
    wf_free(writer);
}

static void print_memory(const struct wf_op_list *list, const struct wf_program *program, FILE *out)
{
    const struct wf_memory_plan *plan = wf_program_memory_plan(program);
    static const char *const kinds[] = {[WF_STORAGE_INPUT] = "input",
                                        [WF_STORAGE_EXTERNAL] = "outside",
                                        [WF_STORAGE_GRADIENT] = "gradient",
                                        [WF_STORAGE_FORWARD] = "forward",
                                        [WF_STORAGE_MADE] = "made"};

    fprintf(out, "%lld bytes planned\nstorage kind bytes area offset first last\n",
            (long long)wf_memory_plan_bytes(plan));
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];
        int first, last;

        wf_memory_plan_lifetime(plan, s, &first, &last);
        if (first < 0) continue;
        fprintf(out, "%d %s %lld ", s, storage->kept ? "kept" : kinds[storage->kind],
                (long long)storage->bytes);
        if (storage->kind == WF_STORAGE_MADE && !storage->kept)
            fprintf(out, "%s %lld", storage->category == WF_MEM_COMM ? "shared" : "own",
                    (long long)wf_memory_plan_offset(plan, s));
        else
            fprintf(out, "- -");
        fprintf(out, " %d %d\n", first, last);
    }
}

/* The two lists of a variant at one level. */
struct pair {
    const struct wf_op_list *forward, *backward;
};

static void write_lists(struct pair lists, FILE *out)
{
    fprintf(out, "forward\n");
    wf_op_list_print(lists.forward, out);
    if (!lists.backward) return;
    fprintf(out, "backward\n");
    wf_op_list_print(lists.backward, out);
}

static void write_graph(const struct wf_variant *v, FILE *out)
{
    write_lists((struct pair){v->forward_moves, v->backward_moves}, out);
}

static void write_calls(const struct wf_variant *v, FILE *out)
{
    write_lists((struct pair){v->forward, v->backward}, out);
}

static void write_dot(const struct wf_variant *v, FILE *out)
{
    fprintf(out, "digraph \"%s\" {\n", v->name);
    print_dot(v->forward, "f", out);
    if (v->backward_program) print_dot(v->backward, "b", out);
    fprintf(out, "}\n");
}

static void write_schedule(const struct wf_variant *v, FILE *out)
{
    fprintf(out, "forward\n");
    wf_schedule_print(v->forward, out);
    if (!v->backward_program) return;
    fprintf(out, "backward\n");
    wf_schedule_print(v->backward, out);
}

static void write_memory(const struct wf_variant *v, FILE *out)
{
    fprintf(out, "forward\n");
    print_memory(v->forward, v->forward_program, out);
    if (!v->backward_program) return;
    fprintf(out, "backward\n");
    print_memory(v->backward, v->backward_program, out);
}

static const struct file {
    const char *name, *path;
    void (*write)(const struct wf_variant *v, FILE *out);
} files[] = {{"graph", "graph.txt", write_graph},
             {"calls", "calls.txt", write_calls},
             {"dot", "graph.dot", write_dot},
             {"schedule", "schedule.txt", write_schedule},
             {"memory", "memory.txt", write_memory}};

/* ---- writing them ---- */

static bool make_folder(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST; }

/* Names of functions may have what no file name has. */
static char *folder_of(const struct wf_variant *variant)
{
    char *name = wf_strdup(variant->name), *above, *folder;

    for (char *c = name; *c; c++)
        if (*c == '/' || *c == ' ') *c = '_';
    above = wf_format("%s/%s.%d", wf_knobs.compile_dump, name, lists_written++);
    folder = wf_format("%s/rank%d", above, wf_log_rank() < 0 ? 0 : wf_log_rank());
    wf_free(name);
    if (!make_folder(wf_knobs.compile_dump) || !make_folder(above) || !make_folder(folder)) {
        WF_LOG(WF_LOG_WARN, "compile", "cannot make the folder %s: %s", folder, strerror(errno));
        wf_free(folder);
        folder = NULL;
    }
    wf_free(above);
    return folder;
}

static void write_files(const struct wf_variant *variant)
{
    char *folder = folder_of(variant);

    for (size_t i = 0; folder && i < sizeof files / sizeof *files; i++) {
        char *path;
        FILE *out;

        if (wf_knobs.compile_files[0] && !wf_names_have(wf_knobs.compile_files, files[i].name))
            continue;
        path = wf_format("%s/%s", folder, files[i].path);
        out = fopen(path, "w");
        if (out) {
            files[i].write(variant, out);
            fclose(out);
        } else {
            WF_LOG(WF_LOG_WARN, "compile", "cannot write %s: %s", path, strerror(errno));
        }
        wf_free(path);
    }
    wf_free(folder);
}

/* ---- the log ---- */

static void log_nodes(const struct wf_variant *variant)
{
    FILE *lines = tmpfile();
    char line[1000];

    if (!lines) return;
    write_calls(variant, lines);
    rewind(lines);
    while (fgets(line, sizeof line, lines)) {
        line[strcspn(line, "\n")] = 0;
        WF_LOG(WF_LOG_DEBUG, "compile", "%s: %s", variant->name, line);
    }
    fclose(lines);
}

void wf_variant_report(const struct wf_variant *variant)
{
    bool logs = wf_log_is_enabled(WF_LOG_INFO, "compile");

    if ((!logs && !wf_knobs.compile_dump[0]) || !is_wanted(variant)) return;
    if (logs)
        WF_LOG(WF_LOG_INFO, "compile", "%s: a list of %d nodes forward and %d backward",
               variant->name, wf_program_call_count(variant->forward_program),
               variant->backward_program ? wf_program_call_count(variant->backward_program) : 0);
    if (wf_log_is_enabled(WF_LOG_DEBUG, "compile")) log_nodes(variant);
    if (wf_knobs.compile_dump[0]) write_files(variant);
}
