/*
 * comm_cases.h: the table of collectives that every backend must pass. It runs as the body of a
 * rank, be it a thread or a process, and compares bit by bit with a serial reference; sums of
 * floats on a device only to rounding, where its own library adds them.
 */
#pragma once

/** All cases on this rank's world and on communicators made from it. gives: the number of failures;
 *  the first is left in weft_error_message(). `payload` is not used. */
int comm_cases(void *payload);
/** The same on this rank's GPU. */
int comm_cases_on_gpu(void *payload);
