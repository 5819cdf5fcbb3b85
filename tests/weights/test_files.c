/* test_files.c: what is no file is not waited for, and what is saved goes nowhere but where it was
 * told to. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/parallel.h>

#include "io/file_write.h"
#include "support/scratch.h"
#include "support/worlds.h"

enum { PATH = 512 };

static const char *in(const char *folder, const char *name)
{
    static _Thread_local char paths[8][PATH];
    static _Thread_local int next;
    char *path = paths[next++ % 8];

    snprintf(path, PATH, "%s/%s", wt_scratch(folder), name);
    return path;
}

/* Rank 0 makes what the others meet. */
static void fresh_folder(const char *name)
{
    WT_ALL(true);
    if (wt_rank() == 0) {
        wt_remove(wt_scratch(name));
        mkdir(wt_scratch(name), 0777);
    }
    WT_ALL(true);
}

static bool says(const char *path, const char *text)
{
    char read[64] = "";
    FILE *file = fopen(path, "rb");

    if (!file) return false;
    read[fread(read, 1, sizeof read - 1, file)] = '\0';
    fclose(file);
    return strcmp(read, text) == 0;
}

static bool there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static weft_state *state_of(weft_tensor *t)
{
    weft_state *state = weft_state_new();

    WT_ALL(weft_state_add_tensor(state, "t", t) == WEFT_OK);
    return state;
}

/* ---- pipes and devices; trial 3 ---- */

static void refuse_all(const char *path)
{
    weft_gpt_config gpt;

    WT_ALL(weft_weights_open(path) == NULL);
    WT_FAILED(WEFT_ERR_IO, "not a file");
    if (wt_ranks() > 1) return; /* one rank of several that cannot open what follows ends the job */
    WT_FAILS(weft_gpt_config_read(&gpt, path), WEFT_ERR_IO, "not a file");
    WT_ALL(weft_plan_read(path) == NULL);
    WT_FAILED(WEFT_ERR_IO, "not a file");
}

WT_TEST_IN_WORLD(reading__a_pipe_or_a_device_is_refused_at_once, w)
{
    weft_state *state = state_of(weft_full(WEFT_F32, (int64_t[]){3}, 1, 0));

    fresh_folder("pipes");
    if (wt_rank() == 0 && (mkfifo(in("pipes", "pipe"), 0600) != 0 ||
                           mkfifo(in("pipes", "checkpoint.json"), 0600) != 0))
        abort();
    WT_ALL(true);
    refuse_all(in("pipes", "pipe"));
    refuse_all("/dev/zero");
    WT_FAILS(weft_checkpoint_load(wt_scratch("pipes"), state), WEFT_ERR_IO, "not a file");
    WT_FAILS(weft_checkpoint_save(wt_scratch("pipes"), state), WEFT_ERR_IO, "not a file");
    weft_state_release(state);
}

/* trial 3 */
WT_TEST_IN_WORLD(plan__what_follows_a_nul_is_not_left_out, w)
{
    static const char text[] = "a colwise\n\0b rowwise\n";

    fresh_folder("plans");
    if (wt_rank() == 0) wt_write_file(in("plans", "plan"), text, sizeof text - 1);
    WT_ALL(true);
    WT_ALL(weft_plan_read(in("plans", "plan")) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "has a NUL at byte 10");
}

/* ---- links that somebody has laid; trial 3 ---- */

WT_TEST_IN_WORLD(writing__follows_no_link, w)
{
    weft_named_tensor list = {"t", wt_spread(w, wt_constant(8, 2, 5), "S(0)")};
    weft_weights *file;

    fresh_folder("links");
    if (wt_rank() == 0) {
        wt_write_text(in("links", "victim"), "mine");
        if (symlink("victim", in("links", "w->safetensors")) != 0 ||
            symlink("victim", in("links", "w->safetensors.part")) != 0)
            abort();
    }
    WT_ALL(true);
    WT_ALL(weft_weights_write(in("links", "w->safetensors"), &list, 1) == WEFT_OK);
    file = weft_weights_open(in("links", "w->safetensors"));
    WT_EQ(weft_weights_count(file), 1);
    weft_weights_close(file);
    WT_ALL(says(in("links", "victim"), "mine"));
    WT_ALL(weft_weights_write(wt_scratch("links"), &list, 1) != WEFT_OK); /* a folder */
    WT_FAILED(WEFT_ERR_IO, "no file");
}

