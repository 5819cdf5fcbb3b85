/* print.c: tensors as text. */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "tensor/host_copy.h"

enum { SHOWN_PER_DIM = 8 };

int weft_tensor_format(const weft_tensor *t, char *text, size_t bytes)
{
    if (!text) bytes = 0;
    if (t && t->refs <= 0) return snprintf(text, bytes, "(released tensor)");
    return t ? wf_layout_print(t->layout, text, bytes) : snprintf(text, bytes, "(no tensor)");
}

static void print_element(uint8_t dtype, const char *at, FILE *out)
{
    fprintf(out, "%.6g", wf_dtypes[dtype].load(at));
    if (dtype == WEFT_C64) fprintf(out, "%+.6gi", wf_dtypes[WEFT_F32].load(at + sizeof(float)));
}

static void print_dim(const struct wf_tensor_desc *desc, const char *at, int dim, FILE *out)
{
    size_t size = wf_dtypes[desc->dtype].size;
    int64_t shown;

    if (dim == desc->ndim) {
        print_element(desc->dtype, at, out);
        return;
    }
    shown = desc->shape[dim] < SHOWN_PER_DIM ? desc->shape[dim] : SHOWN_PER_DIM;
    fputc('[', out);
    for (int64_t i = 0; i < shown; i++) {
        if (i) fputs(", ", out);
        print_dim(desc, at + i * desc->stride[dim] * (int64_t)size, dim + 1, out);
    }
    fputs(shown < desc->shape[dim] ? ", ...]" : "]", out);
}

void weft_tensor_print(const weft_tensor *t, FILE *out)
{
    struct wf_host_elements host;
    char text[256];

    WF_NEED_VOID(out, WEFT_ERR_ARG, "tensor print: no file");
    if (wf_tensor_check_alive(t, "tensor print") != WEFT_OK) return;
    weft_tensor_format(t, text, sizeof text);
    fprintf(out, "%s ", text);
    if (t && t->layout->desc.numel && !wf_is_meta(t) &&
        wf_host_elements_open(&host, t, "tensor print") == WEFT_OK) {
        print_dim(host.desc, host.data, 0, out);
        wf_host_elements_close(&host);
    }
    fputc('\n', out);
}
