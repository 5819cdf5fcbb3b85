/*
 * sharding_svg.c: a sharding as a picture: a rectangle per piece, as large as the piece is, in the
 * colours of the ranks that hold it. Pixels, y down; text is 7 pixels wide per character.
 */
#include <math.h>
#include <string.h>

#include <weft/extend/explain.h>

#include "base/error.h"
#include "base/mem.h"
#include "debug/sharding.h"
#include "tensor/tensor.h"

enum {
    MARGIN = 28,
    TITLE = 52,       /* above the panels */
    TICKS = 44,       /* above and left of a panel: interval ends, the dim's name */
    GAP = 26,         /* between panels */
    MOST_CELLS = 64,  /* intervals drawn per dim */
    MOST_PANELS = 12, /* slices drawn */
    MOST_LEGEND = 32,
    MOST_STRIPES = 8,
    LEGEND_LINE = 22,
    CELL_TEXT = 64
};

struct panel {
    int row_dim, column_dim; /* -1: there is no such dim */
    int rows, columns;
    int x[MOST_CELLS + 1], y[MOST_CELLS + 1]; /* where intervals begin, and the end */
};

struct picture {
    const struct wf_sharding *s;
    FILE *out;
    struct panel panel;
    int panels, per_row; /* slices, side by side */
    int width, height;
    int *ranks;
};

static int count_shown_intervals(const struct wf_sharding *s, int dim)
{
    int n = dim < 0 ? 1 : s->dims[dim].n;

    return n > MOST_CELLS ? MOST_CELLS : n;
}

/* As long as the interval, but not so short that nothing can be seen; `room` for all. */
static void place_intervals(const struct wf_sharding *s, int dim, int n, int room, int least,
                            int *at)
{
    const int64_t *bounds = dim < 0 ? NULL : s->dims[dim].bounds;

    at[0] = 0;
    for (int i = 0; i < n; i++) {
        double fraction = dim < 0 ? 1 : (double)(bounds[i + 1] - bounds[i]) / (double)bounds[n];
        int length = (int)lround(fraction * room);

        at[i + 1] = at[i] + (length < least ? least : length);
    }
}

static void compute_panel_layout(struct picture *p)
{
    const struct wf_sharding *s = p->s;
    struct panel *panel = &p->panel;
    int wide = p->panels > 1 ? 330 : 560, high = p->panels > 1 ? 170 : 320;

    panel->row_dim = s->ndim >= 2 ? s->ndim - 2 : -1;
    panel->column_dim = s->ndim - 1;
    panel->rows = count_shown_intervals(s, panel->row_dim);
    panel->columns = count_shown_intervals(s, panel->column_dim);
    if (panel->row_dim < 0) high = 64;
    place_intervals(s, panel->column_dim, panel->columns, wide, panel->columns > 16 ? 12 : 34,
                    panel->x);
    place_intervals(s, panel->row_dim, panel->rows, high, panel->rows > 16 ? 12 : 26, panel->y);
}

/* ---- colours ---- */

/* Hues a golden angle apart: neighbours differ, whatever the number of ranks. */
static void colour_of_rank(int rank, char text[8])
{
    double hue = fmod(rank * 137.508 + 210, 360) / 60, light = 0.80, chroma = 0.30;
    double second = chroma * (1 - fabs(fmod(hue, 2) - 1)), low = light - chroma / 2;
    static const int order[6][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1},
                                    {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
    const double channels[3] = {chroma, second, 0};
    int rgb[3];

    for (int i = 0; i < 3; i++)
        rgb[i] = (int)lround(255 * (low + channels[order[(int)hue % 6][i]]));
    snprintf(text, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
}

/* One rank's colour, or stripes of several in a pattern of its own; of many the first one's. */
static void write_cell_fill(const struct picture *p, int n, int id, char *fill, size_t bytes)
{
    enum { STRIPE = 11 };
    char text[8];

    if (n == 0) {
        snprintf(fill, bytes, "#f3f4f6");
        return;
    }
    if (n == 1 || n > MOST_STRIPES) {
        colour_of_rank(p->s->numbers[p->ranks[0]], text);
        snprintf(fill, bytes, "%s", text);
        return;
    }
    snprintf(fill, bytes, "url(#c%d)", id);
    fprintf(p->out,
            "<pattern id=\"c%d\" width=\"%d\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
            "patternTransform=\"rotate(45)\">\n",
            id, n * STRIPE);
    for (int i = 0; i < n; i++) {
        colour_of_rank(p->s->numbers[p->ranks[i]], text);
        fprintf(p->out, "<rect x=\"%d\" width=\"%d\" height=\"8\" fill=\"%s\"/>\n", i * STRIPE,
                STRIPE, text);
    }
    fprintf(p->out, "</pattern>\n");
}

/* ---- drawing ---- */

static void draw_text(FILE *out, int x, int y, const char *kind, const char *text)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, kind, text);
}

