/* families.c: how Hugging Face's models name their weights, a table per family. */
#include <string.h>

#include "base/error.h"
#include "io/weight_names.h"

/* GPT-2 keeps matrices as [in, out] (its Conv1D), the head is the embedding unless it stands
 * there, and older files have the causal mask among the weights. */
static const weft_weight_rule gpt2_rules[] = {
    {.parameter = "wte.weight", .name = "[transformer.]wte.weight"},
    {.parameter = "wpe.weight", .name = "[transformer.]wpe.weight"},
    {.parameter = "blocks.*.norm1.*", .name = "[transformer.]h.*.ln_1.*"},
    {.parameter = "blocks.*.attn.qkv.weight",
     .name = "[transformer.]h.*.attn.c_attn.weight",
     .rows = 3,
     .transposed = true},
    {.parameter = "blocks.*.attn.qkv.bias",
     .name = "[transformer.]h.*.attn.c_attn.bias",
     .rows = 3},
    {.parameter = "blocks.*.attn.proj.weight",
     .name = "[transformer.]h.*.attn.c_proj.weight",
     .transposed = true},
    {.parameter = "blocks.*.attn.proj.bias", .name = "[transformer.]h.*.attn.c_proj.bias"},
    {.parameter = "blocks.*.norm2.*", .name = "[transformer.]h.*.ln_2.*"},
    {.parameter = "blocks.*.mlp.up.weight",
     .name = "[transformer.]h.*.mlp.c_fc.weight",
     .transposed = true},
    {.parameter = "blocks.*.mlp.up.bias", .name = "[transformer.]h.*.mlp.c_fc.bias"},
    {.parameter = "blocks.*.mlp.down.weight",
     .name = "[transformer.]h.*.mlp.c_proj.weight",
     .transposed = true},
    {.parameter = "blocks.*.mlp.down.bias", .name = "[transformer.]h.*.mlp.c_proj.bias"},
    {.parameter = "norm_f.*", .name = "[transformer.]ln_f.*"},
    {.parameter = "head.weight", .name = "lm_head.weight|[transformer.]wte.weight"},
};
static const char *const gpt2_ignored[] = {"*.attn.bias", "*.attn.masked_bias", NULL};

#define RULES(list) .n_rules = (int)(sizeof(list) / sizeof(list)[0]), .rules = (list)

static const weft_weight_names families[] = {
    {.family = "gpt2", RULES(gpt2_rules), .ignored = gpt2_ignored},
};

const weft_weight_names *weft_weight_family(const char *family)
{
    char known[128] = "";
    size_t n = sizeof families / sizeof families[0];

    for (size_t i = 0; i < n; i++) {
        if (family && strcmp(families[i].family, family) == 0) return &families[i];
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, families[i].family, sizeof known - strlen(known) - 1);
    }
    WF_FAIL(WEFT_ERR_NOT_FOUND, "weight names: no family '%s'; there are %s",
            family ? family : "NULL", known);
    return NULL;
}
