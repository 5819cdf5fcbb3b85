/*
 * call_file.c: a list of calls as a file of each rank: lines of text, then the elements.
 *
 *     weft calls 2 WORLD RANK MESHES SLOTS CALLS RESULTS
 *     mesh DEVICE dp=2,tp=4 tp     the root mesh, and which of its axes
 *     slot INPUT DTYPE DEVICE MESH NDIM size.. stride.. TYPES PLACEMENTS
 *     call KIND NAME IN_PLACE N_IN in.. N_OUT out.. WANT ATTRIBUTES scalars.. element MODULE
 *     result SLOT
 *     elements
 *
 * An input has the elements of this rank, and where it is distributed and no partial result those
 * of the whole, for other numbers of ranks. Numbers of slots are -1 where there is none. Words of
 * attributes are hexadecimal, those that are addresses of a mesh its number.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "compile/tools/call_list.h"
#include "dtensor/registration/registry.h"
#include "mesh/mesh.h"
#include "tensor/host_copy.h"
#include <weft/dtensor.h>
#include <weft/ops.h>

enum { LONGEST_NAME = 100, MODULE_TEXT = 500, MESH_TEXT = 300 };

/* ---- meshes ---- */

static int mesh_number(const struct wf_call_list *list, const weft_mesh *mesh)
{
    for (int m = 0; m < list->n_meshes; m++)
        if (list->meshes[m] == mesh) return m;
    return -1;
}

static void note_mesh(struct wf_call_list *list, weft_mesh *mesh)
{
    if (!mesh || mesh_number(list, mesh) >= 0) return;
    list->meshes = wf_array_grow(list->meshes, list->n_meshes, sizeof(weft_mesh *));
    list->meshes[list->n_meshes++] = weft_mesh_retain(mesh);
}

/* The word of attributes that is an address; -1: none is. */
static int word_of_pointer_attribute(const struct wf_call *call)
{
    const struct wf_attrs_info *info = &wf_attrs_table[wf_ops[call->op].attrs];
    size_t at = 0;

    if (call->kind != WF_CALL_OP || wf_ops[call->op].attrs == WF_ATTRS_none) return -1;
    for (int f = 0; f < info->n_fields; f++) {
        if (info->fields[f].kind == WF_FIELD_POINTER) return (int)(at / sizeof(uint64_t));
        at += info->fields[f].size * (size_t)info->fields[f].n;
    }
    return -1;
}

static uint64_t word_of(const struct wf_call *call, int i)
{
    uint64_t word;

    memcpy(&word, (const char *)&call->attrs + (size_t)i * sizeof word, sizeof word);
    return word;
}

static void note_meshes(struct wf_call_list *list)
{
    for (int s = 0; s < list->n_slots; s++) {
        note_mesh(list, list->slots[s].layout->mesh);
        note_mesh(list, list->slots[s].layout->grad_types.mesh);
    }
    for (int i = 0; i < list->n_calls; i++) {
        int at = word_of_pointer_attribute(&list->calls[i]);

        if (list->calls[i].want) note_mesh(list, list->calls[i].want->mesh);
        if (at >= 0) note_mesh(list, (weft_mesh *)(uintptr_t)word_of(&list->calls[i], at));
    }
}

static weft_status write_mesh(weft_mesh *mesh, FILE *out)
{
    weft_mesh *root = weft_mesh_root(mesh);
    int n = weft_mesh_ndim(root), size = weft_mesh_size(root);
    const int *ranks = wf_mesh_rank_list(root);
    bool usual = size == weft_world_size();

    for (int r = 0; usual && r < size; r++) usual = ranks[r] == r;
    for (int a = 0; usual && a < weft_mesh_ndim(mesh); a++)
        usual = weft_mesh_root_axis(mesh, a) >= 0;
    for (int a = 0; usual && a < n; a++) usual = weft_mesh_axis_name(root, a) != NULL;
    WF_NEED(
        usual, WEFT_ERR_STATE,
        "compile record: a mesh that is not cut from named axes of all ranks cannot be written");
    fprintf(out, "mesh %d ", weft_mesh_device(root));
    for (int a = 0; a < n; a++)
        fprintf(out, "%s%s=%d", a ? "," : "", weft_mesh_axis_name(root, a),
                weft_mesh_axis_size(root, a));
    fprintf(out, " ");
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        fprintf(out, "%s%s", a ? "," : "", weft_mesh_axis_name(mesh, a));
    fprintf(out, "\n");
    return WEFT_OK;
}

