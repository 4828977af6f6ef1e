/* CPU time spent, in seconds, as the kernel accounts it. */
#ifndef SMARTGO_LOAD_CPU_H
#define SMARTGO_LOAD_CPU_H

struct cpu {
    double user;
    double system;
};

/* This process. */
struct cpu own_cpu(void);
/* The whole process `pid`, ended threads included, in clock ticks of 10 ms. Returns 0, or -1 when it is gone. */
int process_cpu(int pid, struct cpu *spent);
/* The main thread of process `pid` alone; returns as process_cpu() does. */
int main_thread_cpu(int pid, struct cpu *spent);

#endif
