/*
 * test_print.c: a module as a table: every module and parameter with type, layout and counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/given.h"

enum { VOCAB = 13, WIDTH = 6, BYTES = 16384 };

static void print(weft_module *m, char *text)
{
    FILE *file = tmpfile();
    size_t n;

    weft_module_print(m, file);
    rewind(file);
    n = fread(text, 1, BYTES - 1, file);
    text[n] = '\0';
    fclose(file);
}

/* The line of a path; its last three words as numbers. */
static bool line_of(const char *text, const char *path, char *line, int64_t counts[3])
{
    size_t length = strlen(path);

    for (; text; text = strchr(text, '\n'), text = text ? text + 1 : NULL) {
        const char *at;

        if (strncmp(text, path, length) != 0 || text[length] != ' ') continue;
        snprintf(line, 256, "%.*s", (int)strcspn(text, "\n"), text);
        at = line + strlen(line) - 3 * 12 - 2 * 2;
        return at > line && sscanf(at, "%" SCNd64 " %" SCNd64 " %" SCNd64, &counts[0], &counts[1],
                                   &counts[2]) == 3;
    }
    return false;
}

static weft_module *gpt(void)
{
    return weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = 4, .width = WIDTH, .heads = 3, .layers = 1, .tied = true});
}

WT_TEST(print__has_every_module_with_its_counts)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(gpt());
    int64_t counts[3], here = weft_chunk_size(VOCAB, wt_ranks(), wt_rank()) * WIDTH, all;
    char text[BYTES], line[256], summary[128];

    weft_set_requires_grad(weft_module_parameter(m, "wte.weight"), false);
    WT_EQ(weft_parallelize_module_strict(m, mesh, weft_gpt_plan()), WEFT_OK);
    print(m, text);
    all = weft_module_numel(m);
    WT_ALL(line_of(text, ".", line, counts));
    WT_ALL(strstr(line, "gpt") && counts[0] == all && counts[1] == all - VOCAB * WIDTH);
    WT_ALL(line_of(text, "wte", line, counts));
    WT_ALL(strstr(line, "embedding") && counts[0] == VOCAB * WIDTH && !counts[1]);
    WT_ALL(line_of(text, "wte.weight", line, counts));
    WT_ALL(strstr(line, "f32[13,6] [S(0)] on (tp:") && counts[2] == here);
    WT_ALL(line_of(text, "blocks.0.attn.qkv", line, counts) && strstr(line, "linear"));
    WT_EQ(counts[2], weft_chunk_size(3, wt_ranks(), wt_rank()) * 3 * 2 * (WIDTH + 1));
    WT_ALL(line_of(text, "blocks.0.mlp.act", line, counts) && counts[0] == 0);
    WT_ALL(strstr(text, "head.weight") && strstr(text, "is wte.weight"));
    snprintf(summary, sizeof summary, "%" PRId64 " parameters, %" PRId64 " trained, ", all,
             all - VOCAB * WIDTH);
    WT_ALL(strstr(text, summary) != NULL);
}

/* Whole and plain: as much on this rank as in all. A part of a tree, and no module. */
WT_TEST(print__works_for_any_part_of_a_tree)
{
    weft_module *m = wt_own(gpt()), *mlp = weft_module_child(m, "blocks.0.mlp");
    int64_t counts[3];
    char text[BYTES], line[256];

    print(mlp, text);
    WT_ALL(line_of(text, "blocks.0.mlp", line, counts));
    WT_ALL(counts[0] == weft_module_numel(mlp) && counts[2] == counts[0]);
    WT_ALL(line_of(text, "blocks.0.mlp.up.bias", line, counts) && counts[0] == 4 * WIDTH);
    WT_ALL(!line_of(text, "wte", line, counts));
    print(NULL, text);
    WT_ALL(text[0] == '\0');
}

int main(int argc, char **argv) { return wt_main(argc, argv, "print"); }