static bool is_device(int device) { return device == WEFT_CPU || device == WEFT_CUDA; }

/* On other numbers of ranks a mesh of one axis has all of them. */
static weft_status read_mesh(struct wf_call_list *list, bool same_world, FILE *in)
{
    char root_text[MESH_TEXT + 20], axes[MESH_TEXT];
    weft_mesh *root, *mesh;
    int device;

    WF_NEED(fscanf(in, " mesh %d %299s %299s", &device, root_text, axes) == 3 && is_device(device),
            WEFT_ERR_IO, "compile replay: a mesh is missing in the file");
    if (!same_world) {
        WF_NEED(!strchr(root_text, ','), WEFT_ERR_STATE,
                "compile replay: the mesh %s is for its own number of ranks only", root_text);
        snprintf(root_text, sizeof root_text, "%s=%d", axes, weft_world_size());
    }
    root = weft_mesh_new((weft_device)device, "%s", root_text);
    if (!root) return weft_error_status();
    mesh = weft_mesh_ndim(root) == 1 ? weft_mesh_retain(root) : weft_mesh_sub(root, axes);
    weft_mesh_release(root);
    if (!mesh) return weft_error_status();
    list->meshes = wf_array_grow(list->meshes, list->n_meshes, sizeof(weft_mesh *));
    list->meshes[list->n_meshes++] = mesh;
    return WEFT_OK;
}

/* ---- layouts ---- */

static weft_status write_layout(const struct wf_call_list *list, const struct wf_layout *layout,
                                FILE *out)
{
    const struct wf_tensor_desc *desc = &layout->desc;
    weft_placement again[WEFT_MAX_AXES];
    char text[WF_PLACEMENTS_TEXT] = "-";

    fprintf(out, " %d %d %d %d", desc->dtype, desc->device, mesh_number(list, layout->mesh),
            desc->ndim);
    for (int d = 0; d < desc->ndim; d++) fprintf(out, " %lld", (long long)desc->global[d]);
    for (int d = 0; d < desc->ndim; d++) fprintf(out, " %lld", (long long)desc->stride[d]);
    fprintf(out, " %d", mesh_number(list, layout->grad_types.mesh));
    for (int a = 0; layout->grad_types.mesh && a < WEFT_MAX_AXES; a++) {
        const struct wf_grad_type *type = &layout->grad_types.axis[a];

        fprintf(out, " %d %d %d %d", type->kind, type->dim, type->reduce, type->uneven);
    }
    if (layout->mesh) {
        weft_placements_format(layout->placements, layout->n_axes, text, sizeof text);
        WF_NEED(weft_placements_parse(again, WEFT_MAX_AXES, text) == layout->n_axes &&
                    memcmp(again, layout->placements, (size_t)layout->n_axes * sizeof *again) == 0,
                WEFT_ERR_STATE, "compile record: placements %s cannot be written", text);
    }
    fprintf(out, " %s\n", text);
    return WEFT_OK;
}

static weft_mesh *mesh_at(const struct wf_call_list *list, int number)
{
    return number >= 0 && number < list->n_meshes ? list->meshes[number] : NULL;
}

static bool read_types(const struct wf_call_list *list, struct wf_grad_types *types, FILE *in)
{
    int mesh;

    memset(types, 0, sizeof *types);
    if (fscanf(in, " %d", &mesh) != 1) return false;
    types->mesh = mesh_at(list, mesh);
    for (int a = 0; mesh >= 0 && a < WEFT_MAX_AXES; a++) {
        int kind, dim, reduce, uneven;

        if (fscanf(in, " %d %d %d %d", &kind, &dim, &reduce, &uneven) != 4) return false;
        types->axis[a].kind = (uint8_t)kind;
        types->axis[a].dim = (int8_t)dim;
        types->axis[a].reduce = (uint8_t)reduce;
        types->axis[a].uneven = uneven != 0;
    }
    return true;
}

