/*
 * op_attrs.h: the attributes of op_attrs.def as structs, one that holds any of them, and what they
 * consist of.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

struct weft_mesh;

enum {
    WF_PLACEMENT_WORDS = 2, /* dtensor/dispatch/placement_args.h */
    WF_PLACEMENTS_WORDS = WF_PLACEMENT_WORDS * WEFT_MAX_AXES,
    WF_MAX_OP_ARGUMENTS = 16 /* WEFT_OP_INTEGERS */
};

enum wf_resampling {
    WF_RESAMPLE_NEAREST,
    WF_RESAMPLE_NEAREST_EXACT,
    WF_RESAMPLE_LINEAR,
    WF_RESAMPLE_CUBIC,
    WF_RESAMPLE_AVERAGE,
    WF_RESAMPLE_ADAPTIVE
};
enum wf_rotary_scaling { WF_ROTARY_UNSCALED, WF_ROTARY_LINEAR, WF_ROTARY_LLAMA3 };

#define ATTR(type, name) type name;
#define ATTR_ARRAY(type, name, n) type name[n];
#define ATTR_COUNT(name) int64_t name;
#define ATTR_POINTER(type, name) type *name;
#define ATTR_ZEROS(n) uint8_t zeros[n];
#define WF_OP_ATTRS(name, fields)                                                                  \
    struct wf_##name##_attrs {                                                                     \
        fields                                                                                     \
    };
#include "kernels/op_attrs.def"

#define ATTR(type, name) +sizeof(type)
#define ATTR_ARRAY(type, name, n) +(n) * sizeof(type)
#define ATTR_COUNT(name) +sizeof(int64_t)
#define ATTR_POINTER(type, name) +sizeof(type *)
#define ATTR_ZEROS(n) +(n)
#define WF_OP_ATTRS(name, fields)                                                                  \
    static_assert(sizeof(struct wf_##name##_attrs) == 0 fields &&                                  \
                      sizeof(struct wf_##name##_attrs) % sizeof(uint64_t) == 0,                    \
                  "attributes have no padding and fill whole words");
#include "kernels/op_attrs.def"

/** The attributes of any op, in the member that its row in ops.def names. */
union wf_op_attrs {
#define WF_OP_ATTRS(name, fields) struct wf_##name##_attrs name;
#include "kernels/op_attrs.def"
};

enum wf_attrs_kind {
    WF_ATTRS_none,
#define WF_OP_ATTRS(name, fields) WF_ATTRS_##name,
#include "kernels/op_attrs.def"
    WF_ATTRS_COUNT
};

/** A field of attributes; the next one begins where it ends. */
struct wf_attr_field {
    const char *name;
    enum { WF_FIELD_VALUE, WF_FIELD_COUNT, WF_FIELD_POINTER, WF_FIELD_ZEROS } kind;
    size_t size; /* of one element */
    int n;
};

struct wf_attrs_info {
    const char *name;
    int words, n_fields;
    const struct wf_attr_field *fields;
};
extern const struct wf_attrs_info wf_attrs_table[WF_ATTRS_COUNT];