/* The ranks, or how many there are; returns the pixels it takes. */
static int make_cell_label(const struct picture *p, int n, int width, char label[CELL_TEXT])
{
    wf_sharding_ranks_text(p->s, p->ranks, n, label, CELL_TEXT);
    if (7 * (int)strlen(label) + 6 > width || strchr(label, '.'))
        snprintf(label, CELL_TEXT, "%d ranks", n);
    if (7 * (int)strlen(label) + 6 > width) snprintf(label, CELL_TEXT, "×%d", n);
    return 7 * (int)strlen(label) + 6;
}

static void draw_cell(const struct picture *p, int left, int top, int width, int height, int id,
                      int n)
{
    char fill[32], label[CELL_TEXT];
    int pixels;

    write_cell_fill(p, n, id, fill, sizeof fill);
    fprintf(p->out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" class=\"cell\"/>\n",
            left, top, width, height, fill);
    pixels = make_cell_label(p, n, width, label);
    if (n == 0 || pixels > width || height < 16) return;
    if (n > 1 && n <= MOST_STRIPES) /* legible on stripes */
        fprintf(p->out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"18\" rx=\"9\" class=\"plate\"/>\n",
                left + (width - pixels) / 2 - 3, top + height / 2 - 9, pixels + 6);
    draw_text(p->out, left + width / 2, top + height / 2 + 4, "label", label);
}

/* Where the intervals end; a number is left out where the one before it would run into it. */
static void draw_axis_ticks(const struct picture *p, int left, int top)
{
    const struct panel *panel = &p->panel;
    int free_from = -1000;
    char text[32];

    for (int c = 0; panel->column_dim >= 0 && c <= panel->columns; c++) {
        int half;

        snprintf(text, sizeof text, "%lld", (long long)p->s->dims[panel->column_dim].bounds[c]);
        half = 7 * (int)strlen(text) / 2;
        if (panel->x[c] - half < free_from) continue;
        draw_text(p->out, left + panel->x[c], top - 7, "tick", text);
        free_from = panel->x[c] + half + 4;
    }
    free_from = -1000;
    for (int r = 0; panel->row_dim >= 0 && r <= panel->rows; r++) {
        if (panel->y[r] < free_from) continue;
        snprintf(text, sizeof text, "%lld", (long long)p->s->dims[panel->row_dim].bounds[r]);
        draw_text(p->out, left - 7, top + panel->y[r] + 4, "tick end", text);
        free_from = panel->y[r] + 12;
    }
}

static void draw_dim_names(const struct picture *p, int left, int top)
{
    const struct panel *panel = &p->panel;
    char text[32];

    if (panel->column_dim >= 0) {
        snprintf(text, sizeof text, "dim %d", panel->column_dim);
        draw_text(p->out, left + panel->x[panel->columns] / 2, top - 24, "name", text);
    }
    if (panel->row_dim < 0) return;
    fprintf(p->out,
            "<text transform=\"translate(%d %d) rotate(-90)\" class=\"name\">dim %d</text>\n",
            left - 50, top + panel->y[panel->rows] / 2, panel->row_dim);
}

static void draw_slice_panel(const struct picture *p, int index, int *interval)
{
    const struct panel *panel = &p->panel;
    int left =
        MARGIN + TICKS + 14 + index % p->per_row * (panel->x[panel->columns] + TICKS + 14 + GAP);
    int top = TITLE + TICKS + index / p->per_row * (panel->y[panel->rows] + TICKS + GAP + 22);
    char text[128];

    if (p->s->ndim > 2) {
        wf_sharding_slice_text(p->s, interval, text, sizeof text);
        draw_text(p->out, left + panel->x[panel->columns] / 2, top + panel->y[panel->rows] + 20,
                  "slice", text);
    }
    draw_dim_names(p, left, top);
    draw_axis_ticks(p, left, top);
    for (int r = 0; r < panel->rows; r++)
        for (int c = 0; c < panel->columns; c++) {
            int id = (index * MOST_CELLS + r) * MOST_CELLS + c;

            if (panel->row_dim >= 0) interval[panel->row_dim] = r;
            if (panel->column_dim >= 0) interval[panel->column_dim] = c;
            draw_cell(p, left + panel->x[c], top + panel->y[r], panel->x[c + 1] - panel->x[c],
                      panel->y[r + 1] - panel->y[r], id,
                      wf_sharding_cell_ranks(p->s, interval, p->ranks));
        }
}