/* gives: a reference; NULL with an error */
static struct wf_layout *read_layout(const struct wf_call_list *list, FILE *in)
{
    weft_placement placements[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];
    struct wf_grad_types types;
    struct wf_layout *layout;
    int dtype, device, mesh, ndim, n = 0;
    char text[WF_PLACEMENTS_TEXT];
    bool right = fscanf(in, " %d %d %d %d", &dtype, &device, &mesh, &ndim) == 4 && ndim >= 0 &&
                 ndim <= WEFT_MAX_DIMS && is_device(device) && dtype >= 0 &&
                 dtype < WEFT_DTYPE_COUNT && mesh < list->n_meshes;

    for (int d = 0; right && d < ndim; d++) right = fscanf(in, " %" SCNd64, &shape[d]) == 1;
    for (int d = 0; right && d < ndim; d++) right = fscanf(in, " %" SCNd64, &stride[d]) == 1;
    right =
        right && read_types(list, &types, in) && fgetc(in) == ' ' && fgets(text, sizeof text, in);
    WF_NEED_PTR(right, WEFT_ERR_IO, "compile replay: a layout in the file is not as it should be");
    text[strcspn(text, "\n")] = 0;
    if (mesh >= 0) n = weft_placements_parse(placements, WEFT_MAX_AXES, text);
    if (n < 0) return NULL;
    layout = wf_layout_new(mesh_at(list, mesh), placements, (weft_dtype)dtype, shape,
                           list->exact || mesh < 0 ? stride : NULL, ndim);
    layout = wf_layout_on_device(layout, (weft_device)device);
    return types.mesh ? wf_layout_with_grad_types(layout, &types) : layout;
}

/* ---- calls ---- */

static weft_status write_call(const struct wf_call_list *list, const struct wf_call *call,
                              FILE *out)
{
    int pointer = word_of_pointer_attribute(call);

    fprintf(out, "call %d %s %d %d", call->kind,
            call->kind == WF_CALL_OP ? wf_ops[call->op].name : "-", call->in_place, call->n_in);
    for (int i = 0; i < call->n_in; i++) fprintf(out, " %d", call->in[i]);
    fprintf(out, " %d", call->n_out);
    for (int j = 0; j < call->n_out; j++) fprintf(out, " %d", call->out[j]);
    fprintf(out, " %d", call->attr_words);
    for (int w = 0; w < call->attr_words; w++)
        fprintf(out, " %" PRIx64,
                w == pointer ? (uint64_t)mesh_number(list, (weft_mesh *)(uintptr_t)word_of(call, w))
                             : word_of(call, w));
    for (int k = 0; k < WF_MAX_SCALAR; k++) fprintf(out, " %a", call->scalars.s[k]);
    for (int k = 0; k < WF_MAX_VALUE; k++) fprintf(out, " %" PRId64, call->scalars.v[k]);
    for (int k = 0; k < 8; k++) fprintf(out, " %x", call->element[k]);
    fprintf(out, " %s\n", call->module && call->module[0] ? call->module : "-");
    if (!call->want) {
        fprintf(out, "any\n");
        return WEFT_OK;
    }
    fprintf(out, "want");
    return write_layout(list, call->want, out);
}

static int op_of_name(const char *name)
{
    for (int op = 0; op < WF_OP_COUNT; op++)
        if (strcmp(wf_ops[op].name, name) == 0) return op;
    return -1;
}

static bool read_numbers(int *numbers, int n, int most, FILE *in)
{
    if (n < 0 || n > most) return false;
    for (int i = 0; i < n; i++)
        if (fscanf(in, " %d", &numbers[i]) != 1) return false;
    return true;
}

