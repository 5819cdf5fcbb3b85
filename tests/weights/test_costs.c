/* test_costs.c: what reading costs grows with a file, not faster. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <weft/tensor.h>
#include <weft/weights.h>

#include "io/safetensors.h"
#include "io/weights/weights_write.h"
#include "support/mpi_check.h"
#include "support/scratch.h"

/* Seconds of this process to open an index of so many files with a tensor each. Their names differ
 * behind 200 characters, so that comparing each with each costs more than opening them. */
static double open_index(int files)
{
    static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";
    char path[512], file[128] = {0};
    FILE *index;
    weft_weights *weights;
    clock_t begin;
    double seconds;

    wt_remove(wt_scratch("many"));
    mkdir(wt_scratch("many"), 0777);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", wt_scratch("many"));
    index = fopen(path, "w");
    ck_assert(index != NULL);
    fprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < files; i++) {
        size_t length = (size_t)snprintf(file + 8, sizeof file - 8, "{\"t%d\"%s", i, header + 4);

        memset(file, 0, 8);
        file[0] = (char)length;
        snprintf(path, sizeof path, "%s/f%0200d", wt_scratch("many"), i);
        wt_write_file(path, file, 8 + length + 1);
        fprintf(index, "%s\"t%d\":\"f%0200d\"", i ? "," : "", i, i);
    }
    fprintf(index, "}}");
    fclose(index);
    begin = clock();
    weights = weft_weights_open(wt_scratch("many"));
    seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ck_assert_msg(weights != NULL, "%s", weft_error_message());
    ck_assert_int_eq(weft_weights_count(weights), files);
    weft_weights_close(weights);
    return seconds;
}

/* Ten times the files take ten times the time; a hundred times where each is compared with each.
 * trial 3 */
WT_UNIT(index__of_many_files_is_opened_in_time_that_grows_with_them)
{
    double few = open_index(1000), many = open_index(10000);

    ck_assert_msg(many < 25 * few, "%g s for 1000 files, %g s for 10000", few, many);
}

/* Bytes in use after a header of so many notes, or tensors, was read, by those that it has. */
static double memory_of(const char *first, const char *item, int items)
{
    char *text = NULL;
    size_t bytes, before;
    FILE *out = open_memstream(&text, &bytes);
    struct wf_safetensors file;
    double ratio;

    ck_assert(out != NULL);
    fwrite("12345678", 1, 8, out);
    fputs(first, out);
    for (int i = 0; i < items; i++) {
        if (i) fputc(',', out);
        fprintf(out, item, i);
    }
    fputs(strstr(first, "meta") ? "}}" : "}", out);
    fclose(out);
    for (int i = 0; i < 8; i++) text[i] = (char)((bytes - 8) >> 8 * i);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    ck_assert_msg(wf_safetensors_parse(&file, "memory", text, bytes) == WEFT_OK, "%s",
                  weft_error_message());
    ratio = (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / (double)bytes;
    wf_safetensors_close(&file);
    free(text);
    return ratio;
}

/* It was 13 times. trial 3 */
WT_UNIT(header__takes_a_few_times_its_size_in_memory)
{
    double notes = memory_of("{\"__metadata__\":{", "\"%x\":\"\"", 130000);
    double tensors =
        memory_of("{", "\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", 70000);

#ifdef __SANITIZE_ADDRESS__ /* mallinfo2 knows nothing of its allocator */
    notes = tensors = 1;
#endif
    ck_assert_msg(notes > 0 && notes < 5 && tensors > 0 && tensors < 6, "%g and %g times", notes,
                  tensors);
}

/* Seconds of this process to write so many tensors to two files. */
static double write_shards(int64_t count)
{
    struct wf_weight_job *jobs = calloc((size_t)count, sizeof *jobs);
    char(*names)[24] = calloc((size_t)count, sizeof *names);
    weft_scope *scope = weft_scope_open();
    int64_t bytes = 4 * count;
    clock_t begin;
    double seconds;

    wt_remove(wt_scratch("shards"));
    mkdir(wt_scratch("shards"), 0777);
    for (int64_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "t%lld", (long long)i);
        jobs[i] = (struct wf_weight_job){.name = names[i],
                                         .tensor = weft_full(WEFT_F32, (int64_t[]){1}, 1, 1),
                                         .ndim = 1,
                                         .shape = {1}};
    }
    begin = clock();
    ck_assert_int_eq(wf_weights_write_shards(wt_scratch("shards"), jobs, count, bytes / 2),
                     WEFT_OK);
    seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    weft_scope_close(scope);
    free(names);
    free(jobs);
    return seconds;
}

/* trial 4.6 */
WT_UNIT(shards__of_many_tensors_are_written_in_time_that_grows_with_them)
{
    double few = write_shards(4000), many = write_shards(40000);

    ck_assert_msg(many < 40 * few, "%g s for 4000 tensors, %g s for 40000", few, many);
}

int main(void) { return wt_scratch_end(wt_unit_main("costs")); }
