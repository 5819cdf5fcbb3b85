/* nccl_cases.h: what the files of gpu.nccl share. */
#pragma once

#include "comm/comm.h"
#include "device/pool.h"

enum { COUNT = 5000 };

/** COUNT f32 on the GPU, each of this value. */
struct wf_block *numbers(float value);
/** Over all ranks. */
struct wf_coll sum_of(struct wf_block *from, struct wf_block *to);
/** gives: 0: each is `want`; else 1, and an error that says which is not */
int expect(struct wf_block *block, float want, const char *what);

/* ---- graph_cases.c: the failures of a rank ---- */

int graphs(void *payload);
int missing_in_graph(void *payload);
int graph_left(void *payload);
int lacks_memory_before(void *payload);
int lacks_memory_after(void *payload);
int lacks_memory_alone(void *payload);
int counts_gone(void *payload);
int older(void *payload);
int older_waited_for(void *payload);
/** At a rank's end, when its communicators are closed: what graph_left left. */
void free_left_graph(void);