static bool read_attrs(const struct wf_call_list *list, struct wf_call *call, FILE *in)
{
    int pointer, most = (int)(sizeof call->attrs / sizeof(uint64_t));

    if (fscanf(in, " %d", &call->attr_words) != 1 || call->attr_words < 0 ||
        call->attr_words > most)
        return false;
    pointer = word_of_pointer_attribute(call);
    for (int w = 0; w < call->attr_words; w++) {
        uint64_t word;

        if (fscanf(in, " %" SCNx64, &word) != 1) return false;
        if (w == pointer) word = (uint64_t)(uintptr_t)mesh_at(list, (int)word);
        memcpy((char *)&call->attrs + (size_t)w * sizeof word, &word, sizeof word);
    }
    return true;
}

static bool read_scalars(struct wf_call *call, FILE *in)
{
    for (int k = 0; k < WF_MAX_SCALAR; k++)
        if (fscanf(in, " %la", &call->scalars.s[k]) != 1) return false;
    for (int k = 0; k < WF_MAX_VALUE; k++)
        if (fscanf(in, " %" SCNd64, &call->scalars.v[k]) != 1) return false;
    for (int k = 0; k < 8; k++) {
        unsigned byte;

        if (fscanf(in, " %x", &byte) != 1) return false;
        call->element[k] = (unsigned char)byte;
    }
    return true;
}

static bool slots_are_there(const struct wf_call_list *list, const struct wf_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] >= list->n_slots) return false;
    for (int j = 0; j < call->n_out; j++)
        if (call->out[j] >= list->n_slots) return false;
    return true;
}

static weft_status read_call(struct wf_call_list *list, FILE *in)
{
    struct wf_call *call = wf_call_list_add_call(list, WF_CALL_OP);
    char name[LONGEST_NAME + 1], module[MODULE_TEXT + 1], word[5];
    int kind, in_place, n_in, n_out, op = -1;
    bool right = fscanf(in, " call %d %100s %d %d", &kind, name, &in_place, &n_in) == 4 &&
                 kind >= 0 && kind <= WF_CALL_FILL && read_numbers(call->in, n_in, WF_MAX_IN, in) &&
                 fscanf(in, " %d", &n_out) == 1 && read_numbers(call->out, n_out, WF_MAX_OUT, in);

    if (right && kind == WF_CALL_OP) {
        op = op_of_name(name);
        WF_NEED(op >= 0, WEFT_ERR_IO, "compile replay: there is no op %s", name);
        call->op = (uint16_t)op;
    }
    if (right) {
        call->kind = (uint8_t)kind;
        call->in_place = in_place != 0;
        call->n_in = (uint8_t)n_in;
        call->n_out = (uint8_t)n_out;
    }
    right = right && slots_are_there(list, call) && read_attrs(list, call, in) &&
            read_scalars(call, in) && fscanf(in, " %500s %4s", module, word) == 2;
    WF_NEED(right, WEFT_ERR_IO, "compile replay: call %d in the file is not as it should be",
            list->n_calls - 1);
    if (strcmp(module, "-") != 0) call->module = wf_strdup(module);
    if (strcmp(word, "want") != 0) return WEFT_OK;
    call->want = read_layout(list, in);
    return call->want ? WEFT_OK : weft_error_status();
}

/* ---- elements ---- */

static bool has_whole(const struct wf_layout *layout) { return layout->mesh && !layout->partial; }

static weft_status write_whole(weft_tensor *t, FILE *out)
{
    weft_tensor *whole = weft_full_tensor(t);
    size_t bytes;
    char *packed;
    weft_status status;

    if (!whole) return weft_error_status();
    bytes = (size_t)whole->layout->numel * wf_dtypes[whole->layout->desc.dtype].size;
    packed = wf_malloc(bytes + 1);
    status = wf_tensor_download(whole, packed, "compile record");
    fwrite(packed, 1, bytes, out);
    wf_free(packed);
    return status;
}

