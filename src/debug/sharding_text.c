/* sharding_text.c: a sharding as a table of characters: a cell per piece, with the ranks in it. */
#include <string.h>

#include <weft/extend/explain.h>

#include "base/error.h"
#include "base/mem.h"
#include "debug/sharding.h"
#include "tensor/tensor.h"

enum { MOST_ROWS = 32, MOST_COLUMNS = 16, MOST_SLICES = 16, CELL_TEXT = 32 };

struct table {
    int rows, columns;
    bool more_rows, more_columns; /* than are shown */
    int row_dim, column_dim;      /* -1: there is no such dim, and one row or column */
    char (*cells)[CELL_TEXT];
    char row_names[MOST_ROWS][CELL_TEXT], column_names[MOST_COLUMNS][CELL_TEXT];
    int name_width, widths[MOST_COLUMNS];
};

static void format_interval(const struct wf_sharding *s, int dim, int interval, char *text)
{
    const int64_t *bounds = dim < 0 ? NULL : &s->dims[dim].bounds[interval];

    text[0] = '\0';
    if (dim >= 0)
        snprintf(text, CELL_TEXT, "%lld:%lld", (long long)bounds[0], (long long)bounds[1]);
}

static int count_shown_intervals(const struct wf_sharding *s, int dim, int most, bool *more)
{
    int n = dim < 0 ? 1 : s->dims[dim].n;

    *more = n > most;
    return n > most ? most : n;
}

static void widen_column(int *width, const char *text)
{
    if ((int)strlen(text) > *width) *width = (int)strlen(text);
}

static void fill_table_cells(struct table *t, const struct wf_sharding *s, int *interval)
{
    int *ranks = wf_malloc((size_t)s->n_ranks * sizeof *ranks);

    for (int r = 0; r < t->rows; r++) {
        format_interval(s, t->row_dim, r, t->row_names[r]);
        widen_column(&t->name_width, t->row_names[r]);
        for (int c = 0; c < t->columns; c++) {
            char *cell = t->cells[r * t->columns + c];

            if (t->row_dim >= 0) interval[t->row_dim] = r;
            if (t->column_dim >= 0) interval[t->column_dim] = c;
            wf_sharding_ranks_text(s, ranks, wf_sharding_cell_ranks(s, interval, ranks), cell,
                                   CELL_TEXT);
            format_interval(s, t->column_dim, c, t->column_names[c]);
            widen_column(&t->widths[c], cell);
            widen_column(&t->widths[c], t->column_names[c]);
        }
    }
    wf_free(ranks);
}

static void print_separator_line(const struct table *t, FILE *out)
{
    fprintf(out, "%*s +", t->name_width, "");
    for (int c = 0; c < t->columns; c++) {
        for (int i = 0; i < t->widths[c] + 2; i++) fputc('-', out);
        fputc('+', out);
    }
    fputc('\n', out);
}

static void print_column_names(const struct table *t, FILE *out)
{
    fprintf(out, "%*s", t->name_width, "");
    for (int c = 0; c < t->columns; c++)
        fprintf(out, "%*s%s", c ? t->widths[c - 1] - (int)strlen(t->column_names[c - 1]) + 3 : 3,
                "", t->column_names[c]);
    fputc('\n', out);
}

static void print_table_row(const struct table *t, int row, FILE *out)
{
    fprintf(out, "%*s |", t->name_width, t->row_names[row]);
    for (int c = 0; c < t->columns; c++)
        fprintf(out, " %-*s |", t->widths[c], t->cells[row * t->columns + c]);
    fprintf(out, "%s\n", t->more_columns ? " .." : "");
}

static void print_slice_table(const struct wf_sharding *s, int *interval, FILE *out)
{
    struct table t = {.row_dim = s->ndim >= 2 ? s->ndim - 2 : -1, .column_dim = s->ndim - 1};

    t.rows = count_shown_intervals(s, t.row_dim, MOST_ROWS, &t.more_rows);
    t.columns = count_shown_intervals(s, t.column_dim, MOST_COLUMNS, &t.more_columns);
    t.cells = wf_malloc((size_t)(t.rows * t.columns) * sizeof *t.cells);
    fill_table_cells(&t, s, interval);
    if (t.column_dim >= 0) print_column_names(&t, out);
    print_separator_line(&t, out);
    for (int r = 0; r < t.rows; r++) {
        print_table_row(&t, r, out);
        print_separator_line(&t, out);
    }
    if (t.more_rows) fprintf(out, "%*s ..\n", t.name_width, "");
    wf_free(t.cells);
}

static void print_all_slices(const struct wf_sharding *s, FILE *out)
{
    int interval[WEFT_MAX_DIMS] = {0}, slices = 0;
    char text[256];

    wf_layout_print(s->layout, text, sizeof text);
    fprintf(out, "%s\n", text);
    do {
        if (slices++ == MOST_SLICES) {
            fputs("..\n", out);
            return;
        }
        wf_sharding_slice_text(s, interval, text, sizeof text);
        if (s->ndim > 2) fprintf(out, "%s\n", text);
        print_slice_table(s, interval, out);
    } while (wf_sharding_next_slice(s, interval));
}

weft_status weft_sharding_print(const weft_tensor *t, FILE *out)
{
    struct wf_sharding *s;

    WF_NEED_GIVEN(t, "sharding_print: no tensor");
    WF_TRY(wf_tensor_need_alive(t, "sharding_print"));
    WF_NEED(!wf_is_plain(t), WEFT_ERR_ARG, "sharding_print: the tensor is plain");
    if (t->layout->numel == 0 || !wf_sharding_drawn_by_this_rank(t->layout)) return WEFT_OK;
    WF_NEED_LOCAL(out, WEFT_ERR_ARG, "sharding_print: no file");
    s = wf_sharding_new(t->layout);
    print_all_slices(s, out);
    wf_sharding_free(s);
    return WEFT_OK;
}