static int legend_columns(const struct picture *p) { return (p->width - 2 * MARGIN) / 160; }

static int legend_height(const struct picture *p)
{
    int columns = legend_columns(p), n = p->s->n_ranks;

    if (n > MOST_LEGEND) return 0;
    return (n + columns - 1) / columns * LEGEND_LINE;
}

static void draw_legend(const struct picture *p)
{
    const struct wf_layout *l = p->s->layout;
    int top = p->height - MARGIN - legend_height(p) + 8;

    for (int r = 0; r < p->s->n_ranks && legend_height(p); r++) {
        int x = MARGIN + r % legend_columns(p) * 160, y = top + r / legend_columns(p) * LEGEND_LINE;
        char text[128], fill[8];
        int coordinates[WEFT_MAX_AXES], used;

        colour_of_rank(p->s->numbers[r], fill);
        fprintf(p->out,
                "<rect x=\"%d\" y=\"%d\" width=\"13\" height=\"13\" rx=\"3\" fill=\"%s\" "
                "class=\"swatch\"/>\n",
                x, y, fill);
        used = snprintf(text, sizeof text, "rank %d", p->s->numbers[r]);
        weft_mesh_find(l->mesh, p->s->numbers[r], coordinates);
        for (int a = 0; a < l->n_axes && used < (int)sizeof text; a++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%s %d", a ? ", " : " · ",
                             weft_mesh_axis_name(l->mesh, a), coordinates[a]);
        draw_text(p->out, x + 20, y + 11, "key", text);
    }
}

static void write_svg_header(const struct picture *p)
{
    char text[256];

    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n"
            "<style>text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#1f2937}"
            ".title{font-size:15px;font-weight:bold}.label{font-size:13px;text-anchor:middle}"
            ".tick{font-size:11px;fill:#6b7280;text-anchor:middle}.end{text-anchor:end}"
            ".name{font-size:12px;fill:#374151;text-anchor:middle}"
            ".slice{font-size:12px;text-anchor:middle;font-weight:bold}.key{font-size:12px}"
            ".cell{stroke:#ffffff;stroke-width:2}.swatch{stroke:#9ca3af}"
            ".plate{fill:#ffffff;fill-opacity:0.85}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            p->width, p->height, p->width, p->height, p->width, p->height);
    wf_layout_print(p->s->layout, text, sizeof text);
    draw_text(p->out, MARGIN, MARGIN + 8, "title", text);
}

static int title_width(const struct picture *p)
{
    char text[256];

    return 9 * wf_layout_print(p->s->layout, text, sizeof text);
}

static void compute_picture_size(struct picture *p)
{
    const struct panel *panel = &p->panel;
    int rows;

    p->panels = 1;
    for (int d = 0; d < p->s->ndim - 2; d++) p->panels *= p->s->dims[d].n;
    if (p->panels > MOST_PANELS) p->panels = MOST_PANELS;
    p->per_row = p->panels > 1 ? 2 : 1;
    rows = (p->panels + p->per_row - 1) / p->per_row;
    compute_panel_layout(p);
    p->width = 2 * MARGIN + p->per_row * (panel->x[panel->columns] + TICKS + 14 + GAP);
    if (p->width < title_width(p) + 2 * MARGIN) p->width = title_width(p) + 2 * MARGIN;
    p->height = TITLE + rows * (panel->y[panel->rows] + TICKS + GAP + 22) + MARGIN;
    p->height += legend_height(p);
}

weft_status weft_sharding_svg_print(const weft_tensor *t, FILE *out)
{
    struct picture p = {.out = out};
    int interval[WEFT_MAX_DIMS] = {0};
    struct wf_sharding *s;

    WF_NEED_GIVEN(t, "sharding_print: no tensor");
    WF_TRY(wf_tensor_need_alive(t, "sharding_print"));
    WF_NEED(!wf_is_plain(t), WEFT_ERR_ARG, "sharding_print: the tensor is plain");
    if (t->layout->numel == 0 || !wf_sharding_drawn_by_this_rank(t->layout)) return WEFT_OK;
    WF_NEED_LOCAL(out, WEFT_ERR_ARG, "sharding_print: no file");
    s = wf_sharding_new(t->layout);
    p.s = s;
    p.ranks = wf_malloc((size_t)s->n_ranks * sizeof *p.ranks);
    compute_picture_size(&p);
    write_svg_header(&p);
    for (int i = 0; i < p.panels; i++) {
        draw_slice_panel(&p, i, interval);
        wf_sharding_next_slice(s, interval);
    }
    draw_legend(&p);
    fprintf(out, "</svg>\n");
    wf_free(p.ranks);
    wf_sharding_free(s);
    return WEFT_OK;
}
