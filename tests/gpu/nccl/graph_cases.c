/*
 * graph_cases.c: cases of test_nccl.c with graphs: launches, what is captured, and who captures.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "device/capture.h"
#include "device/device.h"
#include "nccl_cases.h"

static _Thread_local struct wf_graph *left_graph; /* at the end of the rank */

void free_left_graph(void)
{
    if (left_graph && !wf_graph_is_closed(left_graph)) WF_DIE("a graph is left on the device");
    wf_graph_free(left_graph);
}

/* ---- launches ---- */

/* total = the sum of a over the ranks, twice, beside a copy; captured. `a` is 1 then. */
static struct wf_graph *capture_sums(struct wf_block *a, struct wf_block *sum,
                                     struct wf_block *total, struct wf_block *copy)
{
    struct wf_coll first = sum_of(a, sum), second = sum_of(sum, total);
    char why[512] = "";
    struct wf_graph *graph;

    wf_comm_run(&first); /* the communicator is opened before */
    if (wf_capture_begin(true)) return NULL;
    wf_comm_start(&first);
    wf_device_copy(WEFT_CUDA, copy->data, a->data, COUNT * sizeof(float));
    wf_comm_wait(&first);
    wf_comm_run(&second);
    graph = wf_capture_end(why, sizeof why);
    if (!graph) WF_FAIL(WEFT_ERR_STATE, "no graph: %s", why);
    return graph;
}

static void set(struct wf_block *block, float value)
{
    struct wf_block *from = numbers(value);

    wf_device_copy(WEFT_CUDA, block->data, from->data, COUNT * sizeof(float));
    wf_block_release(from);
}

/* What is done with the graph in the end. */
enum end { FREED, LEFT, LAST_MISSED };

/* Launches; but for one rank's, when the last is to be missed. */
static int launch_graphs(enum end end)
{
    struct wf_block *a, *sum, *total, *copy;
    struct wf_graph *graph;
    float ranks;
    int failed = 0;

    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    ranks = (float)wf_comm_size(wf_comm_world());
    a = numbers(1);
    sum = numbers(0);
    total = numbers(0);
    copy = numbers(0);
    graph = capture_sums(a, sum, total, copy);
    if (!graph) return 1;
    failed += expect(total, ranks * ranks, "the sum of the capture");
    for (int i = 2; i < 5; i++) {
        set(a, (float)i);
        if (end == LAST_MISSED && i == 4 && wf_comm_rank(wf_comm_world()) == 1) break;
        failed += !wf_graph_launch(graph);
        failed += expect(total, (float)i * ranks * ranks, "the sum of a launch");
        failed += expect(copy, (float)i, "what is copied beside it");
    }
    if (end == LEFT)
        left_graph = graph;
    else
        wf_graph_free(graph);
    wf_block_release(a);
    wf_block_release(sum);
    wf_block_release(total);
    wf_block_release(copy);
    return failed;
}

int graphs(void *payload)
{
    (void)payload;
    return launch_graphs(FREED);
}

int missing_in_graph(void *payload)
{
    (void)payload;
    return launch_graphs(LAST_MISSED);
}

/* The end of the rank comes before that of the graph. */
int graph_left(void *payload)
{
    (void)payload;
    return launch_graphs(LEFT);
}

/* Of a GPU of 64 MiB. Captured, it has no room beside what is idle. */
static bool take_most(void)
{
    struct wf_block *block = wf_block_new_on(WEFT_CUDA, (size_t)40 << 20, WF_MEM_COMM);

    if (block) wf_block_release(block);
    return block != NULL;
}

/* One rank has no memory left in a capture, before its first collective or after it. */
static int lacks_memory(bool after)
{
    struct wf_block *a, *sum;
    struct wf_coll coll;
    char why[512] = "";

    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    a = numbers(1);
    sum = numbers(0);
    coll = sum_of(a, sum);
    wf_comm_run(&coll);
    if (!take_most() || wf_capture_begin(true)) return 1;
    if (after) wf_comm_run(&coll);
    if (wf_comm_rank(wf_comm_world()) == 1 && !take_most()) return 1;
    wf_comm_run(&coll);
    wf_graph_free(wf_capture_end(why, sizeof why));
    return expect(sum, 0, "what never comes");
}

