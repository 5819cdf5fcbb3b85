/*
 * ready_plans.c: plans for the models of nn: attention by heads, the MLP by hidden features,
 * embedding, head and loss by vocabulary. Layers that a configuration or a family may leave out are
 * optional.
 */
#include <weft/parallel.h>

#define PART_OF_SEQUENCE                                                                           \
    {                                                                                              \
        .output_layouts = "S(1)", .keep_distributed = true                                         \
    }

static const weft_plan tensor_parallel[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};

static const weft_plan with_sequence[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"wpe", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}, .optional = true}},
    {"drop",
     {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}, .optional = true}},
    {"blocks.*.norm?", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(1)"}}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(1)"}}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"blocks.*.drop",
     {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}, .optional = true}},
    {"norm_f", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"head",
     {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(1)", .keep_distributed = true}}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};

static const weft_plan encoder[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}, .optional = true}},
    {"loss", {.kind = WEFT_STYLE_LOSS, .optional = true}},
    {0},
};

/* The hidden states are replicated for a pooler or the head for masked words. */
static const weft_plan encoder_with_sequence[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"wtt", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"wpe", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"norm_e", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"drop",
     {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}, .optional = true}},
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(1)"}}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"blocks.*.norm?", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE, .options = {.input_layouts = "S(1)"}}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE, .options = PART_OF_SEQUENCE}},
    {"blocks.*.drop",
     {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}, .optional = true}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}, .optional = true}},
    {"loss", {.kind = WEFT_STYLE_LOSS, .optional = true}},
    {"",
     {.kind = WEFT_STYLE_PREPARE,
      .options = {.output_layouts = "S(1)", .desired_output_layouts = "R"}}},
    {0},
};

const weft_plan *weft_gpt_plan(void) { return tensor_parallel; }

const weft_plan *weft_gpt_plan_sequence(void) { return with_sequence; }

const weft_plan *weft_bert_plan(void) { return encoder; }

const weft_plan *weft_bert_plan_sequence(void) { return encoder_with_sequence; }
