// Threads that come and go, each with three calls; then how many descriptors and maps this process has.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *name;

static void *work(void *unused) {
    char data[100];
    int file = open(name, O_RDONLY);
    if (read(file, data, sizeof data) != sizeof data)
        _exit(1);
    close(file);
    return unused;
}

int main(int count, char **arguments) {
    name = arguments[1];
    for (int turn = 0; turn < atoi(arguments[2]) / 4; turn++) {
        pthread_t threads[4];
        for (int one = 0; one < 4; one++)
            if (pthread_create(&threads[one], 0, work, 0))
                return 2;
        for (int one = 0; one < 4; one++)
            pthread_join(threads[one], 0);
    }
    int lines = 0, letter;
    FILE *maps = fopen("/proc/self/maps", "r");
    while ((letter = fgetc(maps)) != EOF)
        lines += letter == '\n';
    printf("%d %d\n", lines, dup(0));
    return 0;
}
