#include "tally.h"

#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct tally tally;

void tally_code(const struct answer *answer)
{
    int i = 0;
    while (i < tally.code_count && tally.codes[i].code != answer->code) {
        i++;
    }
    if (i == tally.code_count) {
        if (tally.code_count == SEEN_CODES) {
            return;
        }
        tally.codes[tally.code_count++].code = answer->code;
    }
    struct code_count *seen = &tally.codes[i];
    seen->times++;
    if (seen->remark[0] == '\0' && answer->remark_size > 0) {
        size_t size = answer->remark_size < sizeof seen->remark ? answer->remark_size : sizeof seen->remark - 1;
        memcpy(seen->remark, answer->remark, size);
    }
}

void tally_failure(const char *format, ...)
{
    if (tally.failure[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(tally.failure, sizeof tally.failure, format, arguments);
        va_end(arguments);
    }
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < 0x20 || c >= 0x7F) {
            printf("\\u%04x", c); /* bytes as Latin-1: a remark is for people to read */
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static double micro(double seconds, unsigned long long messages)
{
    return messages == 0 ? 0 : seconds * 1e6 / (double)messages;
}

void tally_print(void)
{
    const struct window *from = &tally.from;
    const struct window *to = &tally.to;
    double seconds = (double)(to->ns - from->ns) / 1e9;
    double own = to->own.user - from->own.user + to->own.system - from->own.system;
    double user = to->server.user - from->server.user;
    double system = to->server.system - from->server.system;
    printf("{\"mode\":\"%s\",\"seconds\":%.6f,\"messages\":%llu,\"answers\":%llu,\"failures\":%llu,",
           MODES[options.mode], seconds, tally.good_messages, tally.good_answers, tally.bad_answers);
    printf("\"total_messages\":%llu,\"total_failures\":%llu,\"body_bytes\":%llu,", tally.total_messages, tally.total_bad,
           tally.body_bytes);
    printf("\"generator_cpu_us\":%.4f,\"generator_cpu_s\":%.4f,", micro(own, tally.good_messages), own);
    if (options.pid != 0) {
        double main_thread = to->server_main.user - from->server_main.user + to->server_main.system - from->server_main.system;
        printf("\"server_user_s\":%.4f,\"server_system_s\":%.4f,\"server_cpu_us\":%.4f,\"server_main_us\":%.4f,", user,
               system, micro(user + system, tally.good_messages), micro(main_thread, tally.good_messages));
    }
    printf("\"latency_us\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f},",
           (double)histogram_quantile(&tally.latencies, 0.5) / 1e3, (double)histogram_quantile(&tally.latencies, 0.99) / 1e3,
           (double)histogram_quantile(&tally.latencies, 0.999) / 1e3, (double)tally.latencies.max / 1e3);
    printf("\"codes\":{");
    for (int i = 0; i < tally.code_count; i++) {
        unsigned long long times = tally.codes[i].times + (tally.codes[i].code == 0 ? tally.glanced : 0);
        printf("%s\"%d\":%llu", i == 0 ? "" : ",", tally.codes[i].code, times);
    }
    printf("},\"remarks\":{");
    for (int i = 0, printed = 0; i < tally.code_count; i++) {
        if (tally.codes[i].remark[0] != '\0') {
            printf("%s\"%d\":", printed++ == 0 ? "" : ",", tally.codes[i].code);
            print_text(tally.codes[i].remark);
        }
    }
    printf("},\"error\":");
    if (tally.failure[0] == '\0') {
        printf("null}\n");
    } else {
        print_text(tally.failure);
        printf("}\n");
    }
}
