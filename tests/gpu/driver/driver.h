/* driver.h: what the files of the test driver share: the tables that it offers. */
#pragma once

#include "kernels/device_kernels.h"

extern struct wf_device_driver test_driver;
extern const struct wf_device_kernels test_kernels;
extern const struct wf_device_graphs test_graphs;

/** Something for the compute stream: run(arguments). It runs now, after what the stream waits for;
 * while a graph is captured, in its launches, with a copy of the `bytes` of arguments. */
typedef void test_work(const void *arguments);
void test_driver_give(test_work *run, const void *arguments, size_t bytes);

/* ---- graphs.c ---- */

/** A graph is being captured, or updated. */
bool test_graphs_take_work(void);
/** The work is its next. */
void test_graphs_add(test_work *run, const void *arguments, size_t bytes);
/** Run what the streams were given before. */
void test_driver_run_all(void);
/** Number of the capture that is under way; 0: none. */
int test_graphs_capture(void);

/** Once: no graphs where WEFT_TEST_DEVICE_GRAPHS is set. */
void test_driver_init(void);
/** Once: choose instruction sets, and leave out the kernels that WEFT_TEST_DEVICE_LACKS names. */
void test_kernels_init(void);
