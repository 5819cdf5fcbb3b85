/*
 * capture.h: a step whose work is captured once and launched again, without the calls that gave it.
 *
 * Between wf_capture_begin and wf_capture_end the device's work is captured instead of run; it runs
 * at the end. What cannot be captured ends the capture early (wf_capture_leave): what was captured
 * so far runs then, and the step goes on in ordinary execution, so nothing is lost and nothing runs
 * twice. Whatever cannot be repeated makes the graph unusable (wf_capture_forbid), but the step
 * itself is right.
 *
 * Launches of a graph use the addresses and numbers of the capture. Memory stays: blocks that the
 * step makes come from regions that are the graph's, and what was there before keeps a reference.
 * Numbers that change from step to step belong to calls that are given as wf_changing_call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <weft/export.h>

struct wf_capture;
struct wf_graph;

/** This thread's capture, which is under way; NULL, the normal case: none. */
extern _Thread_local struct wf_capture *wf_capture_of_thread;

/** A call of kernels whose numbers change, and what the host counts beside. */
struct wf_changing_call {
    /** What the host counts goes one step on (1) or back (-1); NULL: it counts nothing. */
    void (*advance)(void *self, int by);
    /** Give the kernels, with the numbers of the step that advance came to: as many kernels in
     * every step. NULL: there are none. */
    void (*give)(void *self);
    /** Of a step of an optimizer: the kernels of one of its items alone. NULL: they are given
     * together. */
    void (*give_item)(void *self, int item);
    /** Called before and after the launch, that of the capture too; NULL: nothing. */
    void (*around_launch)(void *self, bool after);
    void (*release)(void *self); /* NULL: nothing */
    void *self;
};

/** Number of this thread's capture, from 1 on; 0: none is under way. */
unsigned wf_capture_number(void);
/** Between wf_capture_begin and wf_capture_end, also when the capture was left: the step may be in
 * a capture on other ranks. */
bool wf_capture_is_open(void);

/** `keeps`: what is on the device now keeps a reference; else the caller sees to it that what the
 * step uses stays. gives: NULL; or why there is no capture */
const char *wf_capture_begin(bool keeps);

/** Within a capture: the call, now and in each launch: `give` is called here, `advance` not. The
 * calls of a launch come in this order. */
void wf_capture_add_call(struct wf_changing_call call);

/** The step does what no graph has, on all ranks alike: run what was captured, and capture no
 * longer. / The step cannot be repeated. The texts are the reason; the first one counts. Without a
 * capture: nothing. */
void wf_capture_leave(const char *format, ...) WEFT_PRINTF(1, 2);
void wf_capture_forbid(const char *format, ...) WEFT_PRINTF(1, 2);

/** As wf_capture_leave, for a reason that other ranks need not have. A collective of the step would
 * then be in the graphs of some ranks and not of all, which would wait for ever: the job ends, here
 * or where the step comes to one. */
void wf_capture_leave_for_local_reason(const char *format, ...) WEFT_PRINTF(1, 2);
/** The device is about to be given a collective; it may be captured. */
void wf_capture_note_collective(void);

/** Run what was captured. gives: a graph; NULL: it has no use, and `why` says why */
struct wf_graph *wf_capture_end(char *why, size_t room);

/** Take the step again. gives: false: it would be other kernels than those captured, and nothing
 * has happened; with collectives in the graph the job ends then, for other ranks may launch it */
bool wf_graph_launch(struct wf_graph *graph);
/** All ranks launch it, or none does. */
bool wf_graph_has_collectives(const struct wf_graph *graph);
void wf_graph_free(struct wf_graph *graph);

/** At this rank's end, before communicators that graphs captured on are closed: what is left of
 * them leaves the device. Such a graph is freed later, and not launched. */
void wf_graphs_close(void);
bool wf_graph_is_closed(const struct wf_graph *graph);