/* Also where somebody has guessed a name. trial 3 */
WT_TEST(writing__to_a_link_or_over_a_file_is_refused)
{
    int fd = -1;

    if (wt_ranks() > 1) return;
    fresh_folder("guessed");
    wt_write_text(in("guessed", "victim"), "mine");
    if (symlink("victim", in("guessed", "link")) || symlink("nothing", in("guessed", "loose")))
        abort();
    WT_FAILS(wf_file_create(&fd, in("guessed", "link"), 4), WEFT_ERR_IO, "cannot create");
    WT_FAILS(wf_file_create(&fd, in("guessed", "loose"), 4), WEFT_ERR_IO, "cannot create");
    WT_FAILS(wf_file_create(&fd, in("guessed", "victim"), 4), WEFT_ERR_IO, "cannot create");
    WT_FAILS(wf_file_open_to_write(&fd, in("guessed", "link")), WEFT_ERR_IO, "cannot write");
    WT_ALL(says(in("guessed", "victim"), "mine") && !there(in("guessed", "nothing")));
}

WT_TEST_IN_WORLD(checkpoint__follows_no_link_and_writes_over_nothing_of_others, w)
{
    static const char *const planted[] = {"g000001-r00000.safetensors", "checkpoint.json.part"};
    weft_state *state = state_of(wt_spread(w, wt_constant(8, 2, 5), "S(0)"));

    for (int i = 0; i < 2; i++) {
        fresh_folder("planted");
        if (wt_rank() == 0) {
            wt_write_text(in("planted", "victim"), "mine");
            if (symlink("victim", in("planted", planted[i])) != 0) abort();
        }
        WT_ALL(true);
        WT_ALL((weft_checkpoint_save(wt_scratch("planted"), state) == WEFT_OK) == (i == 1));
        if (i == 0) WT_FAILED(WEFT_ERR_IO, "no save of ours has written it");
        WT_ALL(says(in("planted", "victim"), "mine"));
    }
    weft_state_release(state);
}

/* trial 3 */
WT_TEST_IN_WORLD(checkpoint__a_folder_of_another_user_is_refused, w)
{
    weft_state *state = state_of(wt_spread(w, wt_constant(8, 2, 5), "S(0)"));

    fresh_folder("theirs");
    if (geteuid() == 0) { /* nobody else can give a folder away */
        if (wt_rank() == 0 && chown(wt_scratch("theirs"), 65534, 65534) != 0) abort();
        WT_ALL(true);
        WT_ALL(weft_checkpoint_save(wt_scratch("theirs"), state) == WEFT_ERR_IO);
        WT_FAILED(WEFT_ERR_IO, "belongs to user 65534");
    }
    weft_state_release(state);
}

/* ---- what is cleaned up; trial 3 ---- */

WT_TEST_IN_WORLD(cleaning__removes_what_saves_wrote_and_nothing_else, w)
{
    static const char *const stay[] = {
        "g000001-r00777.safetensors",  "g1-r2.safetensors",
        "g000009-r00000.safetensors",  ".weft-notes.part",
        ".weft-0123456789ABCDEF.part", ".weft-fedcba9876543210.part"}; /* just written to */
    static const char *const go[] = {".weft-0123456789abcdef.part", "g000001-r00000.safetensors"};
    enum { STAY = sizeof stay / sizeof *stay };
    weft_state *state = state_of(wt_spread(w, wt_constant(8, 2, 5), "S(0)"));

    fresh_folder("clean");
    WT_ALL(weft_checkpoint_save(wt_scratch("clean"), state) == WEFT_OK);
    if (wt_rank() == 0) {
        for (int i = 0; i < STAY; i++) wt_write_text(in("clean", stay[i]), "mine");
        for (int i = 0; i < STAY - 1; i++) wt_age_file(in("clean", stay[i]), 7200);
        wt_write_text(in("clean", go[0]), "half a file");
        wt_age_file(in("clean", go[0]), 7200);
    }
    WT_ALL(weft_checkpoint_save(wt_scratch("clean"), state) == WEFT_OK);
    for (int i = 0; i < STAY; i++) WT_ALL(says(in("clean", stay[i]), "mine"));
    for (int i = 0; i < 2; i++) WT_ALL(!there(in("clean", go[i])));
    weft_state_release(state);
}

