/*
 * device_driver.h: what a device with memory of its own offers, as tables of functions. Nothing
 * here is CUDA's: libweft-cuda.so fills the tables (src/device/cuda), and so does a driver for
 * tests (tests/gpu/driver). The rest of the library calls what device.h and pool.h make of them.
 *
 * A rank is a thread, with one device. Its work goes to two streams: what is given to a stream runs
 * in that order, later, and a stream waits for the other where stream_wait says so. No function
 * waits for the device but event_wait and synchronize. What fails on the device ends the job with a
 * sentence that names the call and has the device's own text; `count`, `open`, `map` and `pin`
 * tell.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/dtype.h>

struct wf_device_collectives; /* comm/device_collectives.h */
struct wf_device_kernels;     /* kernels/device_kernels.h */
struct wf_device_event;       /* the driver's: a point in a stream */
struct wf_device_graph;       /* the driver's: work that was captured */
struct wf_library_calls;      /* device/library_calls.h */
struct wf_strided_copy;       /* base/elements/strided_copy.h */

enum wf_stream {
    WF_STREAM_COMPUTE, /* kernels, and copies that an op or a program asks for */
    WF_STREAM_COMM,    /* what moves while those run: the bytes of collectives */
    WF_STREAMS
};

struct wf_device_memory {
    int64_t free, total; /* bytes of the device, whoever holds them */
};

/**
 * Work that is given once and launched any number of times. What both streams are given between
 * begin and end is captured in the order that streams and events make of it, and not run. Meanwhile
 * nothing of it may be waited for on the host, nor may what was given before be waited for in a
 * stream; events that were recorded meanwhile are recorded anew before they are used after it.
 * Memory that it uses, of the host too, stays as long as the graph.
 *
 * What is between part_begin and part_end are kernels of the compute stream whose arguments change
 * from launch to launch; the parts of a capture are numbered from 0 on.
 */
struct wf_device_graphs {
    void (*begin)(void);
    struct wf_device_graph *(*end)(void);
    void (*part_begin)(void);
    void (*part_end)(void);
    /** After all that both streams were given before, before all that they are given later. */
    void (*launch)(struct wf_device_graph *graph);
    /** What the compute stream is given between these is not run: it takes the place of the part's
     * kernels in later launches, one by one. false: there are more of them, or fewer. */
    void (*update_begin)(struct wf_device_graph *graph, int part);
    bool (*update_end)(void);
    /** Launches that have not run yet still do. */
    void (*free)(struct wf_device_graph *graph);
};

struct wf_device_driver {
    const char *name; /* "CUDA" */

    /** Devices of this machine; 0: none that can be used, and `why` says why not. */
    int (*count)(char *why, size_t room);
    /** Take device `number` for this thread, false: it cannot be used, and `why` says why / give it
     * back, with its streams. Several ranks may have one. */
    bool (*open)(int number, char *why, size_t room);
    void (*close)(void);
    /** What it is: "NVIDIA H100 80GB HBM3, 79 GiB". */
    void (*describe)(char *text, size_t room);
    struct wf_device_memory (*memory)(void);

    /* ---- memory ---- */

    /** Device memory, aligned to 256 bytes, that work of both streams may use at once; NULL: there
     * is no more. Nothing given to a stream uses it any longer when it is unmapped. */
    void *(*map)(size_t bytes);
    void (*unmap)(void *p, size_t bytes);
    /** Make host memory, whole pages, such that the device copies it without help of the host;
     * false: it is as before, and copies from and to it may wait. */
    bool (*pin)(void *host, size_t bytes);
    void (*unpin)(void *host, size_t bytes);

    /* ---- copies, in stream order; `host` is pinned, and untouched until the copy is done ---- */

    void (*upload)(void *to, const void *host, size_t bytes, enum wf_stream stream);
    void (*download)(void *host, const void *from, size_t bytes, enum wf_stream stream);
    void (*copy)(void *to, const void *from, size_t bytes, enum wf_stream stream);

    /* ---- loops over elements on the compute stream that layers below the kernels need ---- */

    /** Not more than the copy says is read or written; offsets are the copy's. */
    void (*strided_copy)(const struct wf_strided_copy *copy, void *to, const void *from);
    /** `count` times the element of 1, 2, 4 or 8 bytes. */
    void (*fill)(void *to, const void *element, size_t element_bytes, size_t count);
    /** x / divisor; |x| ^ p. Floats, and of divide integers too. */
    void (*divide)(weft_dtype dtype, size_t count, void *x, int divisor);
    void (*power)(weft_dtype dtype, size_t count, void *x, double p);
    /** Integers in the order of floats, and back (base/elements/float_key.h): i64 for f64, i32 for
     * the others. For the library's `collectives` alone. */
    void (*keys_of_floats)(weft_dtype dtype, bool nan_is_largest, size_t count, void *keys,
                           const void *x);
    void (*floats_of_keys)(weft_dtype dtype, size_t count, void *x, const void *keys);

    /* ---- order ---- */

    /** _timed: one whose time event_seconds takes. */
    struct wf_device_event *(*event_new)(void);
    struct wf_device_event *(*event_new_timed)(void);
    void (*event_free)(struct wf_device_event *event);
    /** The event is what has been given to the stream so far; an earlier record is forgotten. */
    void (*event_record)(struct wf_device_event *event, enum wf_stream stream);
    /** All of it has run. */
    bool (*event_done)(struct wf_device_event *event);
    /** Wait for it, on the host / before what is given to the stream from now on. */
    void (*event_wait)(struct wf_device_event *event);
    void (*stream_wait)(enum wf_stream stream, struct wf_device_event *event);
    /** From one to the other, of either stream; both have run. */
    double (*event_seconds)(struct wf_device_event *from, struct wf_device_event *to);
    /** Wait for both streams. */
    void (*synchronize)(void);

    const struct wf_device_graphs *graphs; /* NULL: it has none */
};

/* Grows whenever a struct that both sides of a shared object see changes. */
enum { WF_DEVICE_TABLES = 4 };

/** What a shared object offers. */
struct wf_device_library {
    uint32_t tables;     /* WF_DEVICE_TABLES of its build; what follows is read when they agree */
    const char *version; /* WEFT_VERSION of its build */
    const struct wf_device_driver *driver;
    const struct wf_device_kernels *kernels;
    const struct wf_device_collectives
        *collectives; /* NULL: collectives go through host memory (comm/staged.c) */
};

/** The one function that it exports, under the name WF_DEVICE_LIBRARY_SYMBOL. Once per process.
 * `calls` lasts. */
typedef const struct wf_device_library *
wf_device_library_open(const struct wf_library_calls *calls);
#define WF_DEVICE_LIBRARY_SYMBOL "weft_device_library"
