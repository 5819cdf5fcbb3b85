/* op_attrs.c: what the structs of op_attrs.def consist of. */
#include "kernels/op_attrs.h"

#define ATTR(type, name) {#name, WF_FIELD_VALUE, sizeof(type), 1},
#define ATTR_ARRAY(type, name, n) {#name, WF_FIELD_VALUE, sizeof(type), n},
#define ATTR_COUNT(name) {#name, WF_FIELD_COUNT, sizeof(int64_t), 1},
#define ATTR_POINTER(type, name) {#name, WF_FIELD_POINTER, sizeof(type *), 1},
#define ATTR_ZEROS(n) {"", WF_FIELD_ZEROS, 1, n},
#define WF_OP_ATTRS(name, fields) static const struct wf_attr_field name##_fields[] = {fields};
#include "kernels/op_attrs.def"

#define WF_OP_ATTRS(id, fields_)                                                                   \
    [WF_ATTRS_##id] = {.name = #id,                                                                \
                       .words = (int)(sizeof(struct wf_##id##_attrs) / sizeof(uint64_t)),          \
                       .n_fields = (int)(sizeof id##_fields / sizeof *id##_fields),                \
                       .fields = id##_fields},
const struct wf_attrs_info wf_attrs_table[WF_ATTRS_COUNT] = {
    [WF_ATTRS_none] = {.name = "none"},
#include "kernels/op_attrs.def"
};