static weft_status save_weights(const char *folder, weft_tensor *t)
{
    weft_named_tensor list = {"t", t};

    return weft_weights_write(in(folder, "w.safetensors"), &list, 1);
}

static weft_status save_shards(const char *folder, weft_tensor *t)
{
    weft_module *m = weft_linear_new((weft_linear_config){.in = {3}, .out = {4}});
    weft_status status = weft_weights_save_shards(m, wt_scratch(folder), 48, NULL);

    (void)t;
    weft_module_release(m);
    return status;
}

/* What a save that was killed left beside its file goes with a later one; what is being written to
 * stays, and so does a folder of such a name. trial 3 */
WT_TEST_IN_WORLD(cleaning__of_weights_removes_what_nobody_writes_to, w)
{
    weft_status (*const save[])(const char *, weft_tensor *) = {save_weights, save_shards};
    static const char *const old = ".weft-0123456789abcdef.part",
                             *const fresh = ".weft-fedcba9876543210.part",
                             *const folder = ".weft-0000000000000000.part";
    weft_tensor *t = wt_spread(w, wt_constant(8, 2, 5), "S(0)");

    for (int i = 0; i < 2; i++) {
        fresh_folder("beside");
        if (wt_rank() == 0) {
            wt_write_text(in("beside", old), "half a file");
            wt_age_file(in("beside", old), 7200);
            wt_write_text(in("beside", fresh), "half a file");
            mkdir(in("beside", folder), 0777);
            wt_age_file(in("beside", folder), 7200);
        }
        WT_ALL(true);
        WT_EQ(save[i]("beside", t), WEFT_OK);
        WT_ALL(!there(in("beside", old)));
        WT_ALL(there(in("beside", fresh)) && there(in("beside", folder)));
    }
}

/* Cleaning reads files to see whose they are; a failure that the program has not cleared stays, and
 * is none of the saves'. trial 3 */
WT_TEST_IN_WORLD(cleaning__leaves_the_failure_of_the_program, w)
{
    weft_state *state = state_of(wt_spread(w, wt_constant(8, 2, 5), "S(0)"));

    fresh_folder("failed");
    WT_ALL(weft_checkpoint_save(wt_scratch("failed"), state) == WEFT_OK);
    if (wt_rank() == 0) wt_write_text(in("failed", "g000001-r00777.safetensors"), "mine");
    WT_ALL(weft_weights_open(in("failed", "missing")) == NULL);
    WT_ALL(weft_checkpoint_save(wt_scratch("failed"), state) == WEFT_OK);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "missing");
    WT_ALL(!there(in("failed", "g000001-r00000.safetensors")));
    WT_ALL(weft_checkpoint_save(wt_scratch("failed"), state) == WEFT_OK);
    WT_ALL(weft_error_status() == WEFT_OK);
    WT_ALL(says(in("failed", "g000001-r00777.safetensors"), "mine"));
    weft_state_release(state);
}

/* The parts find room, the list does not. trial 3 */
WT_TEST_IN_WORLD(saving__that_fails_leaves_nothing_behind, w)
{
    static char bytes[100000];
    weft_state *state = state_of(wt_spread(w, wt_constant(8, 2, 5), "S(0)"));
    struct rlimit before, small;

    WT_ALL(weft_state_add_bytes(state, "bytes", bytes, sizeof bytes) == WEFT_OK);
    fresh_folder("full");
    getrlimit(RLIMIT_FSIZE, &before);
    WT_ALL(true);
    signal(SIGXFSZ, SIG_IGN);
    small = before;
    small.rlim_cur = 50000;
    setrlimit(RLIMIT_FSIZE, &small);
    WT_ALL(true);
    WT_ALL(weft_checkpoint_save(wt_scratch("full"), state) == WEFT_ERR_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    WT_FAILED(WEFT_ERR_IO, "no room");
    if (wt_rank() == 0 && rmdir(wt_scratch("full")) != 0) abort(); /* empty */
    weft_state_release(state);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "hostile")); }
