#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const MODES[] = {"send", "batch", "pull", "idle"};

struct options options = {
    .mode = MODE_SEND,
    .host = "127.0.0.1",
    .port = "10911",
    .queues = 8,
    .connections = 16,
    .outstanding = 32,
    .size = 1024,
    .batch = 200,
    .warm_up = 0.5,
    .seconds = 3,
    .timeout = 10,
    .group = "bench",
    .tag = "TagA",
    .broker = "broker-a",
};

void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static long long integer(const char *name, const char *value, long long least, long long most)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || parsed < least || parsed > most) {
        usage_error("--%s: a whole number from %lld to %lld, not %s", name, least, most, value);
    }
    return parsed;
}

static double decimal(const char *name, const char *value)
{
    char *end;
    double parsed = strtod(value, &end);
    if (end == value || *end != '\0' || !(parsed >= 0 && parsed <= 1e6)) {
        usage_error("--%s: a number up to a million, not %s", name, value);
    }
    return parsed;
}

static const char HELP[] =
    "load --mode send|batch|pull|idle [options]: load a RocketMQ-compatible broker, print one line of JSON\n"
    "  --host 127.0.0.1 --port 10911   the broker's main port\n"
    "  --topics a,b  --queues 8        where to send or what to pull, taken in turn; they must exist\n"
    "  --spread N                      N topics, named by the one given: NAME-0 to NAME-(N-1)\n"
    "  --connections 16 --outstanding 32\n"
    "  --size 1024                     bytes of body of a message sent\n"
    "  --batch 200                     messages a batch, or at most so many a pull\n"
    "  --warm-up 0.5 --seconds 3       seconds before and in the measured window\n"
    "  --count N                       instead: no warm-up, measure until N messages were stored or pulled\n"
    "  --rate R                        at most R messages a second; default: as fast as they are answered\n"
    "  --timeout 10                    seconds without an answer that end the run\n"
    "  --binary                        ROCKETMQ (binary) headers instead of JSON\n"
    "  --bare                          messages of a batch have no properties, so no key that the broker indexes\n"
    "  --from N                        offset in each queue at which pulls begin\n"
    "  --pid N                         process whose CPU time is read at both ends of the window\n"
    "  --group bench --tag TagA --broker broker-a\n";

void read_options(int count, char **arguments)
{
    enum { HOST = 1, PORT, TOPICS, QUEUES, CONNECTIONS, OUTSTANDING, SIZE, BATCH, WARM_UP, SECONDS, COUNT, RATE, TIMEOUT,
           BINARY, BARE, FROM, SPREAD, PID, GROUP, TAG, BROKER, MODE, WANTED_HELP };
    static const struct option names[] = {
        {"host", 1, NULL, HOST}, {"port", 1, NULL, PORT}, {"topics", 1, NULL, TOPICS}, {"queues", 1, NULL, QUEUES},
        {"connections", 1, NULL, CONNECTIONS}, {"outstanding", 1, NULL, OUTSTANDING}, {"size", 1, NULL, SIZE},
        {"batch", 1, NULL, BATCH}, {"warm-up", 1, NULL, WARM_UP}, {"seconds", 1, NULL, SECONDS},
        {"count", 1, NULL, COUNT}, {"rate", 1, NULL, RATE}, {"timeout", 1, NULL, TIMEOUT},
        {"binary", 0, NULL, BINARY}, {"bare", 0, NULL, BARE}, {"from", 1, NULL, FROM}, {"spread", 1, NULL, SPREAD},
        {"pid", 1, NULL, PID},
        {"group", 1, NULL, GROUP}, {"tag", 1, NULL, TAG}, {"broker", 1, NULL, BROKER}, {"mode", 1, NULL, MODE},
        {"help", 0, NULL, WANTED_HELP}, {NULL, 0, NULL, 0}};
    int chosen;
    int index = 0;
    options.topics = strdup("BenchLoad");
    while ((chosen = getopt_long(count, arguments, "", names, &index)) != -1) {
        const char *name = names[index].name;
        switch (chosen) {
        case HOST: options.host = optarg; break;
        case PORT: options.port = optarg; break;
        case TOPICS: options.topics = optarg; break;
        case QUEUES: options.queues = (int)integer(name, optarg, 1, 4096); break;
        case CONNECTIONS: options.connections = (int)integer(name, optarg, 1, 65535); break;
        case OUTSTANDING: options.outstanding = (int)integer(name, optarg, 1, 4096); break;
        case SIZE: options.size = (int)integer(name, optarg, 1, 4 * 1024 * 1024); break;
        case BATCH: options.batch = (int)integer(name, optarg, 1, 10000); break;
        case WARM_UP: options.warm_up = decimal(name, optarg); break;
        case SECONDS: options.seconds = decimal(name, optarg); break;
        case COUNT: options.count = integer(name, optarg, 1, 1000000000000); break;
        case RATE: options.rate = decimal(name, optarg); break;
        case TIMEOUT: options.timeout = decimal(name, optarg); break;
        case BINARY: options.binary = 1; break;
        case BARE: options.bare = 1; break;
        case FROM: options.from = integer(name, optarg, 0, 1000000000000); break;
        case SPREAD: options.spread = (int)integer(name, optarg, 1, 100000); break;
        case PID: options.pid = (int)integer(name, optarg, 1, 1 << 30); break;
        case GROUP: options.group = optarg; break;
        case TAG: options.tag = optarg; break;
        case BROKER: options.broker = optarg; break;
        case MODE:
            options.mode = MODE_SEND;
            while (options.mode <= MODE_IDLE && strcmp(optarg, MODES[options.mode]) != 0) {
                options.mode++;
            }
            if (options.mode > MODE_IDLE) {
                usage_error("--mode: one of send, batch, pull, idle, not %s", optarg);
            }
            break;
        case WANTED_HELP: fputs(HELP, stdout); exit(0);
        default: usage_error("--help tells the options");
        }
    }
    if (optind < count) {
        usage_error("%s is not an option", arguments[optind]);
    }
    if (strlen(options.tag) > 100 || strlen(options.group) > 255 || strlen(options.broker) > 255) {
        usage_error("tag, group or broker name too long");
    }
    if (options.mode == MODE_IDLE) {
        if (options.count != 0) {
            usage_error("--count: an idle run takes its --seconds");
        }
        options.outstanding = 1;
    }
}