static weft_status write_elements(const struct wf_call_list *list, FILE *out)
{
    WF_TRY(wf_call_list_restore(list));
    for (int s = 0; s < list->n_slots; s++) {
        const struct wf_slot *slot = &list->slots[s];

        if (!slot->input) continue;
        fwrite(slot->bytes, 1, wf_slot_bytes(slot), out);
        if (has_whole(slot->layout)) WF_TRY(write_whole(slot->input, out));
    }
    return WEFT_OK;
}

/* This rank's part of the whole, where ranks are others than when it was written. */
static weft_status take_part(const struct wf_call_list *list, int s, const char *whole,
                             char *packed)
{
    const struct wf_layout *layout = list->slots[s].layout;
    weft_tensor *t, *part;

    t = weft_from_data((weft_dtype)layout->desc.dtype, layout->desc.global, layout->desc.ndim,
                       whole);
    part = t ? weft_distribute_tensor(t, layout->mesh, layout->placements, -1) : NULL;
    return part ? wf_tensor_download(part, packed, "compile replay") : weft_error_status();
}

static weft_status read_elements(struct wf_call_list *list, const bool *inputs,
                                 const int64_t *bytes, FILE *in)
{
    for (int s = 0; s < list->n_slots; s++) {
        const struct wf_slot *slot = &list->slots[s];
        size_t whole_bytes = (size_t)slot->layout->numel * wf_dtypes[slot->layout->desc.dtype].size;
        size_t here = (size_t)bytes[s],
               room = here > wf_slot_bytes(slot) ? here : wf_slot_bytes(slot);
        bool distributed = has_whole(slot->layout);
        char *packed, *whole;
        weft_status status = WEFT_OK;

        if (!inputs[s]) continue;
        WF_NEED(list->exact || distributed || here == wf_slot_bytes(slot), WEFT_ERR_STATE,
                "compile replay: partial results are for their own number of ranks only");
        packed = wf_calloc(room + 1, 1);
        whole = wf_malloc(whole_bytes + 1);
        if (fread(packed, 1, here, in) != here ||
            (distributed && fread(whole, 1, whole_bytes, in) != whole_bytes))
            status = WF_FAIL(WEFT_ERR_IO, "compile replay: the file ends too early");
        if (status == WEFT_OK && distributed && !list->exact)
            status = take_part(list, s, whole, packed);
        if (status == WEFT_OK) status = wf_call_list_set_input(list, s, packed);
        wf_free(packed);
        wf_free(whole);
        WF_TRY(status);
    }
    return WEFT_OK;
}

/* ---- the file ---- */

static weft_status write_all(struct wf_call_list *list, FILE *out)
{
    note_meshes(list);
    fprintf(out, "weft calls 2 %d %d %d %d %d %d\n", weft_world_size(), weft_world_rank(),
            list->n_meshes, list->n_slots, list->n_calls, list->n_results);
    for (int m = 0; m < list->n_meshes; m++) WF_TRY(write_mesh(list->meshes[m], out));
    for (int s = 0; s < list->n_slots; s++) {
        fprintf(out, "slot %d %zu", list->slots[s].input != NULL, wf_slot_bytes(&list->slots[s]));
        WF_TRY(write_layout(list, list->slots[s].layout, out));
    }
    for (int i = 0; i < list->n_calls; i++) WF_TRY(write_call(list, &list->calls[i], out));
    for (int i = 0; i < list->n_results; i++) fprintf(out, "result %d\n", list->results[i]);
    fprintf(out, "elements\n");
    return write_elements(list, out);
}

weft_status wf_call_list_write(struct wf_call_list *list, const char *path)
{
    char *name = wf_format("%s.%d", path, weft_world_rank());
    FILE *out = fopen(name, "wb");
    weft_status status;
    bool failed;

    if (!out) {
        status = WF_FAIL_LOCAL(WEFT_ERR_IO, "compile record: cannot write %s: %s", name,
                               strerror(errno));
        wf_free(name);
        return status;
    }
    status = write_all(list, out);
    failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (status == WEFT_OK && failed)
        status = WF_FAIL_LOCAL(WEFT_ERR_IO, "compile record: cannot write %s: %s", name,
                               strerror(errno));
    wf_free(name);
    return status;
}

