/* test_sharding.c: pictures of who holds what, as text and as SVG. */
/* ranks: 1 4 */
#include <stdlib.h>
#include <string.h>

#include "debug/text.h"
#include "support/worlds.h"

/* A tensor without elements on a mesh without ranks, drawn. */
static char *drawn(const char *mesh_text, int ndim, const int64_t *shape, const char *placements,
                   weft_status (*draw)(const weft_tensor *t, FILE *out))
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_mesh *mesh = weft_mesh_new_fake(0, "%s", mesh_text);
    weft_placement p[WEFT_MAX_AXES];
    struct wt_text t;

    weft_placements_parse(p, WEFT_MAX_AXES, placements);
    wt_text_begin(&t);
    WT_ALL(draw(weft_distribute_tensor(weft_empty(WEFT_F32, shape, ndim), mesh, p, -1), t.out) ==
           WEFT_OK);
    weft_mesh_release(mesh);
    weft_set_default_device(before);
    return (char *)wt_text_end(&t);
}

static bool says(const char *mesh, int ndim, const int64_t *shape, const char *placements,
                 const char *expected)
{
    char *text = drawn(mesh, ndim, shape, placements, weft_sharding_print);
    bool good = strcmp(text, expected) == 0;

    if (!good) wt_note("got\n%s", text);
    free(text);
    return good;
}

WT_TEST(sharding_text__of_one_and_two_dims)
{
    WT_ALL(says("tp=4", 1, (int64_t[]){13}, "S(0)",
                "f32[13] [S(0)] on (tp:4)\n"
                "   0:4   4:8   8:12   12:13\n"
                " +-----+-----+------+-------+\n"
                " | 0   | 1   | 2    | 3     |\n"
                " +-----+-----+------+-------+\n"));
    WT_ALL(says("dp=2,tp=2", 2, (int64_t[]){5, 8}, "S(0),S(1)",
                "f32[5,8] [S(0),S(1)] on (dp:2, tp:2)\n"
                "      0:4   4:8\n"
                "    +-----+-----+\n"
                "0:3 | 0   | 1   |\n"
                "    +-----+-----+\n"
                "3:5 | 2   | 3   |\n"
                "    +-----+-----+\n"));
    WT_ALL(says("dp=2,tp=4", 2, (int64_t[]){4, 4}, "R,R",
                "f32[4,4] [R,R] on (dp:2, tp:4)\n"
                "      0:4\n"
                "    +-----+\n"
                "0:4 | 0-7 |\n"
                "    +-----+\n"));
}

/* A rank may hold several pieces of a dim: segments, strided shards. */
WT_TEST(sharding_text__of_parts_that_are_not_boxes)
{
    WT_ALL(says("dp=2,tp=2", 1, (int64_t[]){12}, "R,S(0|4,2)",
                "f32[12] [R,S(0|2,1)] on (dp:2, tp:2)\n"
                "   0:4   4:8   8:10   10:12\n"
                " +-----+-----+------+-------+\n"
                " | 0,2 | 1,3 | 0,2  | 1,3   |\n"
                " +-----+-----+------+-------+\n"));
    WT_ALL(says("tp=2", 1, (int64_t[]){8}, "SS(0,2)",
                "f32[8] [SS(0,2)] on (tp:2)\n"
                "   0:2   2:4   4:6   6:8\n"
                " +-----+-----+-----+-----+\n"
                " | 0   | 1   | 0   | 1   |\n"
                " +-----+-----+-----+-----+\n"));
}

WT_TEST(sharding_text__of_more_dims_in_slices)
{
    WT_ALL(says("dp=2,tp=2", 3, (int64_t[]){3, 1, 6}, "S(0),S(2)",
                "f32[3,1,6] [S(0),S(2)] on (dp:2, tp:2)\n"
                "[0:2, :, :]\n"
                "      0:3   3:6\n"
                "    +-----+-----+\n"
                "0:1 | 0   | 1   |\n"
                "    +-----+-----+\n"
                "[2:3, :, :]\n"
                "      0:3   3:6\n"
                "    +-----+-----+\n"
                "0:1 | 2   | 3   |\n"
                "    +-----+-----+\n"));
    WT_ALL(says("tp=2", 0, NULL, "R",
                "f32[] [R] on (tp:2)\n"
                " +-----+\n"
                " | 0,1 |\n"
                " +-----+\n"));
}

/* 1,024 ranks: long lists are cut short, and no more is drawn than can be read. */
WT_TEST(sharding_text__of_many_ranks_is_short)
{
    char *text = drawn("dp=16,cp=4,tp=16", 2, (int64_t[]){8192, 8192}, "S(0),S(0),S(1)",
                       weft_sharding_print);

    WT_ALL(strlen(text) < 30000);
    WT_EQ(wt_occurrences(text, "\n"), 2 + 1 + 2 * 32 + 1);
    WT_EQ(wt_occurrences(text, "  0:128 | 0 "), 1);
    free(text);
    text = drawn("dp=16,cp=4,tp=16", 1, (int64_t[]){64}, "R,R,S(0)", weft_sharding_print);
    WT_EQ(wt_occurrences(text, "0,16,32,48,64,80,96,112,128.. |"), 1);
    free(text);
}

