/* test_shards.c: a folder has the weights that were saved there last, in one file or in several, or
 * those that were there before: never some of both. */
/* mpi: 2 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scratch.h"
#include "support/worlds.h"

enum { ONE = 1 << 30, LAYERS = 5 };

/* Matrices of 576 bytes, and a last one of 2560; the first is all `value`, the next one more. */
static weft_module *model(struct wt_world *w, double value)
{
    weft_module *m = weft_sequential_new();
    char name[16];

    for (int i = 0; i < LAYERS; i++) {
        weft_module *child = weft_linear_new(
            (weft_linear_config){.in = {16}, .out = {i == LAYERS - 1 ? 40 : 9}, .no_bias = true});

        snprintf(name, sizeof name, "l%d", i);
        WT_EQ(weft_fill_(weft_module_parameter(child, "weight"), value + i), WEFT_OK);
        weft_module_add_child(m, name, child);
    }
    WT_EQ(weft_parallelize_module(
              m, w->mesh,
              (weft_plan[]){{"l0", weft_colwise_parallel()}, {"l1", weft_rowwise_parallel()}, {0}}),
          WEFT_OK);
    return m;
}

static bool is_all_of(weft_module *m, double value)
{
    bool same = true;
    char path[32];

    for (int i = 0; i < LAYERS; i++) {
        snprintf(path, sizeof path, "l%d.weight", i);
        same &= wt_local_is_all(weft_module_parameter(m, path), value + i);
    }
    return same;
}

static bool has_weights_of(struct wt_world *w, const char *folder, double value)
{
    weft_weights *file = weft_weights_open(folder);
    weft_module *m = model(w, -100);
    bool same = weft_weights_load(m, file, NULL) == WEFT_OK && is_all_of(m, value);

    wt_note("%s", weft_error_message());
    weft_weights_close(file);
    weft_module_release(m);
    return same;
}

static const char *in(const char *folder, const char *name)
{
    static _Thread_local char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Of all files, or of those whose names begin so. */
static int count_in(const char *folder, const char *prefix)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    int count = 0;

    while (list && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (list) closedir(list);
    return count;
}

static const char *fresh_folder(const char *name)
{
    WT_ALL(true);
    if (wt_rank() == 0) {
        wt_remove(wt_scratch(name));
        mkdir(wt_scratch(name), 0777);
    }
    WT_ALL(true);
    return wt_scratch(name);
}

/* As many shards as before, more, fewer, one file: only what was saved last is there. trial 4.6 */
WT_TEST_IN_WORLD(shards__take_the_place_of_what_was_saved_before, w)
{
    static const int64_t most[] = {600, ONE, 600, 600, 1300, ONE, ONE, 1300};
    const char *folder = fresh_folder("replaced");

    for (int i = 0; i < 8; i++) {
        weft_module *m = model(w, 10 * i);
        int shards = most[i] == ONE ? 0 : most[i] == 600 ? 5 : 3;

        wt_note("save %d", i);
        WT_EQ(weft_weights_save_shards(m, folder, most[i], NULL), WEFT_OK);
        WT_ALL(has_weights_of(w, folder, 10 * i));
        WT_EQ(count_in(folder, "model-"), shards);
        WT_EQ(count_in(folder, ""), shards + 1); /* the index, or the one file */
        weft_module_release(m);
    }
}

/* What only looks like a shard is somebody else's. */
WT_TEST_IN_WORLD(shards__remove_no_other_file, w)
{
    static const char *const stay[] = {"model-1-of-3.safetensors", "model-00001-of-00003.bin",
                                       "adapter_model.safetensors", "config.json"};
    weft_module *m = model(w, 1);
    const char *folder = fresh_folder("others");

    for (int i = 0; i < 4 && wt_rank() == 0; i++) wt_write_text(in(folder, stay[i]), "mine");
    WT_ALL(true);
    WT_EQ(weft_weights_save_shards(m, folder, 600, NULL), WEFT_OK);
    WT_EQ(weft_weights_save_shards(m, folder, ONE, NULL), WEFT_OK);
    for (int i = 0; i < 4; i++) WT_ALL(access(in(folder, stay[i]), F_OK) == 0);
    WT_EQ(count_in(folder, ""), 5);
    weft_module_release(m);
}

static weft_status save_with_room(weft_module *m, const char *folder, int64_t most, rlim_t room)
{
    struct rlimit before, small;
    weft_status status;

    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = room, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    WT_ALL(true);
    setrlimit(RLIMIT_FSIZE, &small);
    status = weft_weights_save_shards(m, folder, most, NULL);
    WT_ALL(true);
    setrlimit(RLIMIT_FSIZE, &before);
    return status;
}

/* The last of three shards is larger than files may be; the old ones have the same names. trial 4.6
 */
WT_TEST_IN_WORLD(shards__that_cannot_all_be_written_leave_what_was_there, w)
{
    weft_module *m = model(w, 1), *other = model(w, 2);
    const char *folder = fresh_folder("whole");

    WT_EQ(weft_weights_save_shards(m, folder, 1300, NULL), WEFT_OK);
    WT_FAILS(save_with_room(other, folder, 1300, 2560), WEFT_ERR_IO, "no room for");
    WT_ALL(has_weights_of(w, folder, 1));
    WT_EQ(count_in(folder, ""), 4);
    WT_RELEASE(weft_module_release, m, other);
}

/* A folder is where a file would be: nothing else is touched. trial 4.6 */
WT_TEST_IN_WORLD(shards__whose_name_is_taken_leave_what_was_there, w)
{
    static const char *const taken[] = {"model.safetensors", "model-00002-of-00005.safetensors"};
    weft_module *m = model(w, 1), *other = model(w, 2);

    for (int i = 0; i < 2; i++) {
        const char *folder = fresh_folder("taken");

        WT_EQ(weft_weights_save_shards(m, folder, 1300, NULL), WEFT_OK);
        if (wt_rank() == 0) mkdir(in(folder, taken[i]), 0777);
        WT_ALL(true);
        WT_EQ(weft_weights_save_shards(other, folder, 600, NULL), WEFT_ERR_IO);
        WT_FAILED(WEFT_ERR_IO, "something is there that is no file");
        WT_ALL(has_weights_of(w, folder, 1));
        WT_EQ(count_in(folder, ""), 5);
    }
    WT_RELEASE(weft_module_release, m, other);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "shards")); }
