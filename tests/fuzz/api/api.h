/* api.h: what the calls that prototypes.awk writes take their arguments from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

/** Which arguments a call gets. */
enum api_pass {
    API_NULLS,    /* NULL and 0 everywhere */
    API_ONE_NULL, /* pointer number `detail` is NULL, all others are there */
    API_EXTREMES, /* everything is there, integers and numbers are number `detail` of the extremes
                   */
    API_RANDOM,   /* mixtures of all that by `seed` */
    API_PASSES
};

struct api_call {
    enum api_pass pass;
    int detail;
    uint64_t seed;
    bool needs_handle; /* no pointer is NULL but under API_NULLS */
    bool acts;         /* it returned a status: */
    weft_status status;
};

struct api_function {
    const char *name;
    void (*run)(struct api_call *call);
    const char
        *kinds;  /* a letter per argument: p pointer, f function, i integer, d number, s value */
    bool status; /* returns one */
};

extern const struct api_function api_functions[];
extern const int api_count;

/** Argument number i; NULL, or something of that C type ("weft_tensor", "char *"). */
void *api_pointer(const struct api_call *call, int i, const char *type);
int64_t api_integer(const struct api_call *call, int i, const char *name);
double api_real(const struct api_call *call, int i);
/** A structure that is passed by value. */
void *api_value(const struct api_call *call, int i, const char *type, size_t bytes);
/** A function is NULL in this call. */
bool api_absent(const struct api_call *call, int i);
void api_returned(struct api_call *call, weft_status status);

/** How many extremes there are. */
enum { API_EXTREMES_COUNT = 6 };

/** Make the objects that arguments are. ranks: the rank that the calls are made on */
void api_objects_make(void);
/** One of them; NULL for a type that cannot be made. `variant` 0 is the plainest. */
void *api_object(const char *type, int i, unsigned variant);

/* The functions that calls give. */
int api_function_body(void *payload);
void api_function_release(void *payload);
weft_input_function api_function_weft_input_function;
weft_input_hook api_function_weft_input_hook;
weft_output_function api_function_weft_output_function;
weft_output_hook api_function_weft_output_hook;
weft_outputs_hook api_function_weft_outputs_hook;
weft_parameter_visitor api_function_weft_parameter_visitor;
weft_partition_function api_function_weft_partition_function;
weft_recomputable api_function_weft_recomputable;
weft_compile_backend api_function_weft_compile_backend;
weft_compiled_function api_function_weft_compiled_function;
weft_rule_function api_function_weft_rule_function;
weft_step_function api_function_weft_step_function;
weft_tensor_visitor api_function_weft_tensor_visitor;