int lacks_memory_before(void *payload)
{
    (void)payload;
    return lacks_memory(false);
}

int lacks_memory_after(void *payload)
{
    (void)payload;
    return lacks_memory(true);
}

/* Alone, a rank leaves the capture and goes on. */
int lacks_memory_alone(void *payload)
{
    struct wf_block *a, *b;
    char why[512] = "";
    int failed;

    (void)payload;
    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    a = numbers(1);
    b = numbers(0);
    if (!take_most() || wf_capture_begin(true)) return 1;
    wf_device_copy(WEFT_CUDA, b->data, a->data, COUNT * sizeof(float));
    failed = !take_most();
    failed += wf_capture_end(why, sizeof why) || !strstr(why, "there is no memory for");
    failed += expect(b, 1, "what was captured");
    wf_block_release(a);
    wf_block_release(b);
    return failed;
}

/* ---- what a graph keeps of a collective ---- */

/* Counts of a reduce-scatter lie in a page that goes after the capture: a launch that reads them
 * would be a fault. */
int counts_gone(void *payload)
{
    struct wf_comm *world = wf_comm_world();
    int ranks = wf_comm_size(world), failed = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), each = COUNT / (size_t)ranks;
    size_t *counts = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct wf_block *a, *sum;
    struct wf_coll coll;
    struct wf_graph *graph;
    char why[512] = "";
    float first;

    (void)payload;
    if (counts == MAP_FAILED || wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    for (int rank = 0; rank < ranks; rank++) counts[rank] = each;
    a = numbers(2);
    sum = numbers(0);
    coll = sum_of(a, sum);
    coll.kind = WEFT_COLL_REDUCE_SCATTER;
    coll.send_counts = counts;
    wf_comm_run(&coll);
    if (wf_capture_begin(true)) return 1;
    wf_comm_run(&coll);
    graph = wf_capture_end(why, sizeof why);
    wf_device_synchronize();
    mprotect(counts, page, PROT_NONE);
    if (!graph || !wf_graph_launch(graph)) return 1;
    set(sum, 0);
    failed += !wf_graph_launch(graph);
    wf_device_download(WEFT_CUDA, &first, sum->data, sizeof first, "a test");
    failed += first != 2.0f * (float)ranks;
    wf_graph_free(graph);
    wf_block_release(a);
    wf_block_release(sum);
    munmap(counts, page);
    return failed;
}

/* ---- what began before a capture ---- */

/* A maximum began before a capture of a sum, and the GPU has ended it. It does not become part of
 * the graph: waited for behind the capture, it is there, and a launch does not write it again.
 * Waited for inside, it ends the capture. */
static int begin_before_capture(bool waited_for)
{
    struct wf_block *a, *sum, *most;
    struct wf_coll maximum, inside;
    char why[512] = "";
    struct wf_graph *graph;
    int failed = 0;

    if (wf_device_ensure_open(WEFT_CUDA) != WEFT_OK) return 1;
    a = numbers(1);
    sum = numbers(0);
    most = numbers(0);
    inside = sum_of(a, sum);
    maximum = sum_of(a, most);
    maximum.reduce = WEFT_MAX;
    wf_comm_start(&maximum);
    wf_device_synchronize();
    if (wf_capture_begin(true)) return 1;
    wf_comm_run(&inside);
    if (waited_for) wf_comm_wait(&maximum);
    graph = wf_capture_end(why, sizeof why);
    failed += waited_for ? graph != NULL || !strstr(why, "began before the step") : !graph;
    if (!waited_for) wf_comm_wait(&maximum);
    failed += expect(most, 1, "the maximum");
    set(most, 7);
    if (graph) failed += !wf_graph_launch(graph);
    failed += expect(most, 7, "what a launch leaves alone");
    wf_graph_free(graph);
    wf_block_release(a);
    wf_block_release(sum);
    wf_block_release(most);
    return failed;
}

int older(void *payload)
{
    (void)payload;
    return begin_before_capture(false);
}

int older_waited_for(void *payload)
{
    (void)payload;
    return begin_before_capture(true);
}
