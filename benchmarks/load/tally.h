/* What a run adds up to, and the line of JSON that tells it. */
#ifndef SMARTGO_LOAD_TALLY_H
#define SMARTGO_LOAD_TALLY_H

#include "answer.h"
#include "cpu.h"
#include "histogram.h"

#include <stdint.h>

enum { SEEN_CODES = 32 };

/* How often one response code came, and the first remark that came with it. */
struct code_count {
    int code;
    unsigned long long times;
    char remark[256]; /* as it stood in the header, escapes and all */
};

/* One end of the measured window. */
struct window {
    uint64_t ns;
    struct cpu own;
    struct cpu server;
    struct cpu server_main; /* its main thread alone */
};

struct tally {
    struct window from;
    struct window to;
    struct histogram latencies;        /* of the answers in the window */
    unsigned long long good_answers;   /* in the window */
    unsigned long long good_messages;  /* in the window */
    unsigned long long bad_answers;    /* in the window */
    unsigned long long body_bytes;     /* in the window, both ways */
    unsigned long long total_messages; /* in the whole run */
    unsigned long long total_bad;      /* in the whole run */
    unsigned long long glanced;        /* successes whose code was seen without tally_code(), in the whole run */
    struct code_count codes[SEEN_CODES]; /* in the whole run, glances apart */
    int code_count;
    char failure[512]; /* why the run broke off; empty when it did not */
};

extern struct tally tally;

void tally_code(const struct answer *answer);
/* Keep the first reason only. */
__attribute__((format(printf, 1, 2))) void tally_failure(const char *format, ...);
void tally_print(void);

#endif
