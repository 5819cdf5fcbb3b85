/* plain_convolution_f64.c: see the template. */
#define WF_NUMBER double
#define WF_TABLE wf_plain_conv_f64
#include "plain_convolution.inc"
