/*
 * element_type.h: element types as safetensors files name them, and numbers brought from one to
 * another.
 *
 * A file may hold more types than a tensor: those are known by size, so that a file is checked as a
 * whole, and refused when they are read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/dtype.h>

struct wf_element_type_info {
    const char *name; /* "BF16" */
    int bits;
    int alignment;   /* bytes; what files are ordered by */
    bool readable;   /* its numbers can become a tensor's */
    bool is_integer; /* bool too */
};

/** The type with this name, -1 when there is none; and one by number. */
int wf_element_type_by_name(const char *name);
const struct wf_element_type_info *wf_element_type_info(int type);

/** What a tensor's elements are called in a file. */
int wf_element_type_of_dtype(weft_dtype dtype);

/** True when numbers of this type can become `dtype`: not from a fraction to an integer, nor from
 * anything but a bool to a bool. */
bool wf_element_type_converts_to(int type, weft_dtype dtype);

/**
 * `n` numbers from a file into a tensor; strides are in bytes, `from` need not be aligned.
 * gives: false when an integer does not fit
 */
bool wf_elements_convert(void *to, weft_dtype dtype, int64_t to_stride, const void *from, int type,
                         int64_t from_stride, int64_t n);
