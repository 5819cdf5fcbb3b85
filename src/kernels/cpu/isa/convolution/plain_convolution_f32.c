/* plain_convolution_f32.c: see the template. */
#define WF_NUMBER float
#define WF_TABLE wf_plain_conv_f32
#include "plain_convolution.inc"