static weft_status read_slots(struct wf_call_list *list, int n, bool *inputs, int64_t *bytes,
                              FILE *in)
{
    for (int s = 0; s < n; s++) {
        struct wf_layout *layout;
        int input;

        WF_NEED(fscanf(in, " slot %d %" SCNd64, &input, &bytes[s]) == 2 && bytes[s] >= 0,
                WEFT_ERR_IO, "compile replay: slot %d in the file is not as it should be", s);
        layout = read_layout(list, in);
        if (!layout) return weft_error_status();
        wf_call_list_add_slot(list, layout);
        wf_layout_release(layout);
        inputs[s] = input != 0;
    }
    return WEFT_OK;
}

static weft_status read_all(struct wf_call_list *list, FILE *in)
{
    int world, rank, n_meshes, n_slots, n_calls, n_results;
    weft_status status;
    char line[16];
    int64_t *bytes;
    bool *inputs;

    WF_NEED(fscanf(in, "weft calls 2 %d %d %d %d %d %d", &world, &rank, &n_meshes, &n_slots,
                   &n_calls, &n_results) == 6 &&
                n_slots >= 0 && n_slots < 1 << 24,
            WEFT_ERR_IO, "compile replay: the file has no list of calls");
    list->exact = world == weft_world_size();
    for (int m = 0; m < n_meshes; m++) WF_TRY(read_mesh(list, list->exact, in));
    bytes = wf_calloc((size_t)n_slots + 1, sizeof *bytes);
    inputs = wf_calloc((size_t)n_slots + 1, sizeof *inputs);
    status = read_slots(list, n_slots, inputs, bytes, in);
    for (int i = 0; i < n_calls && status == WEFT_OK; i++) status = read_call(list, in);
    for (int i = 0; i < n_results && status == WEFT_OK; i++) {
        list->results = wf_array_grow(list->results, list->n_results, sizeof(int));
        if (fscanf(in, " result %d", &list->results[list->n_results++]) != 1 ||
            list->results[i] < 0 || list->results[i] >= list->n_slots)
            status = WF_FAIL(WEFT_ERR_IO, "compile replay: a result in the file is missing");
    }
    if (status == WEFT_OK && (fscanf(in, " ") == EOF || !fgets(line, sizeof line, in) ||
                              strcmp(line, "elements\n") != 0))
        status = WF_FAIL(WEFT_ERR_IO, "compile replay: the file ends before its elements");
    if (status == WEFT_OK) status = read_elements(list, inputs, bytes, in);
    wf_free(bytes);
    wf_free(inputs);
    return status;
}

/* Of another number of ranks the files are taken in turn. */
static FILE *open_file(const char *path)
{
    int rank = weft_world_rank(), n = 0;
    char *name;
    FILE *in;

    for (bool there = true; there && n <= rank; n += there) {
        name = wf_format("%s.%d", path, n);
        in = fopen(name, "rb");
        wf_free(name);
        there = in != NULL;
        if (in) fclose(in);
    }
    if (!n) return NULL;
    name = wf_format("%s.%d", path, rank % n);
    in = fopen(name, "rb");
    wf_free(name);
    return in;
}

weft_status wf_call_list_read(const char *path, struct wf_call_list **list)
{
    struct wf_call_list *made;
    weft_scope *scope;
    weft_status status;
    FILE *in = open_file(path);

    if (!in)
        return WF_FAIL_LOCAL(WEFT_ERR_IO, "compile replay: cannot read %s.%d: %s", path,
                             weft_world_rank(), strerror(errno));
    made = WF_NEW(struct wf_call_list);
    scope = weft_scope_open();
    weft_no_grad_open();
    status = read_all(made, in);
    weft_no_grad_close();
    weft_scope_close(scope);
    fclose(in);
    if (status == WEFT_OK)
        *list = made;
    else
        wf_call_list_free(made);
    return status;
}