WT_TEST_IN_WORLD(sharding_text__is_written_by_the_first_rank, w)
{
    struct wt_text t;

    wt_text_begin(&t);
    WT_ALL(weft_sharding_print(wt_spread(w, wt_whole(WEFT_F32, 0, 6, 4), "S(0)"), t.out) ==
           WEFT_OK);
    WT_ALL(weft_sharding_print(wt_spread(w, wt_whole(WEFT_F32, 0, 0, 4), "S(0)"), t.out) ==
           WEFT_OK);
    WT_ALL((strlen(wt_text_end(&t)) > 0) == (wt_rank() == 0));
    WT_EQ(wt_occurrences(t.text, "f32["), wt_rank() == 0);
    WT_FAILS(weft_sharding_print(wt_whole(WEFT_F32, 0, 6, 4), stdout), WEFT_ERR_ARG, "plain");
    WT_FAILS(weft_sharding_svg_print(wt_whole(WEFT_F32, 0, 6, 4), stdout), WEFT_ERR_ARG, "plain");
    free(t.text);
}

/* ---- SVG ---- */

/* Every element that is opened is closed, in order; attributes have quotes. */
static bool is_xml(const char *text)
{
    char open[16][32];
    int depth = 0;

    for (const char *c = strchr(text, '<'); c; c = strchr(c, '<')) {
        const char *end = strchr(c, '>');
        size_t length;

        if (!end) return false;
        if (c[1] == '/') {
            length = (size_t)(end - c) - 2;
            if (depth == 0 || strlen(open[depth - 1]) != length) return false;
            if (strncmp(open[--depth], c + 2, length) != 0) return false;
        } else if (end[-1] != '/') {
            length = strcspn(c + 1, " >");
            if (depth == 16 || length >= 32) return false;
            memcpy(open[depth], c + 1, length);
            open[depth++][length] = '\0';
        }
        c = end;
    }
    return depth == 0;
}

static int cells(const char *mesh, int ndim, const int64_t *shape, const char *placements,
                 const char *what)
{
    char *text = drawn(mesh, ndim, shape, placements, weft_sharding_svg_print);
    int count;

    WT_ALL(is_xml(text));
    WT_ALL(strncmp(text, "<svg ", 5) == 0);
    count = wt_occurrences(text, what);
    free(text);
    return count;
}

WT_TEST(sharding_svg__has_a_cell_per_piece)
{
    static const char cell[] = "class=\"cell\"";
    int64_t shape[] = {5, 8, 6};

    WT_ALL(!is_xml("<a><b></a></b>"));
    WT_EQ(cells("dp=2,tp=4", 2, shape, "S(0),S(1)", cell), 8);
    WT_EQ(cells("dp=2,tp=4", 2, shape, "R,S(0)", cell), 3); /* the fourth rank has nothing */
    WT_EQ(cells("dp=2,tp=4", 2, shape, "R,S(0)", "<pattern"), 3);
    WT_EQ(cells("dp=2,tp=4", 2, shape, "R,S(0)", "<rect x=\"11\" width=\"11\""), 3);
    WT_EQ(cells("dp=2,tp=4", 2, shape, "R,S(0)", "<rect x=\"0\" width=\"11\""), 3);
    WT_EQ(cells("dp=2,tp=4", 2, shape, "S(1),S(0)", "<pattern"), 0);
    WT_EQ(cells("dp=2,tp=2", 3, shape, "S(0),S(2)", cell), 4);
    WT_EQ(cells("dp=2,tp=2", 3, shape, "S(0),S(2)", ">[0:3, :, :]<"), 1);
    WT_EQ(cells("dp=2,tp=2", 1, shape, "R,S(0)", ">rank 3 · dp 1, tp 1<"), 1);
    WT_EQ(cells("tp=2", 0, shape, "R", cell), 1);
    WT_EQ(cells("dp=16,tp=64", 1, (int64_t[]){64}, "R,S(0)", cell), 64);
}

/* The picture that docs/concepts/debugging.md shows is the one that is drawn. */
WT_TEST(sharding_svg__in_the_documentation_is_up_to_date)
{
    char *text = drawn("dp=2,tp=4", 2, (int64_t[]){5, 16}, "S(0),S(1)", weft_sharding_svg_print);
    FILE *file;
    const char *at = text;
    char path[512];
    int c = EOF;

    snprintf(path, sizeof path, "%s/docs/concepts/sharding.svg", WT_SOURCE_DIR);
    file = fopen(path, "r");
    while (file && (c = fgetc(file)) != EOF && c == (unsigned char)*at) at++;
    WT_ALL(file && c == EOF && *at == '\0');
    if (file) fclose(file);
    free(text);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sharding"); }
